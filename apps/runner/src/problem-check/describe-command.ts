import { Argument, type Command } from 'commander';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import { PROBLEM_PROGRAMS } from '@flashcore/shared/kernels';
import { BuildTools, DEFAULT_HOST } from '../build/build-tools.ts';
import { findBox } from '../sandbox/find-box.ts';
import { readProgram } from '../sandbox/run.ts';
import { boxedReference } from '../workers/worker-entry.ts';

interface Surroundings {
  repositoryRoot: string;
  environment: NodeJS.ProcessEnv;
  say: (line: string) => void;
  /** Takes the work to do after the command line was parsed. */
  defer: (work: () => Promise<void>) => void;
}

/** Longer than python_reference.py allows a file, to include the time in which PyTorch is loaded. */
const FILE_LIMIT_MS = 610_000;
const START_LIMIT_MS = 120_000;
const FILE_BYTES = 256 * 1024;

/**
 * `describe-problems`: runs foreign problems in a sandbox and prints what `fa-tui problem import` needs to know about
 * them, a line of JSON for each file.
 */
export function addDescribeCommand(program: Command, surroundings: Surroundings): void {
  program
    .command('describe-problems')
    .addArgument(new Argument('<form>', 'the benchmark that the files are from').choices([...PROBLEM_PROGRAMS]))
    .argument('<files...>', 'Python files, run in a sandbox without network')
    .description('describes problems that are written in Python, for fa-tui problem import (docs/imports.md)')
    .action((form: string, files: string[]) => surroundings.defer(() => describe(form, files, surroundings)));
}

/** Errors: COMPILER_MISSING without PyTorch, DEVICE_UNAVAILABLE without a sandbox, INTERNAL. */
async function describe(form: string, files: string[], surroundings: Surroundings): Promise<void> {
  const { repositoryRoot, environment, say } = surroundings;
  const work = mkdtempSync(join(tmpdir(), 'flashcore-describe-'));
  try {
    const tools = new BuildTools({
      repositoryRoot,
      dataDirectory: work,
      python: environment['FLASHCORE_PYTHON'] || DEFAULT_HOST.python,
      box: () => findBox('auto'),
    });
    const paths = files.map((file) => resolve(file));
    const python = await tools.libraries.python({ action: ['describe', form, ...paths], readable: paths });
    const { program, args, env } = await boxedReference(await tools.box(), {
      ...python,
      name: 'describe',
      scratch: join(work, 'scratch'),
    });
    const { output, lines, exitCode } = await readProgram(program, args, {
      environment: env,
      limitMs: START_LIMIT_MS + files.length * FILE_LIMIT_MS,
      signal: new AbortController().signal,
      maxBytes: files.length * FILE_BYTES,
    });
    if (exitCode !== 0 || output === undefined)
      throw new FlashcoreError(
        'INTERNAL',
        { form },
        `The sandbox of the Python files ended with status ${exitCode}: ${lines.slice(-4).join('\n')}`,
      );
    for (const line of output.split('\n').filter((each) => each !== '')) say(line);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
