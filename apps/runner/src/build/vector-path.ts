import { existsSync, readFileSync } from 'node:fs';

/** What the loops of the PTX engine over a warp's 32 lanes are compiled for. */
export type VectorPath = 'avx512' | 'avx2' | 'neon' | 'portable';

/** As FLASHCORE_EMULATOR_VECTORS says it: the best that the processor runs, or this one. */
export type VectorsWanted = VectorPath | 'auto';

export const VECTORS_WANTED: readonly VectorsWanted[] = ['auto', 'avx512', 'avx2', 'neon', 'portable'];

/** Of the host: `features` as /proc/cpuinfo names them. */
export interface Processor {
  arch: string;
  features: ReadonlySet<string>;
}

interface PathNeeds {
  path: VectorPath;
  /** As Node names it; undefined: any. */
  arch?: string;
  flags: readonly string[];
  features: readonly string[];
}

// The x86-64 levels of the psABI, which g++ and clang++ know since 11 and 12, without LZCNT: some virtual machines hide
// it (`abm`) and have all the rest.
const V3 = ['avx2', 'bmi1', 'bmi2', 'f16c', 'fma', 'movbe'];
const WITHOUT_LZCNT = '-mno-lzcnt';
const V4 = [...V3, 'avx512f', 'avx512bw', 'avx512cd', 'avx512dq', 'avx512vl'];
/** The best first. What an architecture has anyway needs no flag: NEON on arm64, SSE2 on x64. */
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

/** What can be compiled for processors of this kind, whatever their features. */
export const vectorPathsOf = (arch: string): VectorPath[] =>
  PATHS.filter((each) => each.arch === undefined || each.arch === arch).map(({ path }) => path);

export const vectorFlags = (path: VectorPath): string[] => [...PATHS.find((each) => each.path === path)!.flags];

/** The path to load. Errors: RangeError where the processor can't run what is wanted. */
export function chooseVectorPath(wanted: VectorsWanted, processor: Processor): VectorPath {
  const usable = PATHS.filter(
    ({ arch, features }) =>
      (arch === undefined || arch === processor.arch) && features.every((feature) => processor.features.has(feature)),
  ).map(({ path }) => path);
  if (wanted === 'auto') return usable[0]!;
  if (usable.includes(wanted)) return wanted;
  throw new RangeError(`this processor has no ${wanted}: use ${usable.join(' or ')}, or auto`);
}

/** Where there is no /proc/cpuinfo (macOS) no feature is known, and an x64 processor gets what any of them runs. */
export function hostProcessorFeatures(): Processor {
  const text = existsSync('/proc/cpuinfo') ? readFileSync('/proc/cpuinfo', 'utf8') : '';
  const flags = /^(?:flags|Features)\s*:(.*)$/m.exec(text)?.[1] ?? '';
  return { arch: process.arch, features: new Set(flags.trim().split(/\s+/)) };
}
