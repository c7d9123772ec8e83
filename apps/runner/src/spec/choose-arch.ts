/** For which architecture a job's kernel is built, and whether it can be built and run here. */
import { FlashcoreError, type Device } from '@flashcore/shared/contract';
import { archMismatch, type Manifest, type ResolvedVariant } from '@flashcore/shared/kernels';
import { missingCompiler } from '../build/missing-compiler.ts';
import type { Toolchain } from '../build/toolchain.ts';
import type { JobMethod } from '../jobs/job-context.ts';

interface ArchChoice {
  method: JobMethod;
  manifest: Manifest;
  resolved: ResolvedVariant;
  device: Device;
}

/** The target asked for, the device's own, or, to compile only, the least that the kernel can have. */
export function chooseArch(options: ArchChoice): string {
  const { method, manifest, resolved, device } = options;
  const runs = method !== 'build';
  const wanted = resolved.arch ?? device.arch;
  const mismatch = archMismatch(manifest, wanted);
  const target = mismatch && !runs && !resolved.arch ? manifest.minArch : wanted;
  if (runs) requireRunnable(manifest, device, mismatch);
  // Only code for exactly this architecture has its instructions.
  return manifest.exactArch && target.replace(/[af]$/, '') === manifest.minArch.replace(/[af]$/, '')
    ? manifest.minArch
    : target;
}

function requireRunnable(manifest: Manifest, device: Device, mismatch: string | undefined): void {
  if (device.simulated && !manifest.emulated) {
    throw new FlashcoreError(
      'ARCH_UNSUPPORTED',
      { arch: manifest.minArch, supported: device.arch },
      `${manifest.id} needs instructions of ${manifest.minArch} that the emulator does not have: run it on a GPU; here it can only be built`,
    );
  }
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
