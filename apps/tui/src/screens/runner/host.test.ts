import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { HostSchema, JobSchema, JobState, PilotState } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import type { Action } from '../../state/actions.ts';
import { reduce } from '../../state/app-reducer.ts';
import { initialState } from '../../state/app-state.ts';
import { hostRows } from './host.ts';

const START = initialState({ runner: { label: 'gpu01:1', embedded: false }, columns: 80, rows: 24, now: 0 });

const answer = (second: number, smClockMhz: number): Action => ({
  type: 'host',
  host: create(HostSchema, {
    devices: [
      {
        deviceId: 'gpu0',
        name: 'NVIDIA H100',
        memoryBytes: 80n << 30n,
        reading: {
          time: timestampFromMs(second * 1000),
          smClockMhz,
          temperatureC: 54,
          powerW: 412.31,
          powerLimitW: 700,
          memoryUsedBytes: 21n << 30n,
        },
      },
    ],
  }),
});

const rowsAfter = (...actions: Action[]): string[] =>
  hostRows(actions.reduce(reduce, START), 76).map((row) => rowText(row).trimEnd());

test("a GPU's clocks, temperature, power and memory are plotted over time, and a repeated answer is plotted once", () => {
  const rows = rowsAfter(answer(1, 1980), answer(1, 1980), answer(3, 1755), answer(5, 1980));
  expect(rows.filter((row) => /^(SM|temp|power|memory {2}|busy)/.test(row))).toEqual([
    'SM clock     1,980 MHz         █▁█',
    'temperature  54 °C             ▄▄▄',
    'power        412 of 700 W      ▄▄▄',
    'memory       21 GiB of 80 GiB  ▄▄▄',
  ]);
});

test('a GPU without readings shows the reason', () => {
  const host = create(HostSchema, {
    devices: [{ deviceId: 'gpu0', name: 'NVIDIA L4', reading: { missing: 'there is no nvidia-smi on this host' } }],
  });
  expect(rowsAfter({ type: 'host', host })).toContain('clocks not measured: there is no nvidia-smi on this host');
});

test("a gateway's partitions with their activity come before their GPUs, and running jobs show their kernels", () => {
  const name = 'jobs/01234567-89ab-4def-8123-456789abcdef';
  const host = create(HostSchema, {
    devices: [{ deviceId: 'slurm:gpu', name: 'NVIDIA H200' }],
    fleet: {
      partitions: [{ name: 'gpu', deviceName: 'NVIDIA H200' }],
      pilots: [{ schedulerJob: '11', partition: 'gpu', state: PilotState.BUSY, node: 'node9', job: name }],
    },
  });
  const jobs = [create(JobSchema, { name, label: 'flashcore_v6', deviceId: 'slurm:gpu', state: JobState.RUNNING })];
  const rows = rowsAfter({ type: 'host', host }, { type: 'jobs', jobs });
  const places = ['Partitions', 'Pilots', 'slurm:gpu: NVIDIA H200'].map((title) => rows.indexOf(title));
  expect(places).toEqual(places.toSorted((a, b) => a - b));
  expect(places).not.toContain(-1);
  expect(rows.find((row) => row.startsWith('11 '))).toMatch(/ 01234567 flashcore_v6$/);
});
