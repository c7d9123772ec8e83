import type { CommandContext } from './context.ts';
import type { ExitCode } from './exit-code.ts';
import { followJob, type OutputFiles } from './follow-job.ts';
import { resolveJobName } from '../session/job-name.ts';
import { requireOutputs } from '../named-files.ts';

/**
 * `fa-tui watch <job>`: shows the job's events from the first one kept, whether the job is running or has ended, then
 * its report.
 */
export function watchJob(job: string, context: CommandContext, files: OutputFiles = {}): Promise<ExitCode> {
  requireOutputs(files);
  return context.withRunner(async (connection) => {
    const name = await resolveJobName(connection.client, job);
    return followJob((options) => connection.client.watch(name, options), connection, context, files);
  });
}
