/** For which architecture a job's kernel is built, and whether it can be built and run here. */
import { FlashcoreError, type Device } from '@flashcore/shared/contract';
import { archMismatch, type Manifest, type ResolvedVariant } from '@flashcore/shared/kernels';
import { missingCompiler } from '../build/missing-compiler.ts';
import type { Toolchain } from '../build/toolchain.ts';
import type { SpecContext } from './spec-context.ts';
import type { JobMethod } from '../jobs/job-context.ts';

interface ArchChoice {
  method: JobMethod;
  manifest: Manifest;
  resolved: ResolvedVariant;
  device: Device;
  engine: SpecContext['engine'];
}

/** The target asked for, the device's own, or, to compile only, the least that the kernel can have. */
export function chooseArch(options: ArchChoice): string {
  const { method, manifest, resolved, device, engine } = options;
  const runs = method !== 'build';
  const wanted = resolved.arch ?? device.arch;
  const mismatch = archMismatch(manifest, wanted);
  // The PTX engine takes code for any architecture.
  const follows = !runs || (device.simulated && manifest.emulated === 'ptx');
  const target = mismatch && follows && !resolved.arch ? manifest.minArch : wanted;
  if (runs) requireRunnable(manifest, { device, engine, mismatch: follows ? undefined : mismatch });
  // Only code for exactly this architecture has its instructions.
  return manifest.exactArch && target.replace(/[af]$/, '') === manifest.minArch.replace(/[af]$/, '')
    ? manifest.minArch
    : target;
}

interface Runnable extends Pick<ArchChoice, 'device' | 'engine'> {
  mismatch: string | undefined;
}

function requireRunnable(manifest: Manifest, { device, engine, mismatch }: Runnable): void {
  if (device.simulated && manifest.emulated === false) {
    throw new FlashcoreError(
      'ARCH_UNSUPPORTED',
      { arch: manifest.minArch, supported: device.arch },
      `${manifest.id} needs instructions of ${manifest.minArch} that the emulator does not have: run it on a GPU; here it can only be built`,
    );
  }
  if (device.simulated && manifest.emulated === 'ptx' && engine?.() === 'fibres')
    throw new FlashcoreError(
      'ARCH_UNSUPPORTED',
      { arch: manifest.minArch, supported: device.arch },
      `${manifest.id} needs the emulator's PTX engine: serve with --emulator-engine ptx on a host that has clang 16 or nvcc, or run it on a GPU; here it can only be built`,
    );
  if (mismatch)
    throw new FlashcoreError(
      'ARCH_UNSUPPORTED',
      { arch: manifest.minArch, supported: device.arch },
      `Cannot run ${manifest.id} on ${device.deviceId}: ${mismatch}`,
    );
}

/** Errors: ARCH_UNSUPPORTED, COMPILER_MISSING; none where jobs are built on other hosts. */
export function requireCompilers(
  toolchain: Toolchain | undefined,
  { arch, emulated }: { arch: string; emulated: boolean },
): void {
  if (!toolchain) return;
  const nvcc = toolchain.nvcc();
  if (nvcc && !nvcc.archs.includes(arch)) {
    throw new FlashcoreError(
      'ARCH_UNSUPPORTED',
      { arch, supported: nvcc.archs.join(',') },
      `Cannot build for ${arch}: this nvcc (${nvcc.version}) supports ${nvcc.archs.join(', ')}`,
    );
  }
  if (!nvcc && !emulated) throw missingCompiler('nvcc');
  if (emulated && !toolchain.cxx()) throw missingCompiler('g++');
}
