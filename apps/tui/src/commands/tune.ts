import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import type { RpcRequestInit } from '@flashcore/shared/client';
import {
  GetJobResponseSchema,
  JobOptionsSchema,
  KernelVariantSchema,
  Outcome,
  TuneParameterSchema,
  VariantSchema,
  type JobEvent,
  type TuneParameter,
} from '@flashcore/shared/contract';
import { parseCase } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { Connection } from '../connection/connect.ts';
import { JobUndecided, runToResult, type EndedJob } from '../search/experiment.ts';
import { notice } from '../present/blocks.ts';
import { tuneBlocks } from '../present/sections/tuned.ts';
import { type CommandContext, jsonOf } from './context.ts';
import { onInterruptComeBack, exitCodeOfEnd } from './follow-job.ts';
import { kernelReference, parseKernelArgument } from './kernel-argument.ts';
import { integer, labelSettings, type GlobalOptions } from './options.ts';
import { type ExitCode, UsageError } from '../exit-code.ts';
import { variantLine } from '../search/feedback.ts';

export interface TuneCommandOptions extends GlobalOptions {
  readonly set?: string[];
  readonly shape?: string[];
  readonly budget?: string[];
  readonly seed?: string;
  readonly champion?: string;
  readonly device?: string;
  readonly label?: string[];
  readonly remeasure?: boolean;
  readonly requestId?: string;
}

/** Limit on interruptions of one search. A runner that is killed more often is broken. */
const MAX_INTERRUPTIONS = 50;

/** `fa-tui tune <kernel> [--set NAME=A,B,C …]`: searches the variants of a kernel. */
export async function tune(
  kernelText: string,
  options: TuneCommandOptions,
  context: CommandContext,
): Promise<ExitCode> {
  const { set = [], shape = [], budget = [], champion, remeasure = false } = options;
  const settings = {
    parameters: set.map(parameterOf),
    shapes: shape.map((text) => parseCase(text)),
    seed: integer('--seed', options.seed, 0, 999_999_999) ?? 1,
    ...budgetOf(budget),
    remeasure,
  };
  const jobOptions = create(JobOptionsSchema, {
    requestId: options.requestId ?? randomUUID(),
    deviceId: options.device ?? '',
    labels: labelSettings(options.label),
  });
  const kernel = await parseKernelArgument(kernelText);
  const championKernel = champion === undefined ? undefined : await parseKernelArgument(champion);
  return context.withStartedRunner(async (connection) => {
    const { client } = connection;
    const compared = championKernel && {
      kernel: await kernelReference(championKernel, client),
      variant: create(VariantSchema),
    };
    const request = {
      options: jobOptions,
      kernel: await kernelReference(kernel, client),
      ...settings,
      ...(compared && { champion: create(KernelVariantSchema, compared) }),
    };
    const { job, result } = await resumed(connection, request, context);
    if (context.options.json)
      context.document(jsonOf(GetJobResponseSchema, create(GetJobResponseSchema, { job, ...(result && { result }) })));
    else context.show([notice(job.summary), ...(result?.tune ? tuneBlocks(result.tune) : [])]);
    return exitCodeOfEnd(job);
  });
}

/**
 * The result of a search. If the search is interrupted because the runner ended, the same request continues it without
 * measuring anything twice.
 */
async function resumed(
  connection: Connection,
  request: RpcRequestInit<'tune'>,
  context: CommandContext,
): Promise<EndedJob> {
  const said = new Set<string>();
  let name: string | undefined;
  const interrupts = onInterruptComeBack(() => name, context);
  const onEvent = ({ job, payload }: JobEvent): void => {
    name = job;
    if (payload.case !== 'tunedVariant') return;
    const line = variantLine(payload.value);
    if (!said.has(line)) context.note(line);
    said.add(line);
  };
  try {
    for (let attempt = 0; ; ++attempt) {
      try {
        return await runToResult(connection, { method: 'tune', request }, { onEvent });
      } catch (error) {
        if (!(error instanceof JobUndecided)) throw error;
        // If somebody cancelled the search, the results so far are shown.
        if (error.job.outcome === Outcome.CANCELLED)
          return {
            job: error.job,
            result: (await connection.client.getJob({ name: error.job.name }, { resume: {} })).result,
          };
        if (error.job.outcome !== Outcome.INTERRUPTED) throw error;
        if (attempt >= MAX_INTERRUPTIONS) throw error;
        context.note(`${error.message}; the search continues`);
      }
    }
  } finally {
    interrupts.dispose();
  }
}

function parameterOf(text: string): TuneParameter {
  const match = /^([A-Za-z_]\w*)=(-?\d{1,18}(?:,-?\d{1,18})*)$/.exec(text);
  if (!match)
    throw new UsageError(`--set ${text}: must be NAME=A,B,C with whole numbers, for example --set BLOCK_KV=64,96`);
  return create(TuneParameterSchema, { name: match[1]!, values: match[2]!.split(',').map(BigInt) });
}

const SECONDS: Record<string, number> = { s: 1, m: 60, h: 3600 };

/** A budget such as "50" variants, "10m" of device time or "0.25usd"; each kind at most once. */
function budgetOf(texts: readonly string[]): { maxTrials?: number; maxSeconds?: number; maxUsd?: number } {
  const budgets = texts.map((text) => {
    const [, amount = '', unit = ''] = /^(\d{1,9}(?:\.\d{1,6})?)(s|m|h|usd)?$/.exec(text) ?? [];
    const value = Number(amount);
    if (!(value > 0) || (unit === '' && !Number.isInteger(value)))
      throw new UsageError(`--budget ${text}: must be variants (50), time of the device (10m) or dollars (0.25usd)`);
    if (unit === '') return { maxTrials: value };
    return unit === 'usd' ? { maxUsd: value } : { maxSeconds: value * entryOf(SECONDS, unit)! };
  });
  const merged = Object.assign({}, ...budgets) as ReturnType<typeof budgetOf>;
  if (Object.keys(merged).length < texts.length)
    throw new UsageError('--budget: variants, time and dollars can be given once each');
  return merged;
}
