/**
 * kernel.yaml describes a kernel: its properties, its inputs, and its launches. It is data only, so adding a kernel
 * touches no TypeScript.
 */
import { realpathSync } from 'node:fs';
import { basename, join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { FlashcoreError } from '../contract/errors.ts';
import type { EnumName } from '../contract/names.ts';
import { HAND_WRITTEN_BYTES, readForeignText, whyUnreadable } from '../files/foreign-file.ts';
import { FindingKind, KernelSchema, type Kernel, type SourceFile } from '../generated/flashcore/runner/v1/kernel_pb.js';
import { compileExpressions } from './manifest-expressions.ts';
import type { Manifest } from './manifest-model.ts';
import { tensorParameters } from './manifest-value.ts';
import { isCubinSource, isPtxSource, isTritonSource, manifestSchema, type RawManifest } from './manifest-schema.ts';
import { didYouMean } from '../text/nearest-names.ts';
import { DeadlinePassed, withinDeadline } from '../text/deadline.ts';
import { parseYamlFile, type YamlFile } from '../data/yaml-file.ts';
import {
  PROBLEMS_REMEDY,
  broughtFilesIn,
  broughtProblem,
  installedProblem,
  installedProblems,
} from '../problems/installed-problems.ts';
import type { Problem, ProblemFiles } from '../problems/problem.ts';

/** Time limit on parsing. Real manifests take about 10 ms. */
const PARSE_LIMIT_MS = 800;

export const MANIFEST_FILE = 'kernel.yaml';

/**
 * Parses a manifest; error messages show `path`, and `brought` is the problem that comes with the kernel. All
 * expressions are parsed, and unknown names in them are refused. Errors: INVALID_MANIFEST with metadata path and key.
 */
export function parseManifest(yamlText: string, path: string, brought?: ProblemFiles): Manifest {
  try {
    return withinDeadline(PARSE_LIMIT_MS, () => readManifest(yamlText, path, brought));
  } catch (cause) {
    if (!(cause instanceof DeadlinePassed)) throw cause;
    const message = `must be a manifest that can be read within ${PARSE_LIMIT_MS / 1000} s; make it shorter`;
    throw new FlashcoreError('INVALID_MANIFEST', { path }, `${path}: ${message}`, { cause });
  }
}

function readManifest(yamlText: string, path: string, brought: ProblemFiles | undefined): Manifest {
  const file = parseYamlFile(yamlText, path, manifestSchema);
  const raw = isTritonSource(file.value.source) ? withScratch(file.value) : file.value;
  const { compiled, faults } = compileExpressions(
    raw,
    brought ? broughtProblem(raw.problem, brought) : problemNamed(raw.problem, file),
  );
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
    emulated: raw.emulated && !isCubinSource(raw.source) && (needsPtxEngine(raw) ? 'ptx' : raw.emulated),
    parameters: Object.fromEntries(
      Object.entries(raw.parameters).map(([name, { of_device: ofDevice, ...parameter }]) => [
        name,
        { ...parameter, ofDevice },
      ]),
    ),
    configs: raw.configs,
    compile: { fastMath: raw.compile.fast_math, maxRegisters: raw.compile.maxrregcount, flags: raw.compile.flags },
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

/** The emulator's fibre engine takes only C++ source, and each of its threads runs one CTA at a time. */
const needsPtxEngine = ({ source, launches }: RawManifest): boolean =>
  isPtxSource(source) ||
  isTritonSource(source) ||
  launches.some(({ cooperative, programmatic }) => cooperative || programmatic);

/** Triton adds two pointers to scratch memory; they are null for kernels that use none. */
export const TRITON_SCRATCH_ARGUMENTS = 2;

const withScratch = (raw: RawManifest): RawManifest => ({
  ...raw,
  launches: raw.launches.map((launch) => ({
    ...launch,
    arguments: [...launch.arguments, ...Array.from({ length: TRITON_SCRATCH_ARGUMENTS }, () => null)],
  })),
});

/** The problem that a manifest names. Errors: INVALID_MANIFEST with the manifest's line if it is not installed. */
function problemNamed(id: string, file: YamlFile<unknown>): Problem {
  const installed = installedProblems();
  if (installed.includes(id)) return installedProblem(id);
  const remedy = didYouMean(id, installed) || `: installed are ${installed.join(', ')}; ${PROBLEMS_REMEDY}`;
  throw file.refuse([{ key: ['problem'], message: `unknown problem "${id}"${remedy}` }]);
}

/** Reads `folder`/kernel.yaml. Errors: INVALID_MANIFEST, also if the file is missing. */
export const loadManifest = (folder: string): Promise<Manifest> =>
  new Promise((resolve) => resolve(manifestIn(folder)));

function manifestIn(folder: string): Manifest {
  const path = join(folder, MANIFEST_FILE);
  return parseManifest(readManifestText(folder, path), path, broughtFilesIn(folder));
}

/**
 * Reads the text of `folder`/kernel.yaml; error messages call it `path`. A folder made by somebody else may contain
 * links. A link to anything other than a kernel.yaml is not read, because errors quote the faulty text. Errors: those
 * of loadManifest().
 */
export function readManifestText(folder: string, path: string): string {
  try {
    const file = realpathSync(join(folder, MANIFEST_FILE));
    if (basename(file) === MANIFEST_FILE) return readForeignText(file, HAND_WRITTEN_BYTES);
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
  throw new FlashcoreError(
    'INVALID_MANIFEST',
    { path },
    `${path}: must be a ${MANIFEST_FILE}, got a link to another file: put the manifest in its place`,
  );
}

const findingNamed = (name: 'NONE' | EnumName<typeof FindingKind>): FindingKind =>
  name === 'NONE' ? FindingKind.UNSPECIFIED : FindingKind[name];

interface KernelFiles {
  readonly sourceDigest: string;
  readonly codeDigest: string;
  readonly files: SourceFile[];
  readonly notes: string;
}

/** A manifest in the form in which runners and clients list it, with facts about the folder's files. */
export const kernelMessage = (
  manifest: Manifest,
  { sourceDigest, codeDigest, files, notes }: KernelFiles = { sourceDigest: '', codeDigest: '', files: [], notes: '' },
): Kernel =>
  create(KernelSchema, {
    kernelId: manifest.id,
    problem: manifest.problem.id,
    title: manifest.title,
    lesson: manifest.lesson,
    ...(manifest.after !== undefined && { after: manifest.after }),
    parameters: Object.entries(manifest.parameters).map(([name, parameter]) => ({
      name,
      values: parameter.values.map(BigInt),
      defaultValue: BigInt(parameter.default),
      about: parameter.about,
      ofDevice: parameter.ofDevice ?? '',
      decidesTensors: tensorParameters(manifest).includes(name),
    })),
    configs: Object.keys(manifest.configs),
    limits: manifest.limits.map(({ require, because }) => ({ require: require.text, because })),
    minArch: manifest.minArch,
    emulated: manifest.emulated !== false,
    needsPtxEngine: manifest.emulated === 'ptx',
    deprecated: manifest.deprecated ?? '',
    expectations: manifest.expectations.map(({ note, ...each }) => ({ ...each, note: note ?? '' })),
    ...(manifest.faulty && { expectedFinding: manifest.faulty.finding }),
    sourceDigest,
    codeDigest,
    files,
    notes,
  });
