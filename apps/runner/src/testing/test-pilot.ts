import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { DeviceSchema, invalidRequest } from '@flashcore/shared/contract';
import type { PlannerOptions } from '../experiment/planner.ts';
import { flyPilot } from '../fleet/pilot.ts';
import type { JobBody } from '../jobs/job-context.ts';
import { createLogger } from '../log.ts';
import { FAKE_DEVICE, fakePlanner } from './fake-planner.ts';
import { startTestRunner } from './test-runner.ts';

export interface TestPilotOptions {
  gateway: string;
  token: string;
  /** What every kernel does there. */
  body: JobBody;
  /** As Slurm's TERM does. */
  signal: AbortSignal;
  /** Folder of the gateway's certificates; undefined: plain text. */
  tls?: string | undefined;
  /** It finds fault with every request. */
  refuse?: boolean;
  buildId?: string;
  /** Told of what its runner has before it flies. */
  onRunner?: (options: PlannerOptions) => void;
}

/** A pilot in this process, on a runner with the fake planner and an "NVIDIA L4", until it has landed. */
export async function flyTestPilot(options: TestPilotOptions): Promise<void> {
  const { gateway, token, body, signal, tls, refuse = false, buildId } = options;
  let asked: PlannerOptions | undefined;
  const owners = new Map<string, string>();
  await using own = await startTestRunner({
    ownerOf: (requestId) => owners.get(requestId),
    createPlanner: (planner) => {
      asked = planner;
      options.onRunner?.(planner);
      const fake = fakePlanner({ bodies: { tree: body } });
      if (!refuse) return fake;
      const planJob = (): never => {
        throw invalidRequest({ field: 'kernel', description: 'must be another' });
      };
      return { ...fake, planJob };
    },
  });
  const device = create(DeviceSchema, { ...FAKE_DEVICE, name: 'NVIDIA L4' });
  const runner = {
    ...asked!,
    address: own.runner.address,
    device,
    tools: [],
    owners,
    ...(buildId !== undefined && { buildId }),
  };
  await flyPilot(runner, {
    gateway,
    security: tls === undefined ? undefined : { authority: readFileSync(join(tls, 'ca.crt')) },
    token,
    endsAtMs: Infinity,
    logger: createLogger('silent'),
    signal,
  });
}
