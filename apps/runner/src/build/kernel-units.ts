import { posix } from 'node:path';
import { isPtxSource, isSpelledEntry, type ResolvedVariant } from '@flashcore/shared/kernels';
import type { AssignedBuilds } from './assigned-builds.ts';
import { clangUnit } from './clang-unit.ts';
import type { CompileUnit } from './compile-unit.ts';
import type { Emulation } from './emulation.ts';
import { emulatorUnit } from './emulator-unit.ts';
import type { ShapeLaunch } from './entry-resources.ts';
import type { HeaderTree } from './header-trees.ts';
import { missingCompiler } from './missing-compiler.ts';
import { nvccUnit } from './nvcc-unit.ts';
import { nvrtcUnit } from './nvrtc-unit.ts';
import { ptxSourceUnit } from './ptx-source-unit.ts';
import type { SnapshotFile } from './source-snapshot.ts';
import { withMarkers } from './spelled-entries.ts';
import type { Compiler, Nvcc } from './compilers.ts';
import type { Toolchain } from './toolchain.ts';

/** A kernel to build and what to build it for. */
export interface BuildSpec {
  kernelId: string;
  /** The kernel's folder, and its translation unit in it. */
  folder: string;
  source: string;
  resolved: ResolvedVariant;
  /** nvcc's target. */
  arch: string;
  /** Build for the emulator too. */
  emulated: boolean;
  /** Every entry that the manifest can launch. */
  entries: readonly string[];
  /** Of the device that it is built for; undefined: not known. */
  multiprocessors?: number | undefined;
  /** Launches of the shapes that the job is about: what occupancy is calculated for. */
  launches: readonly ShapeLaunch[];
  /** Least dynamic shared memory of each launch, which only the compiled code tells. */
  sharedBytes?: number;
  /** Kinds of the arguments of a Triton kernel's function, such as "*fp16"; undefined: not compiled by Triton. */
  tritonTypes?: readonly string[] | undefined;
  /** Entries that are waited for, where entries are compiled apart. Default: all. */
  first?: readonly string[] | undefined;
}

export interface KernelUnitsParts {
  toolchain: Toolchain;
  emulatorFiles: () => SnapshotFile[];
  /** What clang makes PTX with. */
  deviceHeaders: () => SnapshotFile[];
  /** What NVRTC makes PTX with, beside CUDA's headers. */
  standardHeaders: () => SnapshotFile[];
  /** What kernels may include from the host; default: nothing. */
  headers?: () => readonly HeaderTree[];
  /** What another host compiled for the job; default: nothing. */
  assigned?: Pick<AssignedBuilds, 'nvccOf'> | undefined;
}

/** Headers that declare objects in device memory; PTX tells whether code uses them (kept-state.ts). */
const DECLARING_HEADER = /#[ \t]*include[ \t]*[<"](?:cuda|cub|thrust|cute|cutlass|cooperative_groups)[/.]/;

/** What mechanisms/first_entries.cuh defines. */
const ASKS_WHAT_IS_WANTED = 'FLASHCORE_WANTED';

/** What compilers are to do for a kernel. */
export interface KernelCompilation {
  /** All of it. */
  units: CompileUnit[];
  /** nvcc's run for some entries alone; undefined: they are not compiled apart. */
  apart?: (entries: readonly string[]) => CompileUnit;
}

/** Decides what compilers are to do, by which of them are here. */
export class KernelUnits {
  readonly #parts: KernelUnitsParts;

  constructor(parts: KernelUnitsParts) {
    this.#parts = parts;
  }

  /** `emulation`: undefined for a GPU's build. Errors: COMPILER_MISSING. */
  of(spec: BuildSpec, files: readonly SnapshotFile[], emulation: Emulation | undefined): KernelCompilation {
    if (isPtxSource(spec.source)) return { units: [this.#ptxSource(spec, files, emulation)] };
    // What is wanted is said by macros, whose names no C++ spelling can be.
    const asks = files.some(({ text }) => text.includes(ASKS_WHAT_IS_WANTED)) && !spec.entries.some(isSpelledEntry);
    if (asks && !spec.emulated && spec.entries.length > 1) return this.#inParts(spec, files);
    const runsPtx = emulation?.engine === 'ptx';
    const lacksNvcc = emulation?.nvccProblem !== undefined;
    const unitBy = (nvcc: Nvcc): CompileUnit => this.#nvccUnit(nvcc, spec, files, { runsPtx });
    const nvcc = this.#nvccFor(unitBy, { lacksNvcc });
    if (!nvcc && !spec.emulated) throw missingCompiler('nvcc');
    if (runsPtx) return { units: [nvcc ? unitBy(nvcc) : this.#ptxUnit(spec, files, emulation)] };
    return { units: [...(nvcc ? [unitBy(nvcc)] : []), ...(spec.emulated ? [this.module(spec, files)] : [])] };
  }

  /** PTX as it is: of the emulator its PTX engine alone runs it, for which nothing is compiled. */
  #ptxSource(spec: BuildSpec, files: readonly SnapshotFile[], emulation: Emulation | undefined): CompileUnit {
    const { arch, source, kernelId, resolved } = spec;
    const { flags, maxRegisters } = resolved;
    const unitBy = (compiler: Compiler): CompileUnit =>
      ptxSourceUnit({ compiler, arch, files, unit: `kernel/${source}`, name: kernelId, flags, maxRegisters });
    const nvcc = this.#nvccFor(unitBy, { lacksNvcc: emulation?.nvccProblem !== undefined });
    if (nvcc) return unitBy(nvcc);
    if (!spec.emulated) throw missingCompiler('nvcc');
    const { toolchain } = this.#parts;
    const any =
      (emulation?.frontEnd === 'nvrtc' ? toolchain.nvrtc() : undefined) ?? toolchain.clang() ?? toolchain.cxx();
    if (!any) throw missingCompiler('ptx');
    return unitBy(any);
  }

  #inParts(spec: BuildSpec, files: readonly SnapshotFile[]): KernelCompilation {
    const partBy = (nvcc: Nvcc, apart: readonly string[]): CompileUnit => this.#nvccUnit(nvcc, spec, files, { apart });
    const nvcc = this.#nvccFor((each) => partBy(each, spec.entries.slice(0, 1)));
    if (!nvcc) throw missingCompiler('nvcc');
    return { units: [this.#nvccUnit(nvcc, spec, files, {})], apart: (entries) => partBy(nvcc, entries) };
  }

  /** The fibre engine's module; instrumented: one that looks for data races. Errors: COMPILER_MISSING. */
  module(spec: BuildSpec, files: readonly SnapshotFile[], { instrumented = false } = {}): CompileUnit {
    const cxx = this.#parts.toolchain.cxx();
    if (!cxx) throw missingCompiler('g++');
    return emulatorUnit({
      cxx,
      files,
      emulatorFiles: this.#parts.emulatorFiles(),
      unit: `kernel/${spec.source}`,
      name: spec.kernelId,
      defines: spec.resolved.defines,
      entries: spec.entries,
      instrumented,
    });
  }

  /** PTX where no nvcc makes it. */
  #ptxUnit(spec: BuildSpec, files: readonly SnapshotFile[], { frontEnd }: Emulation): CompileUnit {
    const { toolchain, standardHeaders, deviceHeaders } = this.#parts;
    const common = this.#common(spec, files);
    const nvrtc = frontEnd === 'nvrtc' ? toolchain.nvrtc() : undefined;
    const { maxRegisters } = spec.resolved;
    if (nvrtc) return nvrtcUnit({ ...common, nvrtc, maxRegisters, standardHeaders: standardHeaders() });
    const clang = toolchain.clang();
    if (!clang) throw missingCompiler('ptx');
    return clangUnit({ ...common, clang, deviceHeaders: deviceHeaders() });
  }

  /** By which nvcc another host has compiled it for this one, or else this host's own. */
  #nvccFor(unitBy: (nvcc: Nvcc) => CompileUnit, { lacksNvcc = false } = {}): Nvcc | undefined {
    return this.#parts.assigned?.nvccOf(unitBy) ?? (lacksNvcc ? undefined : this.#parts.toolchain.nvcc());
  }

  #nvccUnit(
    nvcc: Nvcc,
    spec: BuildSpec,
    files: readonly SnapshotFile[],
    { apart, runsPtx = false }: { apart?: readonly string[]; runsPtx?: boolean },
  ): CompileUnit {
    const { resolved, entries } = spec;
    return nvccUnit({
      ...this.#common(spec, files),
      nvcc,
      maxRegisters: resolved.maxRegisters,
      keepPtx: resolved.keepPtx || runsPtx || files.some(({ text }) => DECLARING_HEADER.test(text)),
      entries,
      apart,
    });
  }

  /** What every compiler of device code is told. */
  #common({ arch, source, kernelId, resolved, entries }: BuildSpec, files: readonly SnapshotFile[]) {
    return {
      arch,
      files: withMarkers(files, `kernel/${posix.normalize(source)}`, entries),
      unit: `kernel/${source}`,
      name: kernelId,
      defines: resolved.defines,
      fastMath: resolved.fastMath,
      flags: resolved.flags,
      headers: this.#parts.headers?.() ?? [],
    };
  }
}
