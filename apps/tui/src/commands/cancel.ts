import { JobState, CancelJobResponseSchema, type Job } from '@flashcore/shared/contract';
import { outcomeWord } from '../present/words.ts';
import type { CommandContext } from './context.ts';
import { ExitCode } from './exit-code.ts';
import { resolveJobName } from '../session/job-name.ts';
import { jsonOf } from './json.ts';

/** `fa-tui cancel <job>`. A job that has already ended keeps its outcome, which is not an error. */
export function cancelJob(text: string, context: CommandContext): Promise<ExitCode> {
  return context.withRunner(async ({ client }) => {
    const name = await resolveJobName(client, text);
    const before = await client.getJob({ name });
    const response = await client.cancelJob({ name });
    if (context.options.json) context.document(jsonOf(CancelJobResponseSchema, response));
    else if (response.job) context.report([`${endText(response.job, before.job?.state === JobState.ENDED)}  ${name}`]);
    return ExitCode.PASSED;
  });
}

function endText({ state, outcome }: Job, endedBefore: boolean): string {
  if (endedBefore) return `nothing to cancel, the job had ended: ${outcomeWord(outcome).toUpperCase()}`;
  return state === JobState.ENDED ? outcomeWord(outcome).toUpperCase() : 'cancelling';
}
