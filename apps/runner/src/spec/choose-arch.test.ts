import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { DeviceSchema } from '@flashcore/shared/contract';
import { loadManifest, resolveVariant } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { chooseArch } from './choose-arch.ts';

const hopper = await loadManifest(join(import.meta.dirname, '../../../../kernels/flashcore_v11'));
const emulator = create(DeviceSchema, { deviceId: 'emulator', arch: 'sm_89', simulated: true });
const choose = (method: 'verify' | 'build', engine: 'fibres' | 'ptx') =>
  chooseArch({
    method,
    manifest: hopper,
    resolved: resolveVariant(hopper),
    device: emulator,
    emulation: () => ({ engine, frontEnd: undefined, because: 'no nvcc or clang found', nvccProblem: undefined }),
  });

test("a kernel for sm_90a is built for sm_90a and runs on the emulator's PTX engine, but not on the fibre engine", () => {
  expect(choose('verify', 'ptx')).toBe('sm_90a');
  expect(choose('build', 'fibres')).toBe('sm_90a');
  expect(() => choose('verify', 'fibres')).toThrow(
    "flashcore_v11 needs the emulator's PTX engine, and this runner has the fibre engine (no nvcc or clang found): install clang 16 or later (apt-get install clang-19, brew install llvm) and start the runner again",
  );
});
