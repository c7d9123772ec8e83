/** Chooses the architecture to build a job's kernel for, and checks if it can be built and run here. */
import { FlashcoreError, type Device } from '@flashcore/shared/contract';
import { archMismatch, isCubinSource, type Manifest, type ResolvedVariant } from '@flashcore/shared/kernels';
import { BY_OPTION, type Emulation } from '../build/emulation.ts';
import { HOW_TO_GET_PTX, missingCompiler } from '../build/compilers.ts';
import type { SpecContext } from './spec-context.ts';
import type { JobMethod } from '../jobs/job-context.ts';

interface ArchChoice {
  method: JobMethod;
  manifest: Manifest;
  resolved: ResolvedVariant;
  device: Device;
  emulation: SpecContext['emulation'];
}

/**
 * The requested target, by default the device's architecture. If the kernel does not take that architecture, the
 * kernel's minimum is used for a job that only compiles, or if the PTX engine runs the kernel.
 */
export function chooseArch(options: ArchChoice): string {
  const { method, manifest, resolved, device, emulation } = options;
  const runs = method !== 'build';
  const wanted = resolved.arch ?? device.arch;
  const mismatch = archMismatch(manifest, wanted);
  // The PTX engine accepts code for any architecture.
  const follows = !runs || (device.simulated && manifest.emulated === 'ptx');
  const target = mismatch && follows && !resolved.arch ? manifest.minArch : wanted;
  if (runs) requireRunnable(manifest, { device, emulation, mismatch: follows ? undefined : mismatch });
  // Only code for exactly this architecture, such as sm_90a, has the special instructions that the kernel needs.
  return manifest.exactArch && target.replace(/[af]$/, '') === manifest.minArch.replace(/[af]$/, '')
    ? manifest.minArch
    : target;
}

interface Runnable extends Pick<ArchChoice, 'device' | 'emulation'> {
  mismatch: string | undefined;
}

function requireRunnable(manifest: Manifest, { device, emulation, mismatch }: Runnable): void {
  if (device.simulated && manifest.emulated === false) {
    throw new FlashcoreError(
      'ARCH_UNSUPPORTED',
      { arch: manifest.minArch, supported: device.arch },
      isCubinSource(manifest.source)
        ? `${manifest.id} is machine code (${manifest.source}), which the emulator does not run: run it on a GPU, or name the PTX that it was assembled from as the source, which runs here too`
        : `${manifest.id} needs instructions of ${manifest.minArch} that the emulator does not have: run it on a GPU; here it can only be built`,
    );
  }
  const fibres = device.simulated && manifest.emulated === 'ptx' ? fibresOf(emulation) : undefined;
  if (fibres)
    throw new FlashcoreError(
      'ARCH_UNSUPPORTED',
      { arch: manifest.minArch, supported: device.arch },
      `${manifest.id} needs the emulator's PTX engine, and this runner has the fibre engine (${fibres.because}): ${fibres.because === BY_OPTION ? 'serve without that option' : `${HOW_TO_GET_PTX} and start the runner again`}, or run it on a GPU; here it can only be built`,
    );
  if (mismatch)
    throw new FlashcoreError(
      'ARCH_UNSUPPORTED',
      { arch: manifest.minArch, supported: device.arch },
      `Cannot run ${manifest.id} on ${device.deviceId}: ${mismatch}`,
    );
}

function fibresOf(emulation: SpecContext['emulation']): Emulation | undefined {
  const found = emulation?.();
  return found?.engine === 'fibres' ? found : undefined;
}

/** Errors: ARCH_UNSUPPORTED, COMPILER_MISSING; none if jobs are built on other hosts. */
export function requireCompilers(
  { toolchain, emulation }: Pick<SpecContext, 'toolchain' | 'emulation'>,
  { arch, emulated }: { arch: string; emulated: boolean },
): void {
  if (!toolchain) return;
  const emulates = emulated ? emulation?.() : undefined;
  const nvcc = emulates?.nvccProblem !== undefined ? undefined : toolchain.nvcc();
  if (nvcc && !nvcc.archs.includes(arch)) {
    throw new FlashcoreError(
      'ARCH_UNSUPPORTED',
      { arch, supported: nvcc.archs.join(',') },
      `Cannot build for ${arch}: this nvcc (${nvcc.version}) supports ${nvcc.archs.join(', ')}`,
    );
  }
  if (!nvcc && !emulated) throw missingCompiler('nvcc');
  if (emulates?.engine === 'ptx' && !emulates.frontEnd) throw missingCompiler('ptx');
  if (emulated && !toolchain.cxx()) throw missingCompiler('g++');
}
