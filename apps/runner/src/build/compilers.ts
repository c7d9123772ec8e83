import { existsSync, readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { FlashcoreError } from '@flashcore/shared/contract';
import { cudaVersionIn, type NvrtcPlace } from './nvrtc-place.ts';
import { versionIn } from './tool-answers.ts';

/** A compiler found on this host. */
export interface Compiler {
  name: 'nvcc' | 'nvrtc' | 'g++' | 'clang++' | 'triton';
  path: string;
  /** For example "13.0.88" or "12.2.0". */
  version: string;
  /**
   * Everything that the compiler's output depends on, such as the meaning of `-march=native` here; part of every
   * digest.
   */
  identity: string;
  /** `identity` for code that is not compiled for this host's own processor; undefined if both are equal. */
  anyProcessor?: string;
}

export interface Nvcc extends Compiler {
  /** Architectures for which it makes code: "sm_80" … */
  archs: string[];
}

/** A clang that makes PTX; Apple's clang does not. */
export interface Clang extends Compiler {
  /** Architectures that it knows by name: "sm_80" … */
  archs: string[];
}

/** libnvrtc, run by a program of this repository. */
export interface Nvrtc extends Compiler {
  /** Architectures for which it makes code: "sm_80" … */
  archs: string[];
  place: NvrtcPlace;
  /** Version of CUDA's headers, such as "13.0". */
  headersVersion: string;
}

/**
 * Reads nvcc's version text; its architectures must be asked for separately. Errors of this and the next functions:
 * UnusableCompiler.
 */
export const nvccThatSays = (path: string, said: string): Nvcc => ({
  ...nvccOfVersion(versionIn(said, /V(\d+\.\d+\.\d+)/, path)),
  path,
});

/** Architectures in nvcc's list of code, along with those that nvcc accepts but does not list. */
export const archsIn = (said: string): string[] =>
  withFeatureArchs(said.split(/\s+/).filter((code) => /^sm_\d+$/.test(code)));

/** The nvcc of another host, whose compilations are identified only by its version. */
export const nvccOfVersion = (version: string): Nvcc => ({
  name: 'nvcc',
  path: '',
  version,
  identity: `nvcc ${version}`,
  archs: [],
});

export function nvrtcThatSays(program: string, said: string, place: NvrtcPlace): Nvrtc {
  const version = versionIn(said, /^V(\d+\.\d+\.\d+)/, place.libraries);
  const headersVersion = cudaVersionIn(place.includes[0]!);
  return {
    name: 'nvrtc',
    path: program,
    version,
    identity: `nvrtc ${version}, CUDA's headers ${headersVersion}`,
    archs: withFeatureArchs(said.match(/\bsm_\d+\b/g) ?? []),
    place,
    headersVersion,
  };
}

/** Triton, with the Python that imports it. */
export interface Triton extends Compiler {
  /** The sys.prefix of the Python that imports Triton. */
  prefix: string;
  /** The folder that contains Triton. */
  sitePackages: string;
}

/** Triton, from WHICH_TRITON's output; undefined if there is none. */
export function tritonThatSays(path: string, said: string): Triton | undefined {
  const [version, python, prefix, sitePackages] = said.split('\n').slice(-4);
  if (version === undefined || !/^\d+\.\d+/.test(version) || !sitePackages?.startsWith('/')) return undefined;
  return {
    name: 'triton',
    path,
    version,
    identity: `triton ${version}, Python ${python}`,
    prefix: prefix!,
    sitePackages,
  };
}

/** Reads clang's list of PTX targets; undefined if it has none. */
export function clangThatSays(path: string, said: string): Clang | undefined {
  const version = /\bversion (\d+\.\d+\.\d+)/.exec(said)?.[1];
  const archs = said.match(/\bsm_\d+[af]?\b/g);
  return version && archs
    ? { name: 'clang++', path, version, identity: `clang++ ${version}`, archs: [...archs] }
    : undefined;
}

/** Reads the version of a C++ compiler for this host. */
export function cxxThatSays(path: string, said: string): Compiler {
  const version = versionIn(said, /(\d+\.\d+\.\d+)/, path);
  // On macOS g++ is clang.
  const name = /clang/i.test(said) ? 'clang++' : 'g++';
  const release = said.split('\n')[0]!;
  return {
    name,
    path,
    version,
    identity: `${release} ${hostProcessor()}`,
    anyProcessor: `${release} ${process.platform} ${process.arch}`,
  };
}

/**
 * Adds the architectures that nvcc accepts but does not list, such as sm_90a with its own instructions. They exist from
 * 9.0 on.
 */
function withFeatureArchs(codes: string[]): string[] {
  const sorted = [...new Set(codes)].sort((a, b) => Number(a.slice(3)) - Number(b.slice(3)));
  return sorted.flatMap((code) => (Number(code.slice(3)) >= 90 ? [code, `${code}a`] : [code]));
}

/**
 * Identifies the processor and its features, because code compiled with -march=native may be wrong on a processor with
 * other features.
 */
function hostProcessor(): string {
  const flags = existsSync('/proc/cpuinfo')
    ? (/^(?:flags|Features)\s*:.*$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[0] ?? '')
    : '';
  return `${process.platform} ${process.arch} ${cpus()[0]?.model ?? ''} ${flags}`;
}

/** How a user gets a front end for the emulator's PTX engine. */
export const HOW_TO_GET_PTX = 'install clang 16 or later (apt-get install clang-19, brew install llvm)';

const HOW_TO_GET = {
  nvcc: "Install the CUDA toolkit on the runner's host: a GPU needs nvcc to build for, and none was found on PATH or in CUDA_HOME",
  ptx: `The emulator's PTX engine needs nvcc or clang on PATH, and neither was found: ${HOW_TO_GET_PTX}, or start the runner without --emulator-engine ptx`,
  triton:
    "No Python with Triton was found on the runner's host: run pip install triton there and name that Python in FLASHCORE_PYTHON, or run fa-tui compile where Triton is, which makes a kernel folder of PTX (docs/languages.md)",
  box: "A kernel's Python runs only in a sandbox, and the runner's host has none: install bubblewrap there, or make a kernel folder of PTX with fa-tui compile on a machine that has Triton (docs/languages.md)",
  pytorch:
    "A reference in Python needs PyTorch, and the Python of the runner's host has none: run pip install torch there and name that Python in FLASHCORE_PYTHON (docs/problems.md)",
  'g++':
    "No C++ compiler on PATH, which the emulator and the CPU reference need: install g++ 12 or clang++ 15 or later on the runner's host",
};

/** COMPILER_MISSING with what to do about it. */
export const missingCompiler = (wanted: keyof typeof HOW_TO_GET): FlashcoreError =>
  new FlashcoreError('COMPILER_MISSING', { wanted }, HOW_TO_GET[wanted]);
