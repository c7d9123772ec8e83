/**
 * kernel.yaml: what a kernel is, what it takes, and how it is launched. Data only; adding a kernel touches no
 * TypeScript.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { FlashcoreError } from '../contract/errors.ts';
import { evaluate, type Expression, ExpressionError } from './expression.ts';
import type { OwnGate } from './gates/gate.ts';
import { FindingKind, type Shape } from '../generated/flashcore/runner/v1/kernel_pb.js';
import { compileExpressions } from './manifest-expressions.ts';
import { manifestSchema } from './manifest-schema.ts';
import { DeadlinePassed, withinDeadline } from '../text/deadline.ts';
import { parseYamlFile } from './yaml-file.ts';

/** Real ones take some 10 ms. */
const PARSE_LIMIT_MS = 800;

export const MANIFEST_FILE = 'kernel.yaml';

export interface Manifest {
  /** Where it was read from, for texts. */
  readonly path: string;
  readonly id: string;
  readonly title: string;
  readonly lesson: string;
  /** The step before it on the ladder. */
  readonly after: string | undefined;
  /** The translation unit, relative to the kernel's folder. */
  readonly source: string;
  /** Least architecture ("sm_80"), or the only one where exactArch. */
  readonly minArch: string;
  readonly exactArch: boolean;
  /** False when it needs instructions that the emulator does not have. */
  readonly emulated: boolean;
  readonly math: { inputs: string; accumulate: 'fp16' | 'fp32' | { fp32When: Expression } };
  readonly limits: readonly ManifestLimit[];
  readonly parameters: Readonly<Record<string, ManifestParameter>>;
  readonly configs: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly compile: { fastMath: boolean; maxRegisters: number };
  readonly workspace: readonly { name: string; bytes: Expression }[];
  readonly constants: readonly ManifestConstant[];
  readonly launches: readonly ManifestLaunch[];
  /**
   * The findings that a run of a faulty or a cheating kernel must end with (UNSPECIFIED: none, its trick gains
   * nothing); on a GPU those of `findingsOnGpu`, which see less.
   */
  readonly faulty: { finding: FindingKind; findingsOnGpu: FindingKind[]; shape: Shape } | undefined;
  /** Why there is no USE_WMMA to turn the tensor cores off with; undefined: there is, or the manifest does not say. */
  readonly toggle: string | undefined;
  /** Why it must be neither compared with nor accepted; undefined: it may. */
  readonly deprecated: string | undefined;
  readonly expectations: readonly ManifestExpectation[];
  readonly gates: readonly OwnGate[];
}

/** A figure that a note claimed or projected; `low` and `high` are the same for a single figure. */
export interface ManifestExpectation {
  readonly device: string;
  readonly shape: Shape;
  readonly metric: string;
  readonly low: number;
  readonly high: number;
  readonly unit: string;
  readonly kind: 'projected' | 'claimed' | 'measured';
  readonly source: string;
  readonly neverMeasured: boolean;
  readonly note: string | undefined;
}

export interface ManifestLimit {
  readonly require: Expression;
  readonly because: string;
}
export interface ManifestParameter {
  readonly values: readonly number[];
  readonly default: number;
  /** A fact of the device that takes the default's place: of `values` the one nearest to it. */
  readonly ofDevice?: 'multiprocessors' | undefined;
  readonly about: string;
}

export interface ManifestConstant {
  readonly name: string;
  readonly value: Expression;
  /** Whether the shape decides it: the others are known when the kernel is compiled. */
  readonly ofShape: boolean;
}

export interface ManifestLaunch {
  readonly entry: string;
  readonly when: Expression | undefined;
  readonly grid: readonly [Expression, Expression, Expression];
  readonly block: readonly [Expression, Expression, Expression];
  /** Dynamic shared memory in bytes. */
  readonly sharedBytes: Expression;
  readonly cluster: readonly [Expression, Expression, Expression] | undefined;
  readonly l2Persist: { readonly tensors: readonly TensorName[]; readonly when: Expression | undefined };
  readonly arguments: readonly ManifestArgument[];
}

export const TENSOR_NAMES = ['Q', 'K', 'V', 'O'] as const;
export type TensorName = (typeof TENSOR_NAMES)[number];
export const SWIZZLES = ['none', '32B', '64B', '128B'] as const;
export type Swizzle = (typeof SWIZZLES)[number];

export type ManifestArgument =
  | { kind: 'tensor'; tensor: TensorName }
  | { kind: 'workspace'; name: string }
  | { kind: 'int32'; value: Expression }
  | { kind: 'float32'; value: Expression }
  | { kind: 'tensorMap'; tensor: TensorName; box: readonly Expression[]; swizzle: Swizzle };

/**
 * Reads a manifest; `path` is for texts. Every expression is parsed, and every name in it known. Errors:
 * INVALID_MANIFEST with metadata path and key.
 */
export function parseManifest(yamlText: string, path: string): Manifest {
  try {
    return withinDeadline(PARSE_LIMIT_MS, () => readManifest(yamlText, path));
  } catch (cause) {
    if (!(cause instanceof DeadlinePassed)) throw cause;
    const message = `wanted a manifest that can be read within ${PARSE_LIMIT_MS / 1000} s; make it shorter`;
    throw new FlashcoreError('INVALID_MANIFEST', { path }, `${path}: ${message}`, { cause });
  }
}

function readManifest(yamlText: string, path: string): Manifest {
  const file = parseYamlFile(yamlText, path, manifestSchema);
  const raw = file.value;
  const { compiled, faults } = compileExpressions(raw);
  if (faults.length > 0) throw file.refuse(faults);
  return {
    path,
    id: raw.id,
    title: raw.title,
    lesson: raw.lesson,
    after: raw.after,
    source: raw.source,
    minArch: (raw.arch ?? raw.min_arch)!,
    exactArch: raw.arch !== undefined,
    emulated: raw.emulated,
    parameters: Object.fromEntries(
      Object.entries(raw.parameters).map(([name, { of_device: ofDevice, ...parameter }]) => [
        name,
        { ...parameter, ofDevice },
      ]),
    ),
    configs: raw.configs,
    compile: { fastMath: raw.compile.fast_math, maxRegisters: raw.compile.maxrregcount },
    faulty: raw.faulty && {
      finding: findingNamed(raw.faulty.finding),
      findingsOnGpu: raw.faulty.finding_on_gpu.map(findingNamed),
      shape: raw.faulty.shape,
    },
    toggle: raw.toggle,
    deprecated: raw.deprecated,
    gates: raw.gates,
    expectations: raw.expect.map(({ value, range, never_measured: neverMeasured, note, ...each }) => ({
      ...each,
      low: value ?? range![0],
      high: value ?? range![1],
      neverMeasured,
      note,
    })),
    ...compiled,
  };
}

/** What the tensor cores add up in with these parameters. Errors: INVALID_MANIFEST where the expression has no value. */
export function accumulateOf(
  { math: { accumulate }, path }: Pick<Manifest, 'math' | 'path'>,
  parameters: Readonly<Record<string, number>>,
): 'fp16' | 'fp32' {
  if (typeof accumulate === 'string') return accumulate;
  try {
    return evaluate(accumulate.fp32When, parameters) ? 'fp32' : 'fp16';
  } catch (cause) {
    if (!(cause instanceof ExpressionError)) throw cause;
    const key = 'math.accumulate.fp32_when';
    throw new FlashcoreError('INVALID_MANIFEST', { path, key }, `${path}: ${key}: ${cause.message}`, { cause });
  }
}

/** Reads `folder`/kernel.yaml. Errors: INVALID_MANIFEST, also when the file is not there. */
export async function loadManifest(folder: string): Promise<Manifest> {
  const path = join(folder, MANIFEST_FILE);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const found = code === 'ENOENT' ? `there is no ${path}` : `${path} cannot be read (${code})`;
    throw new FlashcoreError(
      'INVALID_MANIFEST',
      { path },
      `Wanted a kernel folder with a ${MANIFEST_FILE}, but ${found}`,
      { cause },
    );
  }
  return parseManifest(text, path);
}

const findingNamed = (name: 'NONE' | Exclude<keyof typeof FindingKind, 'UNSPECIFIED'>): FindingKind =>
  name === 'NONE' ? FindingKind.UNSPECIFIED : FindingKind[name];
