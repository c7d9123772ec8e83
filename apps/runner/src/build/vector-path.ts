import { existsSync, readFileSync } from 'node:fs';

/** The instruction set for which the PTX engine's loops over a warp's 32 lanes are compiled. */
export type VectorPath = 'avx512' | 'avx2' | 'neon' | 'portable';

/** The value of FLASHCORE_EMULATOR_VECTORS; auto: the best path that the processor can run. */
export type VectorsWanted = VectorPath | 'auto';

export const VECTORS_WANTED: readonly VectorsWanted[] = ['auto', 'avx512', 'avx2', 'neon', 'portable'];

/** The host's processor; `features` are named as in /proc/cpuinfo. */
export interface Processor {
  arch: string;
  features: ReadonlySet<string>;
}

interface PathNeeds {
  path: VectorPath;
  /** Node's name of the architecture; undefined: any. */
  arch?: string;
  flags: readonly string[];
  features: readonly string[];
}

// Features of the x86-64 levels in the psABI, which g++ 11 and clang++ 12 know. LZCNT is left out, because some virtual
// machines hide it (`abm`) although they have all other features.
const V3 = ['avx2', 'bmi1', 'bmi2', 'f16c', 'fma', 'movbe'];
const WITHOUT_LZCNT = '-mno-lzcnt';
const V4 = [...V3, 'avx512f', 'avx512bw', 'avx512cd', 'avx512dq', 'avx512vl'];
/** Best first. An architecture's basic features need no flag: NEON on arm64, SSE2 on x64. */
const PATHS: readonly PathNeeds[] = [
  {
    path: 'avx512',
    arch: 'x64',
    flags: ['-march=x86-64-v4', WITHOUT_LZCNT, '-mprefer-vector-width=512'],
    features: V4,
  },
  { path: 'avx2', arch: 'x64', flags: ['-march=x86-64-v3', WITHOUT_LZCNT], features: V3 },
  { path: 'neon', arch: 'arm64', flags: [], features: [] },
  { path: 'portable', flags: [], features: [] },
];

/** The paths that can be compiled for this architecture, whatever the processor's features. */
export const vectorPathsOf = (arch: string): VectorPath[] =>
  PATHS.filter((each) => each.arch === undefined || each.arch === arch).map(({ path }) => path);

export const vectorFlags = (path: VectorPath): string[] => [...PATHS.find((each) => each.path === path)!.flags];

/** The path to load. Errors: RangeError if the processor can't run the wanted path. */
export function chooseVectorPath(wanted: VectorsWanted, processor: Processor): VectorPath {
  const usable = PATHS.filter(
    ({ arch, features }) =>
      (arch === undefined || arch === processor.arch) && features.every((feature) => processor.features.has(feature)),
  ).map(({ path }) => path);
  if (wanted === 'auto') return usable[0]!;
  if (usable.includes(wanted)) return wanted;
  throw new RangeError(`this processor has no ${wanted}: use ${usable.join(' or ')}, or auto`);
}

/** Without /proc/cpuinfo (macOS) no features are known, so an x64 processor gets the portable path. */
export function hostProcessorFeatures(): Processor {
  const text = existsSync('/proc/cpuinfo') ? readFileSync('/proc/cpuinfo', 'utf8') : '';
  const flags = /^(?:flags|Features)\s*:(.*)$/m.exec(text)?.[1] ?? '';
  return { arch: process.arch, features: new Set(flags.trim().split(/\s+/)) };
}
