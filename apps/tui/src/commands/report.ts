import { writeFileSync } from 'node:fs';
import { JobState, type JobEvent } from '@flashcore/shared/contract';
import { WRITERS } from '../handover/formats.ts';
import type { ReportFormatName } from '../handover/report-formats.ts';
import { traceOf } from '../handover/trace-events.ts';
import { requireWritable } from '../named-files.ts';
import { UsageError } from '../usage-error.ts';
import type { CommandContext } from './context.ts';
import { ExitCode } from './exit-code.ts';
import { resolveJobName } from './job-name.ts';
import type { GlobalOptions } from './options.ts';

export interface ReportCommandOptions extends GlobalOptions {
  readonly format: ReportFormatName;
  readonly output?: string;
  /** Where the kernel lies in the repository. */
  readonly folder?: string;
}

/** `fa-tui report <job…>`: ended jobs, as others read them. */
export function reportJobs(
  names: readonly string[],
  { format, output, folder = '' }: ReportCommandOptions,
  context: CommandContext,
): Promise<ExitCode> {
  requireWritable({ '--output': output });
  return context.withRunner(async ({ client }) => {
    const jobs = await Promise.all(
      names.map(async (text) => client.getJob({ name: await resolveJobName(client, text) })),
    );
    const running = jobs.find(({ job }) => job?.state !== JobState.ENDED);
    if (running) throw new UsageError(`${running.job?.name} has not ended: wait for it with fa-tui watch`);
    write(WRITERS[format](jobs, folder), output, context);
    return ExitCode.PASSED;
  });
}

/** `fa-tui trace <job>`: its events as trace-event JSON. */
export function traceJob(text: string, { out }: { readonly out?: string }, context: CommandContext): Promise<ExitCode> {
  requireWritable({ '--out': out });
  return context.withRunner(async ({ client }) => {
    const name = await resolveJobName(client, text);
    const events: JobEvent[] = [];
    for await (const event of client.watch(name)) events.push(event);
    write(`${JSON.stringify(traceOf(events))}\n`, out, context);
    return ExitCode.PASSED;
  });
}

function write(text: string, file: string | undefined, context: CommandContext): void {
  if (file === undefined) context.surroundings.stdout.write(text);
  else writeFileSync(file, text);
}
