import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Argument, Option, type Command } from 'commander';
import { FlashcoreError } from '@flashcore/shared/contract';
import {
  DEFAULT_PROBLEM,
  TENSOR_DTYPES,
  casesSource,
  PROBLEMS_VARIABLE,
  installedProblem,
  installedProblems,
  parseCases,
  referenceSource,
  type TensorDtype,
} from '@flashcore/shared/kernels';
import type {
  CheckedGroup,
  CheckedSymmetry,
  CheckProblemJob,
  MutantCell,
  ProblemCheck,
} from '../../worker/messages/verifying.ts';
import { BuildTools, DEFAULT_HOST } from '../build/build-tools.ts';
import type { BuildListener } from '../build/compile-cache.ts';
import { CompileProgress } from '../build/compile-progress.ts';
import { findBox } from '../sandbox/find-box.ts';
import { readProgram } from '../sandbox/run.ts';
import { judgesRounding } from '../spec/job-spec.ts';
import { ArtifactStore } from '../store/artifacts.ts';
import { workerProgram } from '../sandbox/child.ts';
import { boxedReference, workerEnvironment } from '../workers/worker-entry.ts';

interface Surroundings {
  repositoryRoot: string;
  defaultData: string;
  environment: NodeJS.ProcessEnv;
  say: (line: string) => void;
  /** Takes the work to do after the command line was parsed. */
  defer: (work: () => Promise<void>) => void;
}

interface CheckFlags {
  dtype: TensorDtype;
  tolerance: string;
  data: string;
  json?: boolean;
}

const EXIT_REFUSED = 1;
/** The exit status of worker/check-problem.ts if the definition or its reference is wrong. */
const EXIT_WRONG_DEFINITION = 3;
const SEED = 'c0ffee';
const LIMIT_MS = 3_600_000;
const MAX_OUTPUT_BYTES = 16 * 1024 ** 2;

/**
 * `check-problem`: checks if the cases of problems find their mutants, and if their symmetries hold. Exit status 1: a
 * problem is refused.
 */
export function addCheckCommand(program: Command, surroundings: Surroundings): void {
  program
    .command('check-problem')
    .addArgument(new Argument('[problem]', 'its id (default: all with mutants)').choices(installedProblems()))
    .description(
      'judges the mutants of a problem on its cases and tests its symmetries, without a GPU (docs/problems.md)',
    )
    .addOption(new Option('--dtype <dtype>', 'dtype of the tensors').choices(TENSOR_DTYPES).default('fp16'))
    .option('--tolerance <profile>', 'limit on the error: a profile of cases.yaml', 'parity')
    .option('--data <folder>', 'where the CPU reference is kept once compiled', surroundings.defaultData)
    .option('--json', 'the matrix as JSON')
    .action((id: string | undefined, flags: CheckFlags) => surroundings.defer(() => check(id, flags, surroundings)));
}

async function check(id: string | undefined, flags: CheckFlags, surroundings: Surroundings): Promise<void> {
  const ids = id === undefined ? installedProblems().filter((each) => hasMutants(each)) : [id];
  const checks: ProblemCheck[] = [];
  for (const each of ids) {
    const found = await checkOne(each, flags, surroundings);
    checks.push(found);
    if (!flags.json) for (const line of report(found)) surroundings.say(line);
  }
  if (flags.json) surroundings.say(JSON.stringify(checks, null, 2));
  if (checks.some((each) => refusals(each).length > 0)) process.exitCode = EXIT_REFUSED;
}

const hasMutants = (id: string): boolean => installedProblem(id).mutants.length > 0;

function report(found: ProblemCheck): string[] {
  const refused = refusals(found);
  const verdict =
    refused.length === 0
      ? [`${found.problem}: the cases find all ${found.mutants.length} mutants${heldSymmetries(found)}`]
      : [`${found.problem}: refused`, ...refused.map((line) => `  ${line}`)];
  return [
    `${found.problem}, ${found.dtype}, tolerance ${found.tolerance}: ${LEGEND}`,
    ...matrixLines(found),
    '',
    ...verdict,
    ...(found.leftOut.length > 0
      ? [`  left out, because they change nothing in ${found.dtype}: ${found.leftOut.join(', ')}`]
      : []),
  ];
}

function heldSymmetries({ symmetries }: ProblemCheck): string {
  if (symmetries.length === 0) return '';
  return symmetries.length === 1 ? ', and the symmetry holds' : `, and all ${symmetries.length} symmetries hold`;
}

/** Errors: COMPILER_MISSING, INVALID_MANIFEST, INTERNAL. */
export async function checkOne(
  id: string,
  { dtype, tolerance, data }: Pick<CheckFlags, 'dtype' | 'tolerance' | 'data'>,
  { repositoryRoot, environment }: Pick<Surroundings, 'repositoryRoot' | 'environment'>,
): Promise<ProblemCheck> {
  const problem = installedProblem(id);
  const kernelsFolder = join(repositoryRoot, 'kernels');
  const cases = casesOf(id, kernelsFolder);
  parseCases(cases.text, cases.path, problem);
  const work = mkdtempSync(join(tmpdir(), 'flashcore-check-'));
  try {
    const tools = new BuildTools({
      repositoryRoot,
      dataDirectory: resolve(data),
      kernelsFolder,
      artifacts: new ArtifactStore(join(work, 'artifacts')),
      libraryCache: environment['FLASHCORE_LIBRARY_CACHE'],
      python: environment['FLASHCORE_PYTHON'] || DEFAULT_HOST.python,
      box: () => findBox('auto'),
    });
    const { signal } = new AbortController();
    const tell = (text: string): void => void process.stderr.write(`${text}\n`);
    const listener: BuildListener = {
      signal,
      onLine: (source, line) => source === 'runner' && tell(line),
      progress: new CompileProgress({ say: tell }),
    };
    const job: CheckProblemJob = {
      problem: id,
      cases,
      dtype,
      tolerance,
      referenceLibrary: await tools.libraries.reference(listener),
      seed: SEED,
      judgeRounding: judgesRounding({ tolerance: { profile: tolerance, absolute: 0, relative: 0 } }),
    };
    if (problem.operation === 'own') {
      const program = await tools.libraries.ownReference(referenceSource(problem), listener);
      job.ownReference = await boxedReference(await tools.box(), {
        ...program,
        name: 'check',
        scratch: join(work, 'reference'),
      });
    }
    const file = join(work, 'job.json');
    writeFileSync(file, JSON.stringify(job));
    const program = workerProgram('check-problem', 'check-problem.ts');
    const { output, exitCode, lines } = await readProgram(process.execPath, [program, file], {
      environment: { ...workerEnvironment(), [PROBLEMS_VARIABLE]: process.env[PROBLEMS_VARIABLE] },
      limitMs: LIMIT_MS,
      signal,
      maxBytes: MAX_OUTPUT_BYTES,
    });
    if (exitCode === 0 && output !== undefined) return JSON.parse(output) as ProblemCheck;
    if (exitCode === EXIT_WRONG_DEFINITION) {
      const at = lines.findLastIndex((line) => line.startsWith(`${id}: `));
      const place = lines[at] ?? id;
      throw new FlashcoreError('INVALID_MANIFEST', { path: id }, `${place}: ${lines.slice(at + 1).join('\n')}`);
    }
    const said = lines.slice(-8).join('\n');
    throw new FlashcoreError('INTERNAL', { problem: id }, `${id} could not be checked (status ${exitCode}): ${said}`);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Attention's cases are in the kernels folder. */
function casesOf(id: string, kernelsFolder: string): { text: string; path: string } {
  if (id !== DEFAULT_PROBLEM) return casesSource({ id });
  return { text: readFileSync(join(kernelsFolder, 'cases.yaml'), 'utf8'), path: 'kernels/cases.yaml' };
}

/** Reasons to refuse the problem, one line per mutant, correct answer or symmetry; empty if it passes. */
export function refusals(check: ProblemCheck): string[] {
  const { problem, tolerance, mutants, groups } = check;
  const ofSymmetries = check.symmetries.flatMap(refusalOfSymmetry);
  if (mutants.length === 0) return [`${problem} has no mutants: add \`mutants\` to problem.yaml`, ...ofSymmetries];
  const wronged = groups.flatMap((group) =>
    group.wronged.map(({ case: of, distribution, beyond }) =>
      beyond
        ? `the right ${beyond.output} exceeds ${beyond.dtype}'s range on ${of}, ${distribution}: draw smaller inputs there (value_scale in cases.yaml), or leave the distribution out`
        : `a right answer is called wrong on ${of}, ${distribution}: widen the tolerance \`${tolerance}\` in cases.yaml`,
    ),
  );
  const ofMutants = mutants.flatMap(({ name, place = name }, index) => {
    const cells = groups.flatMap((group) => group.cells[index]!.flat());
    if (cells.includes('found')) return [];
    return cells.includes('missed')
      ? [`${place} survives: add a case or distribution to cases.yaml that finds it`]
      : [`${place} changes nothing on any case: change or remove it, or add a case that it changes`];
  });
  return [...wronged, ...ofMutants, ...ofSymmetries];
}

/** Enough digits to tell values apart that the check calls different. */
const shown = (value: number): string => String(Number(value.toPrecision(8)));

function refusalOfSymmetry({ name, place, cases, fault }: CheckedSymmetry): string[] {
  const symmetry = `${place ?? 'symmetries'} ${name}`;
  if (cases.length === 0)
    return [
      `${symmetry} changes no parity case and no probe, so nobody knows whether it holds: add a case with more than one index along the axis, or leave it out`,
    ];
  if (fault === undefined) return [];
  if ('said' in fault)
    return [
      `${symmetry} does not hold on ${fault.case}: ${fault.said}; leave the symmetry out, or correct its \`of\` or \`when\``,
    ];
  const { output, index, want, got } = fault;
  const element = `${output}[${index.join(', ')}]`;
  return [
    `${symmetry} does not hold on ${fault.case}: of the changed inputs, the reference computes ${element} = ${shown(got)}, and the symmetry promises ${shown(want)}; leave it out, or correct its \`of\` or \`when\``,
  ];
}

const MARKS: Readonly<Record<MutantCell, string>> = { found: 'x', missed: '.', same: '-' };
const LEGEND = 'x found, . missed, - unchanged; no row where a mutant changes nothing';
const LETTERS = 'abcdefghijklmnopqrstuvwxyz';

/**
 * One table per group of cases: a line for each mutant and each case that the mutant changes, a column for each
 * distribution, named by a letter.
 */
export function matrixLines(check: ProblemCheck): string[] {
  return check.groups.flatMap((group) => (group.cases.length === 0 ? [] : ['', ...groupLines(check, group)]));
}

function groupLines({ mutants }: ProblemCheck, { name, cases, distributions, cells }: CheckedGroup): string[] {
  const nameWidth = Math.max(...mutants.map((mutant) => mutant.name.length), name.length);
  const caseWidth = Math.max(...cases.map((each) => each.length));
  const line = (first: string, second: string, marks: string): string =>
    [first.padEnd(nameWidth), second.padEnd(caseWidth), marks].join('  ').trimEnd();
  const letters = distributions.map((_, column) => LETTERS[column % LETTERS.length]!);
  return [
    letters.map((letter, column) => `${letter} ${distributions[column]!}`).join(', '),
    line(name, 'case', letters.join('')),
    ...mutants.flatMap((mutant, index) => {
      const rows = cases.map((each, at) => ({ each, cellsHere: cells[index]![at]! }));
      const changed = rows.filter(({ cellsHere }) => cellsHere.some((cell) => cell !== 'same'));
      if (changed.length === 0) return [line(mutant.name, 'none', '')];
      return changed.map(({ each, cellsHere }, at) =>
        line(at === 0 ? mutant.name : '', each, cellsHere.map((cell) => MARKS[cell]).join('')),
      );
    }),
  ];
}
