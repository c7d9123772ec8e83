/**
 * Judges the mutants of an installed problem and ends:
 *   node check-problem.js job.json
 * Prints a ProblemCheck as JSON on standard output and the current case on standard error. Exit status 3: the
 * definition or its reference is wrong; the lines after the case say how.
 */
import { readFileSync } from 'node:fs';
import { FlashcoreError } from '@flashcore/shared/contract';
import { installedProblem, parseCases } from '@flashcore/shared/kernels';
import { loadReference } from './driver/reference.ts';
import type { CheckProblemJob } from './messages/verifying.ts';
import { endReference, ReferenceFailed } from './verify/own-reference.ts';
import { checkProblem } from './verify/problem-check.ts';

const EXIT_WRONG_DEFINITION = 3;

async function main(job: CheckProblemJob): Promise<void> {
  const problem = installedProblem(job.problem);
  const check = await checkProblem(problem, parseCases(job.cases.text, job.cases.path, problem), {
    ...job,
    reference: loadReference(job.referenceLibrary),
    onCase: (text) => process.stderr.write(`${job.problem}: ${text}\n`),
  });
  process.stdout.write(JSON.stringify(check));
}

try {
  await main(JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')) as CheckProblemJob);
} catch (error) {
  if (!(error instanceof FlashcoreError || error instanceof ReferenceFailed)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = EXIT_WRONG_DEFINITION;
} finally {
  endReference();
}
