import type { RunnerClient } from '@flashcore/shared/client';
import {
  AcceptResponseSchema,
  NoteResponseSchema,
  RejectResponseSchema,
  UndoResponseSchema,
  JobState,
  CancelJobResponseSchema,
  type Job,
} from '@flashcore/shared/contract';
import { requireSavable } from '../champions/champions-folder.ts';
import { notice } from '../present/blocks.ts';
import { acceptedBlocks, championsBlocks, decisionBlocks } from '../present/sections/decisions.ts';
import { outcomeWord } from '../present/words.ts';
import { folderOf, saveTo } from './champions.ts';
import { type CommandContext, jsonOf } from './context.ts';
import { ExitCode, UsageError } from '../exit-code.ts';
import { OwnKernels } from '../settings/own-kernels.ts';
import { notesToHandIn } from '../state/decision.ts';
import { resolveJobName } from '../session/job-name.ts';

interface NoteOption {
  readonly note?: string;
}

/** Value of `--over` for a job that replaces no champion. */
const NO_CHAMPION = 'none';

/**
 * `fa-tui accept <job> --over <job>`: makes the job's build the champion of its kernel, device model, shapes and
 * protocol. It replaces the champion that the job was compared with.
 */
export function acceptJob(
  text: string,
  { note = '', over, save }: NoteOption & { readonly over?: string; readonly save?: string | true },
  context: CommandContext,
): Promise<ExitCode> {
  const folder = save === undefined ? undefined : folderOf(save, context);
  // Refuses an unusable folder before the decision is made.
  if (folder !== undefined) requireSavable(folder);
  return context.withRunner(async ({ client }) => {
    const job = await resolveJobName(client, text);
    const shown = await client.getJob({ name: job });
    const { over: compared = NO_CHAMPION, notesWanted = false } = shown.result?.acceptability ?? {};
    const replaced = over === undefined ? compared || NO_CHAMPION : await championNamed(client, over);
    const notes = notesWanted && shown.job ? await notesNow(client, shown.job, context) : '';
    const response = await client.accept({ job, note, over: replaced, notes });
    if (context.options.json) context.document(jsonOf(AcceptResponseSchema, response));
    else context.show(acceptedBlocks(response));
    return folder !== undefined && response.champion
      ? saveTo(folder, [response.champion], { client, context })
      : ExitCode.PASSED;
  });
}

/** The text of the kernel's NOTES.md, from a folder of this machine or from the runner; empty if it says nothing. */
async function notesNow(client: RunnerClient, job: Job, context: CommandContext): Promise<string> {
  const own = await new OwnKernels(context.surroundings.environment).list();
  const { kernels } = await client.listKernels({});
  return notesToHandIn([...own.kernels, ...kernels], job);
}

const championNamed = (client: RunnerClient, over: string): Promise<string> =>
  over === NO_CHAMPION ? Promise.resolve(over) : resolveJobName(client, over);

/**
 * `fa-tui reject <job>`: records that the result is not wanted. If the result is champion, it is removed as champion.
 */
export function rejectJob(text: string, { note = '' }: NoteOption, context: CommandContext): Promise<ExitCode> {
  return context.withRunner(async ({ client }) => {
    const response = await client.reject({ job: await resolveJobName(client, text), note });
    if (context.options.json) context.document(jsonOf(RejectResponseSchema, response));
    else
      context.show([
        ...decisionBlocks(response.decision),
        ...response.removed.map(({ label, deviceName }) => notice(`${label} is no longer champion of ${deviceName}`)),
      ]);
    return ExitCode.PASSED;
  });
}

/** `fa-tui undo <job>`: undoes the latest decision about the job. */
export function undoDecision(text: string, { note = '' }: NoteOption, context: CommandContext): Promise<ExitCode> {
  return context.withRunner(async ({ client }) => {
    const response = await client.undo({ job: await resolveJobName(client, text), note });
    if (context.options.json) context.document(jsonOf(UndoResponseSchema, response));
    else
      context.show([
        ...decisionBlocks(response.decision),
        ...(response.champions.length === 0
          ? [notice('the kernel has no champion now')]
          : championsBlocks(response.champions, [])),
      ]);
    return ExitCode.PASSED;
  });
}

/** `fa-tui note <job> <text>`: adds a note to the audit trail. */
export function noteJob(text: string, note: string, context: CommandContext): Promise<ExitCode> {
  if (note.trim() === '') throw new UsageError('note: give the text, for example "before the swizzle"');
  return context.withRunner(async ({ client }) => {
    const response = await client.note({ job: await resolveJobName(client, text), note });
    if (context.options.json) context.document(jsonOf(NoteResponseSchema, response));
    else context.show(decisionBlocks(response.decision));
    return ExitCode.PASSED;
  });
}

/**
 * `fa-tui cancel <jobs...>`. A job that has already ended keeps its outcome, which is not an error. If a name is of no
 * job, nothing is cancelled. JSON: the runner's answer; a list of answers for several jobs.
 */
export function cancelJobs(texts: readonly string[], context: CommandContext): Promise<ExitCode> {
  return context.withRunner(async ({ client }) => {
    const names: string[] = [];
    for (const text of texts) names.push(await resolveJobName(client, text));
    const answers = [];
    for (const name of new Set(names)) {
      const before = await client.getJob({ name });
      const response = await client.cancelJob({ name });
      answers.push(jsonOf(CancelJobResponseSchema, response));
      if (!context.options.json && response.job)
        context.report([`${endText(response.job, before.job?.state === JobState.ENDED)}  ${name}`]);
    }
    if (context.options.json) context.document(texts.length === 1 ? answers[0]! : answers);
    return ExitCode.PASSED;
  });
}

function endText(job: Job, endedBefore: boolean): string {
  if (endedBefore) return `nothing to cancel, the job had ended: ${outcomeWord(job).toUpperCase()}`;
  return job.state === JobState.ENDED ? outcomeWord(job).toUpperCase() : 'cancelling';
}
