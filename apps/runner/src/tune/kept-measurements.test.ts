import { expect, test } from 'vitest';
import { stepKey, type MeasuredOn } from './kept-measurements.ts';

const EMULATOR: MeasuredOn = {
  device: { name: 'CPU emulator', driverVersion: '13.0', simulated: true },
  cases: { digest: 'cases' },
  emulation: () => ({ engine: 'fibres' }),
};
const GPU: MeasuredOn = {
  ...EMULATOR,
  device: { name: 'NVIDIA L4', driverVersion: '13.0', kernelDriverVersion: '580.1', simulated: false },
};
const keyOf = (on: MeasuredOn): string => JSON.stringify(stepKey(['verify', 'build', '1x1x64x64'], on));

test('the key covers what a measurement depends on: an edited cases.yaml, another engine, device or driver', () => {
  const keys = [
    EMULATOR,
    GPU,
    { ...EMULATOR, cases: { digest: 'edited' } },
    { ...EMULATOR, emulation: () => ({ engine: 'ptx' as const }) },
    { ...EMULATOR, device: { ...EMULATOR.device, driverVersion: '13.1' } },
    { ...GPU, device: { ...GPU.device, kernelDriverVersion: '580.2' } },
  ].map(keyOf);
  expect(new Set(keys).size).toBe(keys.length);
  expect(keyOf({ ...EMULATOR })).toBe(keys[0]);
});

test("the key for a GPU does not depend on the emulator's engine", () => {
  expect(keyOf({ ...GPU, emulation: () => ({ engine: 'ptx' }) })).toBe(keyOf(GPU));
});
