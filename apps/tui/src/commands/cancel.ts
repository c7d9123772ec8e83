import { CancelJobResponseSchema, JobState } from '@flashcore/shared';
import { outcomeText } from '../report/verdicts.ts';
import type { CommandContext } from './context.ts';
import { ExitCode } from './exit-code.ts';
import { resolveJobName } from './job-name.ts';
import { jsonOf } from './json.ts';

/** `fa-tui cancel <job>`. A job that has already ended stays as it ended; that is no error. */
export function cancelJob(text: string, context: CommandContext): Promise<ExitCode> {
  return context.withRunner(async ({ client }) => {
    const response = await client.cancelJob({ name: await resolveJobName(client, text) });
    const { job } = response;
    if (context.options.json) context.document(jsonOf(CancelJobResponseSchema, response));
    else if (job) context.report([job.state === JobState.ENDED ? `${outcomeText(job.outcome)}  ${job.name}` : `cancelling  ${job.name}`]);
    return ExitCode.PASSED;
  });
}
