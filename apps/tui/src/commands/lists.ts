import path from 'node:path';
import { once } from 'node:events';
import {
  FleetSchema,
  JobState,
  GetHostResponseSchema,
  ListExperimentsResponseSchema,
  ListJobsResponseSchema,
  ListKernelsResponseSchema,
} from '@flashcore/shared/contract';
import { instanceText } from '../connection/start-host.ts';
import { integer, labelSettings } from './options.ts';
import { notice } from '../present/blocks.ts';
import { fleetBlocks } from '../present/sections/fleet.ts';
import { hostBlocks } from '../present/sections/host.ts';
import { historyBlocks, jobsBlocks, kernelsBlocks, ownKernelsBlocks } from '../present/sections/lists.ts';
import { jobTitle } from '../present/words.ts';
import { OwnKernels } from '../settings/own-kernels.ts';
import { type CommandContext, jsonOf } from './context.ts';
import { requireWritable, writeWhole } from '../named-files.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

/** Limit on the running jobs whose titles are shown with their pilots. */
const MOST_TITLES = 1_000;

export interface PageOptions {
  readonly limit?: string;
  readonly kernel?: string;
  readonly label?: string[];
}

/** `fa-tui kernels [--all]`: the runner's ladder; with --all also the faulty fixtures and the user's own folders. */
export function listKernels({ all }: { readonly all?: boolean }, context: CommandContext): Promise<ExitCode> {
  return context.withRunner(async ({ client }) => {
    const response = await client.listKernels({ includeFaulty: all ?? false });
    if (context.options.json) context.document(jsonOf(ListKernelsResponseSchema, response));
    else {
      const own = all ? (await new OwnKernels(context.surroundings.environment).list()).kernels : [];
      context.show([...kernelsBlocks(response.kernels), ...ownKernelsBlocks(own)]);
    }
    return ExitCode.PASSED;
  });
}

/** `fa-tui host`: shows devices, tools and isolation of the runner's host. */
export function showHost(context: CommandContext): Promise<ExitCode> {
  return context.withRunner(async ({ client, instance }) => {
    const since = instance && instanceText(instance);
    const response = await client.getHost({});
    if (context.options.json) context.document(jsonOf(GetHostResponseSchema, response));
    else
      context.show([
        ...(response.host ? hostBlocks(response.host, response) : [notice('the runner says nothing about its host')]),
        ...(since === undefined ? [] : [notice(`the host is ${since}`)]),
      ]);
    return ExitCode.PASSED;
  });
}

/** `fa-tui fleet`: shows the cluster behind a gateway. Errors: UsageError if the runner is not a gateway. */
export function showFleet(context: CommandContext): Promise<ExitCode> {
  return context.withRunner(async ({ client }) => {
    const { host } = await client.getHost({});
    if (!host?.fleet)
      throw new UsageError(
        'Name a gateway with --runner (flashcore-runner gateway): this runner has devices of its own, fa-tui host shows them',
      );
    if (context.options.json) context.document(jsonOf(FleetSchema, host.fleet));
    else {
      const { jobs } = await client.listJobs({ state: JobState.RUNNING, pageSize: MOST_TITLES });
      const titles = new Map(jobs.map((job) => [job.name, jobTitle(job)]));
      context.show(fleetBlocks(host.fleet, { devices: host.devices, titleOf: (name) => titles.get(name) }));
    }
    return ExitCode.PASSED;
  });
}

/** `fa-tui jobs`: lists the runner's jobs, newest first. */
export function listJobs(options: PageOptions, context: CommandContext): Promise<ExitCode> {
  const page = pageSettings(options);
  return context.withRunner(async ({ client }) => {
    const response = await client.listJobs(page);
    if (context.options.json) context.document(jsonOf(ListJobsResponseSchema, response));
    else context.show(jobsBlocks(response.jobs, page.kernelId));
    return ExitCode.PASSED;
  });
}

/** `fa-tui history`: lists ended experiments, newest first. */
export function listHistory(options: PageOptions, context: CommandContext): Promise<ExitCode> {
  const page = pageSettings(options);
  return context.withRunner(async ({ client }) => {
    const response = await client.listExperiments(page);
    if (context.options.json) context.document(jsonOf(ListExperimentsResponseSchema, response));
    else context.show(historyBlocks(response.experiments, page.kernelId));
    return ExitCode.PASSED;
  });
}

const pageSettings = ({ limit, kernel, label }: PageOptions) => ({
  pageSize: integer('--limit', limit, 1, 1000) ?? 0,
  kernelId: kernel ?? '',
  labels: labelSettings(label),
});

/**
 * `fa-tui artifact <sha256> [-o file]`: checks the artifact's bytes against the digest and writes them to a file, or to
 * stdout if that is not a terminal.
 */
export function readArtifact(
  sha256: string,
  { output }: { readonly output?: string },
  context: CommandContext,
): Promise<ExitCode> {
  if (!/^[0-9a-f]{64}$/i.test(sha256))
    throw new UsageError(`${sha256}: must be an artifact's SHA-256, 64 hexadecimal digits`);
  const { stdout } = context.surroundings;
  if (!output && stdout.isTTY)
    throw new UsageError('The artifact may be binary, and stdout is a terminal: give --output FILE, or use a pipe');
  requireWritable({ '--output': output });
  return context.withRunner(async ({ client }) => {
    const bytes = await client.readArtifact(sha256.toLowerCase());
    if (output) await writeWhole(path.resolve(output), bytes);
    else await writeBytes(bytes);
    return ExitCode.PASSED;
  });
}

async function writeBytes(bytes: Uint8Array): Promise<void> {
  if (!process.stdout.write(bytes)) await once(process.stdout, 'drain');
}
