import { posix } from 'node:path';
import {
  isCubinSource,
  isPtxSource,
  isSpelledEntry,
  type ResolvedVariant,
  type TritonMemory,
  type TritonUnit,
} from '@flashcore/shared/kernels';
import type { AssignedBuilds } from './assigned-builds.ts';
import { clangUnit } from './clang-unit.ts';
import type { CompileUnit } from './compile-unit.ts';
import { cubinSourceUnit } from './cubin-source.ts';
import type { Emulation } from './emulation.ts';
import { emulatorUnit } from './emulator-unit.ts';
import type { ShapeLaunch } from './entry-resources.ts';
import type { HeaderTree } from './header-trees.ts';
import { missingCompiler, type Compiler, type Nvcc } from './compilers.ts';
import { nvccUnit, ptxSourceUnit } from './nvcc-unit.ts';
import { nvrtcUnit } from './nvrtc-unit.ts';
import type { SnapshotFile } from './source-snapshot.ts';
import { withMarkers } from './spelled-entries.ts';
import type { Toolchain } from './toolchain.ts';

/** A kernel to build, with its target. */
export interface BuildSpec {
  kernelId: string;
  /** The kernel's folder, and its translation unit in it. */
  folder: string;
  source: string;
  /** Digest of all files of the folder, also of those that are not compiled, such as the manifest. */
  folderDigest: string;
  resolved: ResolvedVariant;
  /** The architecture that nvcc compiles for. */
  arch: string;
  /** Whether to build for the emulator too. */
  emulated: boolean;
  /** Every entry that the manifest can launch. */
  entries: readonly string[];
  /** Multiprocessors of the target device; undefined if unknown. */
  multiprocessors?: number | undefined;
  /** Launches of the job's shapes, for which occupancy is calculated. */
  launches: readonly ShapeLaunch[];
  /** The functions that Triton compiles; undefined if Triton does not compile the kernel. */
  triton?: readonly TritonUnit[] | undefined;
  /** For each entry, memory of a launch that only the compiled code shows; undefined if Triton did not compile it. */
  memory?: ReadonlyMap<string, TritonMemory>;
  /** Entries that the build waits for, if entries are compiled separately. Default: all. */
  first?: readonly string[] | undefined;
}

export interface KernelUnitsParts {
  toolchain: Toolchain;
  emulatorFiles: () => SnapshotFile[];
  /** Headers for clang. */
  deviceHeaders: () => SnapshotFile[];
  /** Headers for NVRTC, along with CUDA's own. */
  standardHeaders: () => SnapshotFile[];
  /** Header folders of the host that kernels may include; default: none. */
  headers?: () => readonly HeaderTree[];
  /** Another host's compilations for the current job; default: none. */
  assigned?: Pick<AssignedBuilds, 'nvccOf'> | undefined;
}

/**
 * Headers that declare objects in device memory. With them, the PTX is kept to see whether code uses the objects
 * (kept-state.ts).
 */
const DECLARING_HEADER = /#[ \t]*include[ \t]*[<"](?:cuda|cub|thrust|cute|cutlass|cooperative_groups)[/.]/;

/** Macro of mechanisms/first_entries.cuh. */
const ASKS_WHAT_IS_WANTED = 'FLASHCORE_WANTED';

/** The compilations that a kernel needs. */
export interface KernelCompilation {
  /** The units that compile the whole kernel. */
  units: CompileUnit[];
  /** Makes nvcc's unit for some of the entries; undefined if entries are not compiled separately. */
  apart?: (entries: readonly string[]) => CompileUnit;
}

/** Decides how a kernel is compiled, depending on the installed compilers. */
export class KernelUnits {
  readonly #parts: KernelUnitsParts;

  constructor(parts: KernelUnitsParts) {
    this.#parts = parts;
  }

  /** `emulation`: undefined for a build for a GPU. Errors: COMPILER_MISSING. */
  of(spec: BuildSpec, files: readonly SnapshotFile[], emulation: Emulation | undefined): KernelCompilation {
    if (isCubinSource(spec.source)) return { units: [this.#cubinSource(spec, files)] };
    if (isPtxSource(spec.source)) return { units: [this.#ptxSource(spec, files, emulation)] };
    // Entries are compiled separately only if the kernel uses the macro and no entry has a C++ spelling, which can't be
    // part of a macro's name.
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

  /**
   * The unit of a kernel whose source is PTX. nvcc assembles it if there is one; the emulator's PTX engine loads the
   * source as it is.
   */
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

  #cubinSource({ arch, source, kernelId }: BuildSpec, files: readonly SnapshotFile[]): CompileUnit {
    const unitBy = (compiler: Compiler): CompileUnit =>
      cubinSourceUnit({ compiler, arch, files, unit: `kernel/${source}`, name: kernelId });
    const nvcc = this.#nvccFor(unitBy);
    if (!nvcc) throw missingCompiler('nvcc');
    return unitBy(nvcc);
  }

  #inParts(spec: BuildSpec, files: readonly SnapshotFile[]): KernelCompilation {
    const partBy = (nvcc: Nvcc, apart: readonly string[]): CompileUnit => this.#nvccUnit(nvcc, spec, files, { apart });
    const nvcc = this.#nvccFor((each) => partBy(each, spec.entries.slice(0, 1)));
    if (!nvcc) throw missingCompiler('nvcc');
    return { units: [this.#nvccUnit(nvcc, spec, files, {})], apart: (entries) => partBy(nvcc, entries) };
  }

  /** The fibre engine's module; `instrumented` makes it look for data races. Errors: COMPILER_MISSING. */
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

  /** The unit that makes PTX on a host without a working nvcc. */
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

  /** The nvcc that another host compiled this unit with, or else this host's own. */
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

  /** The options that every compiler of device code takes. */
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
