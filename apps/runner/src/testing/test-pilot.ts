import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { DeviceSchema, invalidRequest } from '@flashcore/shared/contract';
import { AssignedBuilds } from '../build/assigned-builds.ts';
import type { PlannerOptions } from '../experiment/planner.ts';
import { flyPilot, type PilotOptions } from '../fleet/pilot.ts';
import type { JobBody, JobPlanner } from '../jobs/job-context.ts';
import { createLogger } from '../log.ts';
import { FAKE_DEVICE, fakePlanner } from './fake-planner.ts';
import { startTestRunner } from './test-runner.ts';

export interface TestPilotOptions extends Pick<
  PilotOptions,
  'gateway' | 'token' | 'signal' | 'firstReachMs' | 'onUnreached'
> {
  /** Body of every kernel on this pilot. */
  body: JobBody;
  /**
   * Planner of the pilot's runner, instead of one with `body` for every kernel; the planner's first device is the
   * pilot's.
   */
  planner?: ((options: PlannerOptions) => JobPlanner) | undefined;
  /** Folder of the gateway's certificates; undefined: plain text. */
  tls?: string | undefined;
  /** Whether the pilot refuses every request. */
  refuse?: boolean;
  buildId?: string;
  /** Called with the options of the pilot's runner before it starts. */
  onRunner?: (options: PlannerOptions) => void;
}

/** Runs a pilot in this process, on a runner with the fake planner and an "NVIDIA L4", until it has ended. */
export async function flyTestPilot(options: TestPilotOptions): Promise<void> {
  const { gateway, token, body, signal, tls, refuse = false, buildId, firstReachMs, onUnreached } = options;
  let asked: PlannerOptions | undefined;
  let device = create(DeviceSchema, { ...FAKE_DEVICE, name: 'NVIDIA L4' });
  const owners = new Map<string, string>();
  await using own = await startTestRunner({
    ownerOf: (requestId) => owners.get(requestId),
    createPlanner: (planner) => {
      asked = { ...planner, assigned: new AssignedBuilds(planner.artifacts) };
      options.onRunner?.(planner);
      if (options.planner) {
        const made = options.planner(asked);
        device = made.devices()[0]!;
        return made;
      }
      const fake = fakePlanner({ bodies: { tree: body } });
      if (!refuse) return fake;
      const planJob = (): never => {
        throw invalidRequest({ field: 'kernel', description: 'must be another' });
      };
      return { ...fake, planJob };
    },
  });
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
    ...(firstReachMs !== undefined && { firstReachMs }),
    ...(onUnreached && { onUnreached }),
  });
}
