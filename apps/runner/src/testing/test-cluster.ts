import { join } from 'node:path';
import { freePort } from '@flashcore/shared/testing';
import type { JobEvent } from '@flashcore/shared/contract';
import { readServerTls } from '../access/certificates.ts';
import type { PlannerOptions } from '../experiment/planner.ts';
import { parseFleet } from '../fleet/fleet-file.ts';
import { createGateway } from '../fleet/gateway.ts';
import type { Scheduler } from '../fleet/scheduler.ts';
import type { JobBody, JobPlanner } from '../jobs/job-context.ts';
import { flyTestPilot } from './test-pilot.ts';
import { startTestRunner, temporaryFolder, type TestRunner } from './test-runner.ts';

interface FlyingPilot {
  /** Ends the pilot as Slurm's TERM signal does. */
  terminate: () => void;
  /** Resolves when the pilot has ended, with its error if there was one. */
  landed: Promise<unknown>;
}

export interface TestClusterOptions {
  /** Body of every kernel on pilots, by the number of the attempt. */
  body?: (attempt: number) => JobBody;
  /** Planner of the pilots' runners, instead of `body`. */
  planner?: (options: PlannerOptions) => JobPlanner;
  /** Called with the options of each pilot's runner. */
  onRunner?: (options: PlannerOptions) => void;
  /** The partition's model; default: NVIDIA L4. */
  device?: string;
  /** The hosts that compile kernels; default: pilots. */
  builds?: 'gateway' | 'pilots';
  /** Folder of certificates for pilots over TLS; undefined: a socket. */
  tls?: string;
  /** Address for pilots; default: where the gateway listens. */
  reach?: string;
  beginWithinMs?: number;
  /** Build id of the pilots; default: the gateway's. */
  buildId?: string;
  /** Whether nodes refuse every request. */
  refuse?: boolean;
  /** The owners that the gateway's ownerOf() returns, one per call. */
  owners?: string[];
}

export interface TestCluster extends TestRunner {
  /** Keyed by the scheduler's number. */
  pilots: Map<string, FlyingPilot>;
  /** Address at which pilots register. */
  reach: string;
}

/** A gateway whose scheduler starts pilots in this process. */
export async function startTestCluster(options: TestClusterOptions): Promise<TestCluster> {
  const { tls, beginWithinMs = 10_000, refuse = false, owners = [], builds = 'pilots', device = 'NVIDIA L4' } = options;
  using undo = new DisposableStack();
  const folder = undo.use(temporaryFolder());
  const address = tls ? `127.0.0.1:${await freePort()}` : `unix:${join(folder.path, 'p')}`;
  const file = parseFleet(
    `
listen: ${address}
reach: ${options.reach ?? address}
${tls ? `tls_ca: ${tls}/ca.crt` : ''}
bundle: /opt/flashcore
builds: { at: ${builds} }
partitions:
  - { partition: gpu, device: ${device}, max: 2 }
`,
    'fleet.yaml',
  );
  const pilots = new Map<string, FlyingPilot>();
  const present = new Set<string>();
  let bodies = 0;
  const fly = (token: string, { signal }: AbortController): Promise<void> =>
    flyTestPilot({
      gateway: file.reach,
      token,
      body: (job) => options.body!((bodies += 1))(job),
      planner: options.planner,
      signal,
      tls,
      refuse,
      ...(options.onRunner && { onRunner: options.onRunner }),
      ...(options.buildId !== undefined && { buildId: options.buildId }),
    });
  const scheduler: Scheduler = {
    submit: (_, token) => {
      const id = String(pilots.size + 1);
      const controller = new AbortController();
      const landed = fly(token, controller)
        .catch((error: unknown) => error)
        .finally(() => present.delete(id));
      present.add(id);
      pilots.set(id, { landed, terminate: () => controller.abort() });
      return Promise.resolve(id);
    },
    pilots: () => Promise.resolve(present),
    whyEnded: () => Promise.resolve(undefined),
    cancel: (ids) => {
      for (const id of ids) pilots.get(id)?.terminate();
      return Promise.resolve();
    },
  };
  const gateway = await startTestRunner({
    createPlanner: (planner) =>
      createGateway(planner, {
        file,
        scheduler: () => scheduler,
        tls: tls ? readServerTls(tls) : undefined,
        roundMs: 20,
        beginWithinMs,
      }),
    fleet: file,
    ownerOf: () => owners.shift(),
  });
  const started = undo.move();
  return {
    ...gateway,
    pilots,
    reach: file.reach,
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]();
      for (const { terminate } of pilots.values()) terminate();
      await Promise.all([...pilots.values()].map(({ landed }) => landed));
      started.dispose();
    },
  };
}

/** "2: its pilot has ended": each attempt with the reason why it was necessary. */
export const attempts = (events: readonly JobEvent[]): string[] =>
  events.flatMap(({ payload }) =>
    payload.case === 'attemptStarted' ? [`${payload.value.attempt}: ${payload.value.reason ?? ''}`] : [],
  );

export const warnings = (events: readonly JobEvent[]): string[] =>
  events.flatMap(({ payload }) => (payload.case === 'warning' ? [payload.value.message] : []));

export const isGapless = (events: readonly JobEvent[]): boolean =>
  events.every(({ sequence }, index) => Number(sequence) === index + 1);
