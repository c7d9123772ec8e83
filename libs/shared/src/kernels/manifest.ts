/**
 * kernel.yaml: what a kernel is, what it takes, and how it is launched. Data only; adding a kernel touches no
 * TypeScript.
 */
import { join } from 'node:path';
import { FlashcoreError } from '../contract/errors.ts';
import { HAND_WRITTEN_BYTES, readForeignText, whyUnreadable } from '../files/foreign-file.ts';
import { evaluate, ExpressionError } from './expression.ts';
import { FindingKind } from '../generated/flashcore/runner/v1/kernel_pb.js';
import { compileExpressions } from './manifest-expressions.ts';
import type { Manifest } from './manifest-model.ts';
import { manifestSchema } from './manifest-schema.ts';
import { DeadlinePassed, withinDeadline } from '../text/deadline.ts';
import { parseYamlFile } from './yaml-file.ts';

/** Real ones take some 10 ms. */
const PARSE_LIMIT_MS = 800;

export const MANIFEST_FILE = 'kernel.yaml';

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
      needsPtxEngine: raw.faulty.engine === 'ptx',
    },
    initialOutput: raw.output?.initial,
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

/**
 * What the tensor cores add up in with these parameters. Errors: INVALID_MANIFEST where the expression has no value.
 */
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
export const loadManifest = (folder: string): Promise<Manifest> =>
  new Promise((resolve) => resolve(manifestIn(folder)));

function manifestIn(folder: string): Manifest {
  const path = join(folder, MANIFEST_FILE);
  return parseManifest(readManifestText(folder, path), path);
}

/** The text of `folder`/kernel.yaml; `path` is what texts call it. Errors: as above. */
export function readManifestText(folder: string, path: string): string {
  try {
    return readForeignText(join(folder, MANIFEST_FILE), HAND_WRITTEN_BYTES);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const found = code === 'ENOENT' ? `there is no ${path}` : `${path} cannot be read (${whyUnreadable(cause)})`;
    throw new FlashcoreError(
      'INVALID_MANIFEST',
      { path },
      `No kernel folder, ${found}: give a folder with a ${MANIFEST_FILE}`,
      { cause },
    );
  }
}

const findingNamed = (name: 'NONE' | Exclude<keyof typeof FindingKind, 'UNSPECIFIED'>): FindingKind =>
  name === 'NONE' ? FindingKind.UNSPECIFIED : FindingKind[name];
