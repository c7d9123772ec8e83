import { statSync } from 'node:fs';
import path from 'node:path';
import { experimentSettings, variantSettings, positive, type JobCommandOptions } from './options.ts';
import { evaluateCandidate } from '../search/evaluate.ts';
import type { Evaluation } from '../search/evaluation.ts';
import type { CommandContext } from './context.ts';
import { kernelReference, parseKernelArgument } from './kernel-argument.ts';
import { wrapWords } from '../present/cells/cell-text.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

export interface EvaluateCommandOptions extends JobCommandOptions {
  readonly base?: string;
  readonly timeout?: string;
  readonly repeat?: boolean;
}

const DEFAULT_SECONDS = 240;
/** Time left for the result to arrive after the job has ended. */
const MARGIN_SECONDS = 5;

/**
 * `fa-tui evaluate FILE|FOLDER [--base KERNEL]`: exit code 0 if the candidate was judged, even if it is bad; 3 if it
 * could not be judged, so that another try may help.
 */
export async function evaluate(
  candidateText: string,
  options: EvaluateCommandOptions,
  context: CommandContext,
): Promise<ExitCode> {
  const seconds = positive('--timeout', options.timeout) ?? DEFAULT_SECONDS;
  const candidate = candidateOf(candidateText);
  const base = options.base === undefined ? undefined : await parseKernelArgument(options.base);
  if (candidate.kind === 'file' && base === undefined)
    throw new UsageError(`${candidateText} is a file: --base KERNEL must name the kernel whose source it replaces`);
  if (base?.kind === 'build')
    throw new UsageError(`--base ${options.base}: must be a kernel or a folder, whose sources can be read`);
  const jobSeconds = Math.max(1, seconds - MARGIN_SECONDS);
  const settings = experimentSettings(options, { queue: jobSeconds, run: jobSeconds });
  const signal = AbortSignal.timeout(seconds * 1000);
  return context.withStartedRunner(async (connection) => {
    const evaluation = await evaluateCandidate(connection, {
      candidate,
      base: base && { place: base, kernel: await kernelReference(base, connection.client) },
      variant: variantSettings(options),
      settings,
      repeat: options.repeat ?? false,
      signal,
    }).catch((error: unknown) => {
      if (!signal.aborted) throw error;
      context.surroundings.stderr.write(
        `error: no result within ${seconds} s (--timeout), the time in the queue included; the job was cancelled\n`,
      );
      return undefined;
    });
    if (!evaluation) return ExitCode.RUNNER_CANNOT;
    if (context.options.json) context.document(evaluation);
    else context.report(evaluationLines(evaluation));
    return ExitCode.PASSED;
  });
}

function candidateOf(text: string): { kind: 'folder' | 'file'; path: string } {
  const file = path.resolve(text);
  const found = statSync(file, { throwIfNoEntry: false });
  if (!found) throw new UsageError(`${text}: must be a .cu file or a kernel folder; there is none`);
  return { kind: found.isDirectory() ? 'folder' : 'file', path: file };
}

const evaluationLines = ({ correct, stage, metrics, text_feedback, experiment }: Evaluation): string[] => [
  `${correct ? 'right' : 'wrong'}, came as far as ${stage}, score ${metrics['combined_score']?.toPrecision(4)}`,
  ...text_feedback.split('\n').flatMap((line) => (line === '' ? [''] : wrapWords(line, 100, true))),
  ...(experiment ? [`job ${experiment}`] : []),
];
