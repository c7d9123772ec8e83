import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { DeviceSchema, FleetBuildsSchema, FleetSchema, PilotState } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { PLAIN } from '../../testing/result-fixtures.ts';
import { cellWidth } from '../cells/cell-text.ts';
import { blockRows } from '../cells/cells-painter.ts';
import { plainLines } from '../plain/plain-painter.ts';
import { fleetBlocks } from './fleet.ts';
import { deviceFacts } from './host.ts';

const pilot = { partition: 'gpu', submitTime: timestampFromMs(0), startTime: timestampFromMs(0), lacks: '' };
const LACKS = 'no ncu, no compute-sanitizer, no cuobjdump; its clock is 3600 s off';
const fleet = create(FleetSchema, {
  gpus: { total: 16, free: 3 },
  partitions: [
    {
      name: 'gpu',
      deviceName: 'NVIDIA H200',
      maxPilots: 8,
      freePilots: 1,
      waitingJobs: 41,
      heldSeconds: 7200,
      usedSeconds: 5400,
      gpus: { total: 16, free: 3 },
      clients: [
        { client: 'ada', waitingJobs: 1, runningJobs: 1, recentSeconds: 31, weight: 4 },
        { client: 'bob', waitingJobs: 40, runningJobs: 1, recentSeconds: 1200, weight: 1 },
      ],
    },
  ],
  pilots: [
    { ...pilot, schedulerJob: '11', state: PilotState.BUSY, node: 'node10', job: 'jobs/01234567-89ab', lacks: LACKS },
    { ...pilot, schedulerJob: '12', state: PilotState.BUSY, node: 'node9', job: 'jobs/fedcba98-7654', lacks: LACKS },
    { ...pilot, schedulerJob: '13', state: PilotState.IDLE, node: 'node9', job: '' },
    { ...pilot, schedulerJob: '14', state: PilotState.PENDING, node: '', job: '' },
  ],
});
const about = {
  devices: [create(DeviceSchema, { deviceId: 'slurm:gpu', usdPerHour: 3.5 })],
  titleOf: (job: string) => (job === 'jobs/01234567-89ab' ? 'flashcore_v6 USE_WMMA=0' : undefined),
};

test('the page of a fleet shows where kernels are built, or why they are not built before a GPU is taken', () => {
  const told = (builds: MessageInitShape<typeof FleetBuildsSchema>): string =>
    plainLines(fleetBlocks(create(FleetSchema, { ...fleet, builds: create(FleetBuildsSchema, builds) }), about), {
      ...PLAIN,
      width: 120,
    }).join('\n');
  expect(told({ place: 'on login1 (nvcc 13.0.88), 8 at once', seconds: 12, endedWithoutGpu: 3n })).toMatch(
    /builds +on login1 \(nvcc 13\.0\.88\), 8 at once\n +built +12\.0 s before a GPU was taken, 0 jobs now; 3 jobs needed none/,
  );
  expect(told({ place: "on the pilots' nodes", problem: 'login1: there is no nvcc' })).toContain(
    "on the pilots' nodes; login1: there is no nvcc",
  );
});

test('the page of a fleet has partitions with cost, the queue by user, nodes with missing abilities, and running jobs', () => {
  const lines = plainLines(fleetBlocks(fleet, about), { ...PLAIN, width: 120 });
  expect(lines.slice(0, 22)).toEqual([
    'Partitions  3 of 16 GPUs free',
    '  partition  device       busy  idle  pending  most  waiting  GPUs free    GPU held  in use        cost',
    '  gpu        NVIDIA H200     2     1        1     8       41    3 of 16  2 h 00 min    75 %  7.0000 USD',
    '',
    'Queue by user',
    '  user  partition  waiting  running  used lately  weight',
    '  ada   gpu              1        1         31 s       4',
    '  bob   gpu             40        1  20 min 00 s       1',
    '',
    'Nodes',
    '  node    partition  pilots  busy  jobs',
    '  node9   gpu             2     1  fedcba98',
    '  node10  gpu             1     1  01234567',
    `  node9, node10: ${LACKS}`,
    '',
    'Pilots',
    '  pilot  partition  state    node    since        job',
    '  11     gpu        busy     node10  01-01 00:00  01234567 flashcore_v6 USE_WMMA=0',
    '  12     gpu        busy     node9   01-01 00:00  fedcba98',
    '  13     gpu        idle     node9   01-01 00:00  -',
    '  14     gpu        pending  -       01-01 00:00  -',
    '',
  ]);
});

test.each([80, 120, 200])(
  'at %i columns no line is wider than the screen and nothing important is missing',
  (width) => {
    const rows = blockRows(fleetBlocks(fleet, about), width).map((row) => row.map(({ text }) => text).join(''));
    expect(rows.filter((row) => cellWidth(row) > width)).toEqual([]);
    const text = rows.join(' ').replaceAll(/ +/g, ' ');
    for (const words of [
      'ada',
      'bob',
      'node9',
      'node10',
      '01234567 flashcore_v6 USE_WMMA=0',
      'pending',
      '7.0000',
      LACKS,
    ])
      expect(text).toContain(words);
  },
);

test('a partition shows no memory, rather than 0 B, until a pilot has reported it', () => {
  const labels = (memoryBytes: bigint) => deviceFacts(create(DeviceSchema, { memoryBytes })).map(({ label }) => label);
  expect([labels(0n).includes('memory'), labels(2n ** 37n).includes('memory')]).toEqual([false, true]);
});

test("the emulator's memory is labelled as its host's", () => {
  const device = create(DeviceSchema, { memoryBytes: 2n ** 34n, simulated: true });
  expect(deviceFacts(device).find(({ value }) => value === '16 GiB')?.label).toBe("host's memory");
});
