import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { expect, test, vi } from 'vitest';
import { inFull } from '@flashcore/shared/testing';
import {
  DeviceSchema,
  JobEventSchema,
  Outcome,
  WarningSchema,
  JobFinishedSchema,
  JobResultSchema,
  PilotState,
  SourceFileSchema,
  sha256Of,
  type Device,
  type JobEvent,
} from '@flashcore/shared/contract';
import { RegisterSchema } from '@flashcore/shared/fleet';
import { createLogger } from '../log.ts';
import { openDatabase } from '../store/database.ts';
import { FleetTable } from '../store/fleet-table.ts';
import { FAKE_DEVICE } from '../testing/fake-planner.ts';
import type { PartitionSettings } from './fleet-file.ts';
import { LeaseLost, type PilotLink, type PilotSession } from './pilot-link.ts';
import { PilotPool } from './pilot-pool.ts';

const PARTITION: PartitionSettings = {
  partition: 'gpu',
  device: 'NVIDIA L4',
  deviceId: 'slurm:gpu',
  min: 0,
  max: 4,
  idle_seconds: 60,
  time_limit_minutes: 60,
};
const ASSIGNMENT = {
  job: 'jobs/1',
  owner: 'ada',
  attempt: 1,
  method: 'verify',
  request: new Uint8Array(),
  compilations: [],
  files: [],
};
const OWN_DEVICE = create(DeviceSchema, { ...FAKE_DEVICE, name: 'NVIDIA L4' });
const NEVER = new AbortController().signal;

interface Changes {
  buildId?: string;
  token?: string;
  session?: string;
  /** The lease of the job that the pilot has. */
  lease?: number;
  secondsLeft?: number;
  device?: Device;
  /** How far the node's clock is ahead. */
  clockOffMs?: number;
  /** Tools that the node does not have. */
  missing?: string[];
}

const sessionOf = (text: string): string => text.padEnd(43, 'x');

function fixture({ awayMs = 30_000 } = {}) {
  const table = new FleetTable(openDatabase(':memory:'));
  const clock = { ms: 1_000_000 };
  const gateway = () => {
    const pool = new PilotPool({
      partitions: [PARTITION],
      table,
      buildId: 'b1',
      logger: createLogger('silent'),
      nowMs: () => clock.ms,
      awayMs,
    });
    /** Registers a pilot, after submitting it if it is new; `said` collects the gateway's messages to it. */
    const pilot = (schedulerJob: string, changes: Changes = {}) => {
      const token = `token-${schedulerJob}`;
      if (!table.pilots().some((row) => row.schedulerJob === schedulerJob))
        table.submitted({ schedulerJob, partition: 'gpu', submitMs: clock.ms }, token);
      const said: string[] = [];
      const link: PilotLink = {
        registered: ({ lease, afterSequence }) => said.push(`registered ${lease} ${afterSequence}`),
        assign: ({ lease }) => said.push(`lease ${lease}`),
        stop: (lease) => said.push(`stop ${lease}`),
        dismiss: (reason) => said.push(`dismissed: ${reason}`),
        cut: (reason) => said.push(`cut: ${reason}`),
      };
      const register = create(RegisterSchema, {
        token: changes.token ?? token,
        session: changes.session ?? sessionOf(schedulerJob),
        lease: BigInt(changes.lease ?? 0),
        buildId: changes.buildId ?? 'b1',
        node: `node-${schedulerJob}`,
        device: changes.device ?? OWN_DEVICE,
        clockMs: BigInt(clock.ms + (changes.clockOffMs ?? 0)),
        tools: (changes.missing ?? []).map((name) => ({ name, missing: `no ${name} in PATH` })),
        secondsLeft: BigInt(changes.secondsLeft ?? 0),
      });
      const session: PilotSession = pool.register(register, link);
      return { session, said };
    };
    const described = () => pool.describe(table.pilots(), { queued: () => 0, clients: () => [] });
    return { pool, pilot, described };
  };
  return { ...gateway(), table, clock, restarted: gateway };
}

const warning = (text: string): JobEvent =>
  create(JobEventSchema, { payload: { case: 'warning', value: create(WarningSchema, { message: text }) } });
const started = (sequence: number): JobEvent =>
  create(JobEventSchema, { sequence: BigInt(sequence), payload: { case: 'started', value: {} } });
const finished = (): JobEvent =>
  create(JobEventSchema, {
    payload: { case: 'finished', value: create(JobFinishedSchema, { outcome: Outcome.PASSED }) },
  });

test('a pilot registers once by its token and again by its session, and in no other way', () => {
  const { pilot, pool } = fixture();
  const { said } = pilot('1');
  expect(() => pilot('1', { session: sessionOf('another') })).toThrow('its token was used before');
  expect(() => pilot('2', { token: 'guess' })).toThrow('it gave out no such token');
  expect(() => pilot('3', { session: 'short' })).toThrow('session: must be 43 characters');
  const again = pilot('1');
  expect(again.said).toEqual(['registered 0 0']);
  expect(said).toEqual(['registered 0 0', 'cut: the same pilot has registered again']);
  expect(pool.roster.connected('gpu')).toBe(1);
});

test('a pilot from a different build is refused', () => {
  const { pilot, pool } = fixture();
  expect(() => pilot('1', { buildId: 'b2' })).toThrow("Put the gateway's own bundle on the nodes");
  expect(pool.roster.connected('gpu')).toBe(0);
});

test('a job runs under a lease, and events under another lease number are refused and counted', async () => {
  const { pool, pilot, described } = fixture();
  const { session, said } = pilot('1');
  const lease = await pool.take('gpu', 'jobs/1', { signal: NEVER });
  const heard: JobEvent[] = [];
  const end = lease.run(ASSIGNMENT, { onEvent: (event) => heard.push(event), signal: NEVER });
  expect(said.at(-1)).toBe(`lease ${lease.number}`);
  session.event(lease.number, warning('mine'));
  session.event(lease.number - 1, warning('of an older lease'));
  session.event(lease.number + 1, finished());
  session.event(lease.number, finished());
  await expect(end).resolves.toMatchObject({ outcome: Outcome.PASSED });
  session.event(lease.number, warning('too late'));
  expect(heard).toHaveLength(1);
  expect(described()).toMatchObject({
    refusedEvents: 3n,
    lostLeases: 0n,
  });
});

test('a job gets an error if its pilot is lost, and its next lease has a higher number', async () => {
  const { pool, pilot } = fixture();
  const first = pilot('1');
  const lease = await pool.take('gpu', 'jobs/1', { signal: NEVER });
  const end = lease.run(ASSIGNMENT, { onEvent: () => undefined, signal: NEVER });
  const next = pool.take('gpu', 'jobs/1', { signal: NEVER });
  first.session.lost('the node is gone');
  pool.gone(1);
  await expect(end).rejects.toEqual(new LeaseLost('its pilot has ended'));
  pilot('2');
  expect((await next).number).toBeGreaterThan(lease.number);
  expect((await next).node).toBe('node-2');
});

/** A pilot that runs a job; `heard` collects the sequence numbers of the events that the gateway passes on. */
async function running({ pool, pilot }: Pick<ReturnType<typeof fixture>, 'pool' | 'pilot'>, signal = NEVER) {
  const { session, said } = pilot('1');
  const lease = await pool.take('gpu', 'jobs/1', { signal: NEVER });
  const heard: number[] = [];
  const onEvent = ({ sequence }: JobEvent): void => void heard.push(Number(sequence));
  const end = lease.run(ASSIGNMENT, { onEvent, signal });
  return { session, said, heard, end, lease: lease.number };
}

const numbered = (sequence: number, event = warning('')): JobEvent => ({ ...event, sequence: BigInt(sequence) });

test('a pilot whose link broke resumes its job, and no event is lost or repeated', async () => {
  const all = fixture();
  const { session, heard, end, lease } = await running(all);
  session.event(lease, numbered(1));
  session.event(lease, numbered(2));
  session.lost('the network');
  expect(all.described().pilots[0]!.state).toBe(PilotState.AWAY);
  // An event that was in transit when the link broke.
  session.event(lease, numbered(3));
  const again = all.pilot('1', { lease });
  expect(again.said).toEqual([`registered ${lease} 2`]);
  for (const sequence of [2, 3]) again.session.event(lease, numbered(sequence));
  again.session.event(lease, numbered(4, finished()));
  await expect(end).resolves.toMatchObject({ outcome: Outcome.PASSED });
  expect(heard).toEqual([1, 2, 3]);
  expect(all.described()).toMatchObject({
    lostLeases: 0n,
    refusedEvents: 1n,
  });
});

test('an event after a gap is refused, and the pilot sends again from the last event that the gateway has', async () => {
  const all = fixture();
  const { session, said, heard, lease } = await running(all);
  session.event(lease, numbered(1));
  session.event(lease, numbered(3));
  expect(said.at(-1)).toBe(`cut: event 3 of lease ${lease} came after 1`);
  expect(all.pilot('1', { lease }).said).toEqual([`registered ${lease} 1`]);
  expect(heard).toEqual([1]);
});

test('a pilot that comes back without its job, or too late, loses the job', async () => {
  const all = fixture();
  const { session, end, lease } = await running(all);
  session.lost('the network');
  const again = all.pilot('1');
  await expect(end).rejects.toEqual(new LeaseLost('its pilot came back without it'));
  const second = await all.pool.take('gpu', 'jobs/1', { signal: NEVER });
  const gone = second.run(ASSIGNMENT, { onEvent: () => undefined, signal: NEVER });
  again.session.lost('the network');
  all.pool.gone(1);
  await expect(gone).rejects.toThrow('its pilot has ended');
  // The pilot's process still runs, and names the lease that has ended.
  const late = all.pilot('1', { lease: second.number });
  expect(late.said).toEqual(['registered 0 0']);
  late.session.event(second.number, numbered(1, finished()));
  expect(all.described()).toMatchObject({
    lostLeases: 2n,
    refusedEvents: 2n,
  });
  expect(lease).toBeLessThan(second.number);
});

test('a pilot that stays away loses its job', async () => {
  const all = fixture({ awayMs: 1 });
  const { session, end } = await running(all);
  session.lost('the network');
  await expect(end).rejects.toEqual(new LeaseLost('the network'));
});

test('a job that is stopped while its pilot is away is stopped when the pilot comes back', async () => {
  const all = fixture();
  const cancelled = new AbortController();
  const { session, end, lease } = await running(all, cancelled.signal);
  session.lost('the network');
  cancelled.abort();
  const again = all.pilot('1', { lease });
  expect(again.said).toEqual([`registered ${lease} 0`, `stop ${lease}`]);
  again.session.event(lease, numbered(1, finished()));
  await end;
});

test('a restarted gateway resumes the lease of a pilot that comes back with it', async () => {
  const all = fixture();
  const { session, lease } = await running(all);
  session.event(lease, numbered(1));
  all.table.heard(lease, 1);
  const second = all.restarted();
  const taken = second.pool.leaseBefore(all.table.leaseOf('jobs/1')!)!;
  const heard: JobEvent[] = [];
  const end = taken.run(ASSIGNMENT, { onEvent: (event) => heard.push(event), signal: NEVER });
  second.pool.expect(all.table.pilots());
  expect([
    second.pool.roster.runningJobs('gpu'),
    second.pool.roster.connected('gpu'),
    second.pool.roster.stays(1),
  ]).toEqual([1, 0, true]);
  const again = second.pilot('1', { lease });
  expect(again.said).toEqual([`registered ${lease} 1`]);
  again.session.event(lease, numbered(2));
  again.session.event(lease, numbered(3, finished()));
  await expect(end).resolves.toMatchObject({ outcome: Outcome.PASSED });
  expect(heard.map(({ sequence }) => Number(sequence))).toEqual([2]);
  expect((await second.pool.take('gpu', 'jobs/2', { signal: NEVER })).number).toBeGreaterThan(lease);
});

test('a pilot that is leaving gives its job back and gets no other job', async () => {
  const { pool, pilot, described } = fixture();
  const { session, end, lease } = await running({ pool, pilot });
  session.leaving('preempted');
  session.giveBack(lease, 'preempted');
  await expect(end).rejects.toThrow('preempted');
  expect(pool.badNodes.of('gpu', 0)).toEqual([]);
  expect(pool.roster.connected('gpu')).toBe(0);
  expect(described().pilots[0]!.state).toBe(PilotState.LEAVING);
});

test('a pilot with less than a minute left gets no job and is dismissed', async () => {
  const { pool, pilot } = fixture();
  const { session, said } = pilot('1', { secondsLeft: 61 });
  session.alive(59);
  expect(said.at(-1)).toBe('dismissed: its time is nearly over');
  const waiting = pool.take('gpu', 'jobs/1', { signal: NEVER });
  expect(pool.waitingJobs('gpu')).toBe(1);
  pilot('2');
  expect((await waiting).node).toBe('node-2');
});

test('a pilot that could not run its job is dismissed, and the next attempt runs on another pilot', async () => {
  const { pool, pilot } = fixture();
  const { session, said } = pilot('1');
  pilot('2');
  const lease = await pool.take('gpu', 'jobs/1', { signal: NEVER });
  const end = lease.run(ASSIGNMENT, { onEvent: () => undefined, signal: NEVER });
  session.giveBack(lease.number, 'the disk is full');
  await expect(end).rejects.toThrow('the disk is full');
  expect(said.at(-1)).toBe('dismissed: the disk is full');
  expect(pool.badNodes.of('gpu', 0)).toEqual(['node-1']);
  expect((await pool.take('gpu', 'jobs/1', { signal: NEVER })).node).toBe('node-2');
});

test("a node whose device differs from its partition's device is refused", () => {
  const { pilot, pool } = fixture();
  const emulator = create(DeviceSchema, {
    ...FAKE_DEVICE,
    name: 'flashcore CPU emulator (L4 limits)',
    simulated: true,
  });
  expect(() => pilot('1', { device: emulator })).toThrow('partition gpu has NVIDIA L4, a pilot found flashcore CPU');
  expect(() => pilot('2', { device: create(DeviceSchema, { ...FAKE_DEVICE, name: 'NVIDIA H200' }) })).toThrow('H200');
  expect(pool.devices.list()[0]!.name).toBe('NVIDIA L4');
});

const H200 = create(DeviceSchema, { ...OWN_DEVICE, name: 'NVIDIA H200' });
const measured = (result: MessageInitShape<typeof JobResultSchema>) =>
  create(JobEventSchema, { payload: { case: 'finished', value: { outcome: Outcome.PASSED, result } } });

test.each([
  [
    'a result from another device',
    measured({ provenance: { device: H200, runnerBuildId: 'b1' } }),
    /tells of NVIDIA H200/,
  ],
  [
    'a result from another build of the runner',
    measured({ provenance: { device: OWN_DEVICE, runnerBuildId: 'b2' } }),
    /with build b1.*of b2/,
  ],
  [
    "the emulator's times in a result",
    measured({ variants: [{ benchmarks: [{ simulated: true }] }] }),
    /the emulator's times/,
  ],
  [
    "the emulator's times as progress",
    create(JobEventSchema, { payload: { case: 'benchmarkProgress', value: { simulated: true } } }),
    /the emulator's times/,
  ],
  ['a negative device time', measured({ deviceSeconds: -1 }), /of -1 seconds/],
  ['NaN as device time', measured({ deviceSeconds: NaN }), /of NaN seconds/],
  ['an infinite device time', measured({ deviceSeconds: Infinity }), /of Infinity seconds/],
  ['an infinite cost', measured({ costUsd: Infinity }), /Infinity as costUsd/],
  ['NaN as a latency', measured({ variants: [{ benchmarks: [{ latency: { p50Us: NaN } }] }] }), /NaN as p50Us/],
  [
    "a path in place of an artifact's digest",
    measured({ variants: [{ build: { artifacts: [{ sha256: '../flashcore.db' }] } }] }),
    /an artifact by "\.\.\/flashcore\.db"/,
  ],
  [
    'an unknown outcome',
    create(JobEventSchema, { payload: { case: 'finished', value: { outcome: 99 as Outcome } } }),
    /outcome 99/,
  ],
])('a pilot that sends %s loses its job, and the event is not passed on', async (_, event, reason) => {
  const { pool, pilot } = fixture();
  const { session, said } = pilot('1');
  const lease = await pool.take('gpu', 'jobs/1', { signal: NEVER });
  const heard: JobEvent[] = [];
  const end = lease.run(ASSIGNMENT, { onEvent: (told) => heard.push(told), signal: NEVER });
  session.event(lease.number, event);
  await expect(end).rejects.toThrow(reason);
  await expect(end).rejects.toThrow(LeaseLost);
  expect(heard).toEqual([]);
  expect(said.at(-1)).toMatch(/^dismissed: /);
});

test('a pilot can read the files of its job only while it has the job', async () => {
  const { pool, pilot } = fixture();
  const { session } = pilot('1');
  const sha256 = sha256Of('a source');
  const none = 'This pilot has no job, so it may not read or store files';
  expect(() => pool.workOf(sessionOf('1'))).toThrow(none);
  const lease = await pool.take('gpu', 'jobs/1', { signal: NEVER });
  const file = create(SourceFileSchema, { path: 'kernel.yaml', sha256 });
  const end = lease.run({ ...ASSIGNMENT, files: [file] }, { onEvent: () => undefined, signal: NEVER });
  expect(() => pool.workOf(sessionOf('1')).requireReadable('source', sha256)).not.toThrow();
  expect(() => pool.workOf(sessionOf('2'))).toThrow(none);
  session.event(lease.number, finished());
  await end;
  expect(() => pool.workOf(sessionOf('1'))).toThrow(none);
});

test('if an event cannot be stored, its job ends and its pilot stays', async () => {
  const { pool, pilot } = fixture();
  const { session, said } = pilot('1');
  const lease = await pool.take('gpu', 'jobs/1', { signal: NEVER });
  const onEvent = () => {
    throw new Error('the disk is full');
  };
  const end = lease.run(ASSIGNMENT, { onEvent, signal: NEVER });
  session.event(lease.number, warning('x'));
  await expect(end).rejects.toThrow('the disk is full');
  expect(said.at(-1)).toBe(`stop ${lease.number}`);
  expect(pool.roster.connected('gpu')).toBe(1);
});

test('a pilot that does not stop its job within four seconds is given up', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    const { pool, pilot } = fixture();
    const { said } = pilot('1');
    const cancelled = new AbortController();
    const lease = await pool.take('gpu', 'jobs/1', { signal: NEVER });
    const end = lease.run(ASSIGNMENT, { onEvent: () => undefined, signal: cancelled.signal });
    const lost = expect(end).rejects.toThrow('it did not stop its job');
    cancelled.abort();
    vi.advanceTimersByTime(3_999);
    expect(said.at(-1)).toBe(`stop ${lease.number}`);
    vi.advanceTimersByTime(1);
    await lost;
    expect(pool.roster.connected('gpu')).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

test('a job that is stopped while it waits gets no pilot later', async () => {
  const { pool, pilot } = fixture();
  const stopped = new AbortController();
  const waiting = pool.take('gpu', 'jobs/1', { signal: stopped.signal });
  stopped.abort(new Error('cancelled'));
  await expect(waiting).rejects.toThrow('cancelled');
  pilot('1');
  expect(pool.roster.runningJobs('gpu')).toBe(0);
});

test('held seconds and used seconds are counted separately', async () => {
  const { pool, pilot, clock, described } = fixture();
  const { session } = pilot('1');
  clock.ms += 10_000;
  const lease = await pool.take('gpu', 'jobs/1', { signal: NEVER });
  const end = lease.run(ASSIGNMENT, { onEvent: () => undefined, signal: NEVER });
  // The pilot fetches sources and builds before the job starts.
  clock.ms += 5_000;
  session.event(lease.number, started(1));
  clock.ms += 25_000;
  session.event(lease.number, finished());
  await end;
  session.lost('it left');
  clock.ms += 99_000;
  expect(described().partitions[0]).toMatchObject({
    heldSeconds: 40,
    usedSeconds: 25,
  });
});

test("missing tools and a clock that is an hour off are reported, and held time is measured by the gateway's clock", () => {
  const { pilot, clock, described } = fixture();
  pilot('1', { clockOffMs: 3_600_000, missing: ['nvcc', 'ncu', 'bwrap'] });
  clock.ms += 10_000;
  const { pilots, partitions } = described();
  expect(pilots[0]!.lacks).toBe('no nvcc, no ncu, no bwrap; its clock is 3600 s off');
  expect(partitions[0]!.heldSeconds).toBe(10);
});

test('a result that was in transit when the scheduler ended the pilot is used, although the pilot then gives the job back', async () => {
  const all = fixture();
  const { session, end, lease } = await running(all);
  session.leaving('preempted');
  session.event(lease, numbered(1, finished()));
  session.giveBack(lease, 'preempted');
  await expect(end).resolves.toMatchObject({ outcome: Outcome.PASSED });
  expect(all.described()).toMatchObject({
    lostLeases: 0n,
    refusedEvents: 1n,
  });
});

test('a job that is stopped between its lease and its start is assigned and stopped on its pilot', async () => {
  const { pool, pilot } = fixture();
  const { session, said } = pilot('1');
  const cancelled = new AbortController();
  const lease = await pool.take('gpu', 'jobs/1', { signal: cancelled.signal });
  cancelled.abort(new Error('cancelled'));
  const end = lease.run(ASSIGNMENT, { onEvent: () => undefined, signal: cancelled.signal });
  expect(said.slice(1)).toEqual([`lease ${lease.number}`, `stop ${lease.number}`]);
  session.event(lease.number, numbered(1, finished()));
  await end;
  expect(pool.roster.connected('gpu')).toBe(1);
});

test('a job gets an error if its pilot is lost between the lease and the start', async () => {
  const { pool, pilot } = fixture();
  const { session } = pilot('1');
  const lease = await pool.take('gpu', 'jobs/1', { signal: NEVER });
  session.lost('the node is gone');
  pool.gone(1);
  await expect(lease.run(ASSIGNMENT, { onEvent: () => undefined, signal: NEVER })).rejects.toThrow(LeaseLost);
});

test('a pilot cannot register while the store is full, and can once it has space', () => {
  const { pilot, table, pool } = fixture();
  const full = vi.spyOn(table, 'beginSession').mockImplementation(() => {
    throw new Error('disk full');
  });
  expect(() => pilot('1')).toThrow('disk full');
  expect(pool.roster.connected('gpu')).toBe(0);
  full.mockRestore();
  pilot('1');
  expect(pool.roster.connected('gpu')).toBe(1);
});

const PROFILES = () => ({ needs: [], likes: ['ncu'] });
const COMPILES = () => ({ needs: ['nvcc'], likes: [] });

test('a job that wants a profile waits for a node with ncu, and other jobs leave that node free', async () => {
  const { pool, pilot } = fixture();
  pilot('1');
  pilot('2', { missing: ['ncu'] });
  const plain = await pool.take('gpu', 'jobs/plain', { signal: NEVER });
  expect(plain.node).toBe('node-2');
  expect((await pool.take('gpu', 'jobs/profile', { signal: NEVER, wants: PROFILES })).node).toBe('node-1');

  const busy = fixture();
  const able = busy.pilot('1');
  const first = await busy.pool.take('gpu', 'jobs/1', { signal: NEVER });
  const run = first.run(ASSIGNMENT, { onEvent: () => undefined, signal: NEVER });
  busy.pilot('2', { missing: ['ncu'] });
  const waits = busy.pool.take('gpu', 'jobs/2', { signal: NEVER, wants: PROFILES });
  expect((await busy.pool.take('gpu', 'jobs/3', { signal: NEVER })).node).toBe('node-2');
  able.session.event(first.number, finished());
  await run;
  expect((await waits).node).toBe('node-1');
});

test('a job that wants a profile runs without ncu if no node has it, even if the only node with ncu has gone', async () => {
  const { pool, pilot } = fixture();
  const able = pilot('1');
  await pool.take('gpu', 'jobs/1', { signal: NEVER });
  pilot('2', { missing: ['ncu'] });
  const waits = pool.take('gpu', 'jobs/2', { signal: NEVER, wants: PROFILES });
  able.session.leaving('its time is over');
  able.session.lost('it has ended');
  expect((await waits).node).toBe('node-2');
});

test('a job that no node can run is refused with the tools to install; a job that some nodes can run goes to one of them', async () => {
  const { pool, pilot } = fixture();
  const waits = pool.take('gpu', 'jobs/1', { signal: NEVER, wants: COMPILES });
  pilot('1', { missing: ['nvcc', 'ncu'] });
  await expect(waits).rejects.toMatchObject({
    reason: 'COMPILER_MISSING',
    message: expect.stringMatching(/^Install nvcc on the gateway.*nodes of gpu.*\(node-1\)$/) as string,
  });
  expect(pool.waitingJobs('gpu')).toBe(0);
  pilot('2');
  expect((await pool.take('gpu', 'jobs/2', { signal: NEVER, wants: COMPILES })).node).toBe('node-2');
});

test('a pilot whose job was taken away cannot register again, and its session is closed', async () => {
  const { pool, pilot, table } = fixture();
  const { session, end, lease } = await running({ pool, pilot });
  session.event(lease, measured({ deviceSeconds: -1 }));
  await expect(end).rejects.toThrow(LeaseLost);
  session.lost('its link broke');
  expect(() => pilot('1')).toThrow('a job was taken from this pilot');
  expect(pool.roster.connected('gpu')).toBe(0);
  expect(table.pilotOf(sessionOf('1'))).toBeUndefined();
});

test("the bytes of a job's events are limited, log lines excepted, and so is the size of each event", async () => {
  const mebibytes = (count: number) =>
    create(JobEventSchema, {
      payload: {
        case: 'buildResult',
        value: { diagnostics: Array.from({ length: count * 64 }, () => ({ message: 'x'.repeat(16_384) })) },
      },
    });
  const one = () => [mebibytes(17)];
  const many = () => Array.from({ length: 26 }, () => mebibytes(10));
  // The short form leaves out the 260 MiB.
  for (const make of inFull([one, many], (each) => each === one)) {
    const events = make();
    const { pool, pilot } = fixture();
    const { session } = pilot('1');
    const lease = await pool.take('gpu', 'jobs/1', { signal: NEVER });
    let heard = 0;
    const end = lease.run(ASSIGNMENT, { onEvent: () => (heard += 1), signal: NEVER });
    for (const event of events) session.event(lease.number, event);
    await expect(end).rejects.toThrow(/MiB/);
    expect(heard).toBe(events.length - 1);
  }
});

test('long texts from a pilot are cut: device, tools, events, and reasons for giving a job back', async () => {
  const long = 'x'.repeat(1024 ** 2);
  const { pool, pilot } = fixture();
  const device = create(DeviceSchema, { ...OWN_DEVICE, driverVersion: long });
  expect(() => pilot('1', { device })).toThrow('register: must have at most 64 KiB');
  expect(() => pilot('2', { missing: [long] })).toThrow('register: must have at most 64 KiB');
  expect(pool.devices.of('gpu')?.driverVersion).toBe('');
  const { session } = pilot('3');
  const lease = await pool.take('gpu', 'jobs/1', { signal: NEVER });
  const heard: JobEvent[] = [];
  const end = lease.run(ASSIGNMENT, { onEvent: (event) => heard.push(event), signal: NEVER });
  session.event(lease.number, warning(long));
  expect((heard[0]!.payload.value as { message: string }).message).toHaveLength(16_384);
  session.giveBack(lease.number, long);
  const reason = await end.catch((error: unknown) => (error as LeaseLost).message);
  expect((reason as string).length).toBeLessThan(1_000);
});
