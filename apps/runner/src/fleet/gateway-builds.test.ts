import { hostname } from 'node:os';
import { Outcome, type JobEvent } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createPlanner } from '../experiment/planner.ts';
import type { JobPlanner } from '../jobs/job-context.ts';
import { startTestCluster, type TestCluster, attempts, isGapless } from '../testing/test-cluster.ts';
import { TEST_HOST } from '../testing/test-host.ts';
import { collect, finished, kernel } from '../testing/test-runner.ts';

let cluster: TestCluster;
/** Planners of the pilots' runners, which do not share a build cache with the gateway. */
const planners: JobPlanner[] = [];

beforeAll(async () => {
  cluster = await startTestCluster({
    device: 'emulator',
    builds: 'gateway',
    planner: (options) => {
      const planner = createPlanner({ ...options, isolation: 'none', host: { ...TEST_HOST, buildCache: undefined } });
      planners.push(planner);
      return planner;
    },
  });
});
afterAll(async () => {
  await cluster[Symbol.asyncDispose]();
  await Promise.all(planners.map((planner) => planner.close()));
});

const logs = (events: readonly JobEvent[]): string[] =>
  events.flatMap(({ payload }) => (payload.case === 'logLine' ? [payload.value.text] : []));

test('a compile error ends a job before it has a pilot, with the same result as on a single host', async () => {
  const events = await collect(cluster.client.start('verify', kernel('syntax_error')));
  expect(isGapless(events)).toBe(true);
  expect(attempts(events)).toEqual([]);
  const end = finished(events);
  expect(end).toMatchObject({ outcome: Outcome.COMPILE_FAILED, result: { deviceSeconds: 0 } });
  expect(end.result!.provenance).toMatchObject({
    hostName: hostname(),
    conditions: { notMeasured: 'no device was taken' },
  });
  expect(cluster.pilots.size).toBe(0);
});

test('a build uses no pilot', async () => {
  const end = finished(await collect(cluster.client.start('build', kernel('fa_v1_baseline'))));
  expect(end.outcome).toBe(Outcome.PASSED);
  expect(cluster.pilots.size).toBe(0);
  const { host } = await cluster.client.getHost({});
  expect(host!.fleet!.builds).toMatchObject({ running: 0, endedWithoutGpu: 2n });
  expect(host!.fleet!.builds!.place).toMatch(new RegExp(`^on ${hostname()} \\(`));
});

test("a pilot compiles nothing but uses the gateway's builds, and the result names their host", async () => {
  const settings = { shapes: [parseShape('1x1x64x64')] };
  const events = await collect(cluster.client.start('benchmark', { ...kernel('fa_v1_baseline'), settings }));
  expect(attempts(events)).toEqual(['1: ']);
  const { outcome, result } = finished(events);
  expect(outcome).toBe(Outcome.PASSED);
  const [planner] = planners;
  expect(planner!.cacheUse()).toMatchObject({ misses: 0 });
  expect(planner!.cacheUse().hits).toBeGreaterThan(0);
  const { build } = result!.variants[0]!;
  expect(build!.runs.map(({ hostName }) => hostName)).toEqual(build!.runs.map(() => hostname()));
  // The provenance names the device as the pilot registered it, and the pilot as the gateway submitted it.
  expect(result!.provenance!.device!.deviceId).toBe('slurm:gpu');
  expect([...cluster.pilots.keys()]).toContain(result!.provenance!.schedulerJob);
  expect(isGapless(events)).toBe(true);
  expect(logs(events).filter((line) => line.startsWith('building on')).length).toBeLessThanOrEqual(1);
});
