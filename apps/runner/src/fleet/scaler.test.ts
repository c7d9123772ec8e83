import { create } from '@bufbuild/protobuf';
import { expect, test, vi } from 'vitest';
import { DeviceSchema, FlashcoreError } from '@flashcore/shared/contract';
import { AssignmentSchema, RegisterSchema } from '@flashcore/shared/fleet';
import { createLogger } from '../log.ts';
import { openDatabase } from '../store/database.ts';
import { FleetTable } from '../store/fleet-table.ts';
import { FAKE_DEVICE } from '../testing/fake-planner.ts';
import { parseFleet } from './fleet-file.ts';
import { PilotPool } from './pilot-pool.ts';
import { Scaler } from './scaler.ts';
import { SchedulerError, type Scheduler } from './scheduler.ts';

const DEVICE = create(DeviceSchema, { ...FAKE_DEVICE, name: 'NVIDIA L4' });
const NODES = [
  { partition: 'gpu', node: 'n1', total: 8, free: 5 },
  { partition: 'gpu', node: 'n2', total: 4, free: 4 },
  { partition: 'shared', node: 'n2', total: 4, free: 4 },
];
const FILE = parseFleet(
  `
listen: 127.0.0.1:1
reach: a:1
bundle: /opt/flashcore
partitions:
  - { partition: gpu, device: NVIDIA L4, max: 3, idle_seconds: 60 }
`,
  'fleet.yaml',
);

function fixture(file = FILE) {
  const table = new FleetTable(openDatabase(':memory:'));
  const clock = { ms: 1_000_000 };
  const logger = createLogger('silent');
  const nowMs = () => clock.ms;
  const pool = new PilotPool({ partitions: file.partitions, table, buildId: 'b', logger, nowMs });
  const present = new Set<string>();
  const tokens = new Map<string, string>();
  const state = {
    queued: 0,
    building: 0,
    /** The number that the scheduler gives the next job; default: an unused number. */
    gives: undefined as string | undefined,
    refused: undefined as Error | undefined,
    /** The partition whose pilots the scheduler refuses; default: all partitions. */
    refusedFor: undefined as string | undefined,
    away: undefined as Error | undefined,
    why: undefined as string | undefined,
    stuck: undefined as string | undefined,
    /** For how many seconds every pilot has run. */
    runs: undefined as number | undefined,
    /** Whether every pilot says why it has not registered. */
    failing: false,
    node: undefined as string | undefined,
    /** The nodes that accept jobs. */
    nodes: NODES,
    /** The nodes that the last pilot should not run on. */
    avoid: [] as readonly string[],
    /** Refuses a pilot that may not run on this node. */
    onlyNode: undefined as string | undefined,
    uncounted: undefined as Error | undefined,
  };
  const scheduler: Scheduler = {
    submit: (partition, token, avoid) => {
      if (state.onlyNode !== undefined && avoid.includes(state.onlyNode))
        return Promise.reject(new SchedulerError('no such nodes', { refused: true }));
      state.avoid = avoid;
      if (state.refused && (state.refusedFor ?? partition) === partition) return Promise.reject(state.refused);
      const id = state.gives ?? String(tokens.size + 1);
      present.add(id);
      tokens.set(id, token);
      return Promise.resolve(id);
    },
    pilots: () => (state.away ? Promise.reject(state.away) : Promise.resolve(present)),
    whyEnded: () => Promise.resolve(state.why),
    nodeOf: () => state.node,
    whyStuck: () => state.stuck,
    runsUnregistered: (id) =>
      state.runs === undefined
        ? undefined
        : { seconds: state.runs, why: `Look at node n: pilot ${id} is slow`, failing: state.failing },
    gpus: () => (state.uncounted ? Promise.reject(state.uncounted) : Promise.resolve(state.nodes)),
    cancel: (ids) => {
      for (const id of ids) present.delete(id);
      return Promise.resolve();
    },
  };
  const scalerOf = (of: PilotPool) =>
    new Scaler({
      file,
      pool: of,
      table,
      scheduler,
      queued: () => state.queued,
      building: () => state.building,
      logger,
      nowMs,
    });
  const scaler = scalerOf(pool);
  /** Another gateway on the same store. */
  const restarted = () => {
    const fresh = new PilotPool({ partitions: file.partitions, table, buildId: 'b', logger, nowMs });
    return { pool: fresh, scaler: scalerOf(fresh) };
  };
  const dismissed: string[] = [];
  const comes = (id: string, session = id, buildId = 'b') =>
    pool.register(
      create(RegisterSchema, {
        token: tokens.get(id)!,
        session: session.padEnd(43, 'x'),
        buildId,
        node: 'n',
        device: DEVICE,
      }),
      {
        registered: () => undefined,
        assign: () => undefined,
        stop: () => undefined,
        dismiss: (reason) => dismissed.push(`${id}: ${reason}`),
        cut: () => undefined,
      },
    );
  return { scaler, table, state, present, clock, pool, comes, dismissed, restarted };
}

test('submits one pilot per waiting job, up to the maximum', async () => {
  const { scaler, state, present } = fixture();
  await scaler.round();
  expect(present.size).toBe(0);
  state.queued = 2;
  await scaler.round();
  await scaler.round();
  expect(present.size).toBe(2);
  state.queued = 50;
  await scaler.round();
  expect(present.size).toBe(3);
});

test('a pilot without a job is dismissed after its idle time, not earlier', async () => {
  const { scaler, state, clock, comes, dismissed } = fixture();
  state.queued = 1;
  await scaler.round();
  comes('1');
  state.queued = 0;
  clock.ms += 59_000;
  await scaler.round();
  expect(dismissed).toEqual([]);
  clock.ms += 1_000;
  await scaler.round();
  expect(dismissed).toEqual(['1: no job for 60 s']);
});

test('after several pilots have ended before they registered, new pilots are submitted only at intervals, and the reason is reported', async () => {
  const { scaler, state, present, clock, pool, table } = fixture();
  state.queued = 1;
  const problem = () => pool.describe(table.pilots(), { queued: () => 0, clients: () => [] }).schedulerProblem;
  for (let failure = 0; failure < 3; failure += 1) {
    await scaler.round();
    present.clear();
    clock.ms += 11_000;
  }
  await scaler.round();
  expect(problem()).toContain('ended before they registered');
  expect(present.size).toBe(0);
  clock.ms += 61_000;
  await scaler.round();
  expect(present.size).toBe(1);
});

test('the reason why a pilot ended before it registered is shown at once, until another pilot registers', async () => {
  const { scaler, state, present, clock, pool, comes } = fixture();
  const heard: string[] = [];
  const job = new AbortController();
  const waits = pool.take('gpu', 'jobs/1', { signal: job.signal, onProblem: (problem) => heard.push(problem) });
  state.why = 'pilot 1 on n1: Put the bundle where the node can run it';
  await scaler.round();
  present.clear();
  clock.ms += 11_000;
  await scaler.round();
  expect(pool.account.schedulerProblem).toBe(`partition gpu: ${state.why}`);
  expect(heard).toEqual([`partition gpu: ${state.why}`]);
  job.abort(new Error('no longer'));
  await expect(waits).rejects.toThrow('no longer');
  comes('2');
  await scaler.round();
  expect(pool.account.schedulerProblem).toBeUndefined();
});

test('an unreachable scheduler is reported and asked again in the next round', async () => {
  const { scaler, state, present, pool, table } = fixture();
  state.queued = 1;
  state.refused = new SchedulerError('Look at slurmctld: sbatch did not answer', { refused: false });
  await scaler.round();
  expect(pool.describe(table.pilots(), { queued: () => 0, clients: () => [] }).schedulerProblem).toBe(
    'Look at slurmctld: sbatch did not answer',
  );
  state.refused = undefined;
  await scaler.round();
  expect(pool.describe(table.pilots(), { queued: () => 0, clients: () => [] }).schedulerProblem).toBeUndefined();
  expect(present.size).toBe(1);
});

test('a pilot that cannot be recorded, for example on a full disk, is cancelled because it would hold a GPU for nothing', async () => {
  const { scaler, state, present, table } = fixture();
  state.queued = 1;
  const full = vi.spyOn(table, 'submitted').mockImplementation(() => {
    throw new Error('disk full');
  });
  await scaler.round();
  expect(present.size).toBe(0);
  full.mockRestore();
  await scaler.round();
  expect(present.size).toBe(1);
});

test('pilots of an earlier gateway that have ended are not counted as failures', async () => {
  const { table, state, present, clock, comes, scaler, restarted } = fixture();
  state.queued = 3;
  await scaler.round();
  for (const id of ['1', '2', '3']) comes(id);
  const { scaler: second, pool } = restarted();
  present.clear();
  clock.ms += 11_000;
  await second.round();
  expect(pool.describe(table.pilots(), { queued: () => 0, clients: () => [] }).schedulerProblem).toBeUndefined();
  expect(present.size).toBe(3);
});

test('a scheduler that was unreachable when the gateway started is asked again even if no job waits', async () => {
  const { scaler, pool, state } = fixture();
  pool.account.schedulerProblem = 'Look at slurmctld: sinfo did not answer';
  state.away = new SchedulerError('Look at slurmctld: squeue did not answer', { refused: false });
  await scaler.round();
  expect(pool.account.schedulerProblem).toBe('Look at slurmctld: squeue did not answer');
  state.away = undefined;
  await scaler.round();
  expect(pool.account.schedulerProblem).toBeUndefined();
});

test('a pilot that ran for long without registering is replaced by the next gateway', async () => {
  const { state, present, scaler, restarted } = fixture();
  state.queued = 1;
  await scaler.round();
  const before = [...present];
  state.runs = 14;
  await restarted().scaler.round();
  expect([...present]).toEqual(before);
  state.runs = 15;
  await restarted().scaler.round();
  expect(present.size).toBe(1);
  expect([...present]).not.toEqual(before);
});

test('a pilot that a killed gateway submitted but did not record is cancelled by the next gateway', async () => {
  const { scaler, present } = fixture();
  present.add('stray');
  await scaler.round();
  expect(present.size).toBe(0);
});

test("a pilot whose job number the scheduler has used before is a new pilot; the old pilot's job is lost once it disconnects", async () => {
  const { scaler, state, table, pool, comes } = fixture();
  const signal = new AbortController().signal;
  state.queued = 1;
  await scaler.round();
  const first = comes('1');
  const lease = await pool.take('gpu', 'jobs/1', { signal });
  const { job, owner, attempt, method, request, files, compilations } = create(AssignmentSchema, { job: 'jobs/1' });
  const run = lease.run(
    { job, owner, attempt, method, request, files, compilations },
    { onEvent: () => undefined, signal },
  );
  state.gives = '1';
  await scaler.round();
  const known = () => table.pilots().map(({ id, schedulerJob }) => [id, schedulerJob]);
  expect(known()).toEqual([
    [1, '1'],
    [2, '1'],
  ]);
  comes('1', 'second');
  expect([pool.roster.connected('gpu'), pool.roster.runningJobs('gpu')]).toEqual([2, 1]);
  first.lost('its node was lost');
  await scaler.round();
  await expect(run).rejects.toThrow('its pilot has ended');
  expect(known()).toEqual([[2, '1']]);
  expect([pool.roster.connected('gpu'), pool.roster.runningJobs('gpu')]).toEqual([1, 0]);
});

test('the reason why a pilot was refused is reported at once and until another pilot registers', async () => {
  const { scaler, state, present, clock, pool, comes } = fixture();
  state.queued = 1;
  await scaler.round();
  expect(() => comes('1', undefined, 'another build')).toThrow("Put the gateway's own bundle on the nodes");
  const told = "partition gpu: pilot 1 on n was refused: Put the gateway's own bundle on the nodes";
  await scaler.round();
  expect(pool.account.schedulerProblem).toContain(told);
  present.clear();
  clock.ms += 11_000;
  await scaler.round();
  expect(pool.account.schedulerProblem).toContain(told);
  await scaler.round();
  comes('2');
  await scaler.round();
  expect([pool.account.schedulerProblem, pool.account.refusals.size]).toEqual([undefined, 0]);
});

test('a pilot that the scheduler can never start is reported until it can start', async () => {
  const { scaler, state, pool } = fixture();
  state.queued = 1;
  state.stuck = 'pilot 1 waits, Slurm says PartitionTimeLimit';
  await scaler.round();
  expect(pool.account.schedulerProblem).toBe(`partition gpu: ${state.stuck}`);
  state.stuck = undefined;
  await scaler.round();
  expect(pool.account.schedulerProblem).toBeUndefined();
});

test('if no node of a partition takes jobs, that is reported', async () => {
  const { scaler, state, pool, clock } = fixture();
  state.queued = 1;
  state.nodes = [];
  await scaler.round();
  clock.ms += 16_000;
  await scaler.round();
  expect(pool.account.schedulerProblem).toBe(
    'partition gpu: Resume its nodes (sinfo -R says why they are down or drained): none takes jobs',
  );
  state.nodes = NODES;
  clock.ms += 16_000;
  await scaler.round();
  await scaler.round();
  expect(pool.account.schedulerProblem).toBeUndefined();
});

test('a restarted gateway replaces pilots that can never start, because its fleet file may be corrected', async () => {
  const { scaler, state, present, restarted } = fixture();
  state.queued = 1;
  await scaler.round();
  expect([...present]).toEqual(['1']);
  const { scaler: second } = restarted();
  state.stuck = 'pilot 1 waits, Slurm says PartitionConfig';
  await second.round();
  expect([...present]).toEqual(['2']);
  // Its own pilots wait: a partition that is down may come up.
  await second.round();
  expect([...present]).toEqual(['2']);
});

test('a pilot that runs without registering is reported, and later cancelled, unless the store is full', async () => {
  const { scaler, state, pool, present, comes } = fixture();
  state.queued = 1;
  state.runs = 14;
  const round = async () => {
    await scaler.round();
    return [pool.account.schedulerProblem, [...present]];
  };
  expect(await round()).toEqual([undefined, ['1']]);
  Object.assign(state, { runs: 3, failing: true });
  expect(await round()).toEqual(['partition gpu: Look at node n: pilot 1 is slow', ['1']]);
  Object.assign(state, { runs: 14, failing: false });
  expect(await round()).toEqual([undefined, ['1']]);
  state.runs = 16;
  expect(await round()).toEqual(['partition gpu: Look at node n: pilot 1 is slow', ['1']]);
  state.runs = 200;
  pool.storeFailure = () => new FlashcoreError('DISK_FULL', {}, 'the disk is full');
  expect((await round())[1]).toEqual(['1']);
  pool.storeFailure = () => undefined;
  expect(await round()).toEqual(['partition gpu: Look at node n: pilot 1 is slow', ['2']]);
  comes('2');
  expect(await round()).toEqual([undefined, ['2']]);
});

test('a node on which a pilot failed gets none for ten minutes, unless no other node is left', async () => {
  const { scaler, state, present, clock } = fixture();
  state.queued = 1;
  Object.assign(state, { why: 'pilot 1 on n1: no space is left', node: 'n1' });
  await scaler.round();
  const fails = async () => {
    present.clear();
    clock.ms += 11_000;
    await scaler.round();
    return state.avoid;
  };
  expect(await fails()).toEqual(['n1']);
  state.node = 'n2';
  state.onlyNode = 'n2';
  expect(await fails()).toEqual([]);
  // The failure above was the last one of n1.
  Object.assign(state, { onlyNode: undefined, node: 'n1', why: undefined });
  clock.ms += 60_000;
  expect(await fails()).toEqual([]);
});

test('a pilot that ends at once is reported at once, if the scheduler says that it has ended', async () => {
  const { scaler, state, present, pool, table } = fixture();
  state.queued = 1;
  await scaler.round();
  present.clear();
  // The scheduler's list may lack a new pilot.
  await scaler.round();
  expect([table.pilots().length, pool.account.schedulerProblem]).toEqual([1, undefined]);
  state.why = 'pilot 1 on n1: Put the bundle where the node can run it';
  await scaler.round();
  expect(pool.account.schedulerProblem).toBe(`partition gpu: ${state.why}`);
});

test('if a pilot may start only on a bad node, a pilot for all nodes replaces it', async () => {
  const { scaler, state, present, clock } = fixture();
  state.queued = 1;
  Object.assign(state, { why: 'pilot 1 on n1: no space is left', node: 'n1' });
  await scaler.round();
  // A pilot for all nodes waits for whatever the scheduler says.
  state.stuck = 'Change the cluster: pilot 1 waits';
  await scaler.round();
  expect([[...present], state.avoid]).toEqual([['1'], []]);
  state.stuck = undefined;
  present.clear();
  clock.ms += 11_000;
  await scaler.round();
  expect([[...present], state.avoid]).toEqual([['2'], ['n1']]);
  state.stuck = 'Change the cluster: pilot 2 waits, no node matches its affinity';
  await scaler.round();
  expect([[...present], state.avoid]).toEqual([['3'], []]);
});

test("if the scheduler refuses one partition's pilots, other partitions get theirs, and only the refused partition's jobs are warned", async () => {
  const bad = { ...FILE.partitions[0]!, partition: 'bad' };
  const { scaler, state, present, pool } = fixture({ ...FILE, partitions: [bad, ...FILE.partitions] });
  const heard: string[] = [];
  const { signal } = new AbortController();
  for (const partition of ['bad', 'gpu'])
    void pool.take(partition, `jobs/${partition}`, {
      signal,
      onProblem: (text) => heard.push(`${partition}: ${text}`),
    });
  state.refused = new SchedulerError('Change the fleet file: sbatch said: Invalid account', { refused: true });
  state.refusedFor = 'bad';
  await scaler.round();
  const told = 'partition bad: Change the fleet file: sbatch said: Invalid account';
  expect([present.size, pool.account.schedulerProblem, heard]).toEqual([1, told, [`bad: ${told}`]]);
});

test("the cluster's GPUs are reported, counting a node in two partitions once; a scheduler that cannot count them is tolerated", async () => {
  const { scaler, state, pool, table, clock } = fixture();
  const told = () => {
    const { gpus, partitions, schedulerProblem } = pool.describe(table.pilots(), {
      queued: () => 0,
      clients: () => [],
    });
    const counted = [gpus, partitions[0]!.gpus].map((one) => one && `${one.free} of ${one.total}`);
    return [...counted, schedulerProblem];
  };
  await scaler.round();
  expect(told()).toEqual(['9 of 12', '9 of 12', undefined]);
  state.uncounted = new SchedulerError('Change the fleet file: sinfo said: Invalid field', { refused: true });
  clock.ms += 15_000;
  await scaler.round();
  expect(told()).toEqual([undefined, undefined, undefined]);
  state.uncounted = new SchedulerError('Look at slurmctld: sinfo did not answer', { refused: false });
  clock.ms += 15_000;
  await scaler.round();
  expect(pool.account.schedulerProblem).toBe('Look at slurmctld: sinfo did not answer');
});
