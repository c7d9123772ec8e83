import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { create } from '@bufbuild/protobuf';
import { DeviceSchema } from '@flashcore/shared/contract';
import { afterAll, expect, test } from 'vitest';
import { DeviceReadings } from './readings.ts';

const NOW = Date.UTC(2026, 10, 22);
const gpu = (deviceId: string, name: string) => create(DeviceSchema, { deviceId, name });
const DEVICES = [
  gpu('gpu0', 'NVIDIA H100 80GB HBM3'),
  gpu('gpu1', 'NVIDIA L4'),
  create(DeviceSchema, { deviceId: 'emulator', simulated: true }),
];

const folders: string[] = [];
afterAll(() => folders.forEach((folder) => rmSync(folder, { recursive: true })));

/** A program that prints these lines like nvidia-smi, and fails for any other query. */
function fakeSmi(lines: string, status = 0): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'fake-smi-'));
  folders.push(folder);
  const program = path.join(folder, 'nvidia-smi');
  writeFileSync(
    program,
    `#!/bin/sh\n[ "$2" = --format=csv,noheader,nounits ] || exit 9\ncat <<'END'\n${lines}\nEND\nexit ${status}\n`,
  );
  chmodSync(program, 0o755);
  return program;
}

async function readWith(program: string) {
  const readings = new DeviceReadings({ program, now: () => NOW });
  const first = readings.beside(DEVICES).map(({ reading }) => reading?.missing);
  await readings.settled();
  return { first, then: readings.beside(DEVICES).map(({ reading }) => reading) };
}

test('the first answer does not wait for a reading, and later answers have the figures that each GPU reports', async () => {
  const { first, then } = await readWith(
    fakeSmi(
      'NVIDIA H100 80GB HBM3, 1980, 2619, 54, 412.31, 700.00, 21504, 97\nNVIDIA L4, 300, 405, 38, [N/A], 72.00, 1, 0',
    ),
  );
  expect(first).toEqual(['it is being read', 'it is being read', undefined]);
  expect(then).toMatchObject([
    {
      smClockMhz: 1980,
      memoryClockMhz: 2619,
      temperatureC: 54,
      powerW: 412.31,
      powerLimitW: 700,
      memoryUsedBytes: 21504n * 1024n ** 2n,
      utilizationPercent: 97,
    },
    { smClockMhz: 300, temperatureC: 38, powerLimitW: 72 },
    { hostLoad: loadavg()[0], hostCpus: availableParallelism() },
  ]);
  expect(then[1]).not.toHaveProperty('powerW');
});

test.each([
  ['/nowhere/nvidia-smi', /there is no \/nowhere\/nvidia-smi on this host/],
  [fakeSmi('', 6), /ended with status 6/],
  [fakeSmi('NVIDIA L4, 300, 405, 38, 30, 72.00, 1, 0'), /does not list NVIDIA H100 80GB HBM3 in its place/],
])('%s gives the reason why there is no reading', async (program, reason) => {
  const { then } = await readWith(program);
  expect(then[0]?.missing).toMatch(reason);
});
