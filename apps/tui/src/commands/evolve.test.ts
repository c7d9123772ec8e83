import { create } from '@bufbuild/protobuf';
import { DeviceSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { requireRate } from './evolve.ts';

const device = create(DeviceSchema, { deviceId: 'gpu0', name: 'NVIDIA X1' });

test('a budget in dollars needs a device with a known rate; the emulator is free', () => {
  expect(() => requireRate(device, 1)).toThrow(
    /^--max-usd: .*gpu0.* is not: set --usd-per-hour "NVIDIA X1=2\.50" where the runner starts, or give --max-device-seconds/,
  );
  expect(requireRate(device, null)).toBeUndefined();
  expect(requireRate({ ...device, usdPerHour: 2.5 }, 1)).toBeUndefined();
  expect(requireRate({ ...device, simulated: true, usdPerHour: 0 }, 1)).toBeUndefined();
});
