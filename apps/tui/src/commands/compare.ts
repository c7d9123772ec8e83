import type { RunnerClient } from '@flashcore/shared/client';
import { JobState, FlashcoreError } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import { fact, facts, heading, notice, tableOf, type Block, type Fact } from '../present/blocks.ts';
import { counted } from '../present/numbers.ts';
import { differText, figureBlocks, timeColumns, type Sides } from '../present/sections/paired.ts';
import { jobTitle, shortName } from '../present/words.ts';
import { resolveFinishedJob } from '../session/job-name.ts';
import { readSamples, readSources } from '../session/read-comparison.ts';
import type { Store } from '../session/store.ts';
import { replacedBy } from '../state/decision.ts';
import type { JobView } from '../state/job-view.ts';
import { comparedJob, comparisonOf, problemsDiffer, type ComparedJob, type PinnedComparison } from '../state/pinned.ts';
import { figureGroups, pairedTime } from '../state/pinned-figures.ts';
import { variantsOf } from '../state/selectors.ts';
import { countLines, sourceChanges, type ChangedFile } from '../state/source-changes.ts';
import type { CommandContext } from './context.ts';
import { plainStore } from './follow-job.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

/**
 * `fa-tui compare <job or kernel> [with]`: compares a job with another one, or with its champion, and prints the
 * figures of the screen's comparison.
 */
export function compare(job: string, other: string, context: CommandContext): Promise<ExitCode> {
  return context.withRunner(async ({ client }) => {
    const store = plainStore();
    try {
      const shown = await readJob(await resolveFinishedJob(client, job), { client, store, context });
      const { name, isChampion = false } =
        other === '' ? await championOf(shown, client) : { name: await resolveFinishedJob(client, other) };
      if (name === shown.job.name) throw new UsageError(`compare: ${job} and ${other} are the same job`);
      const pinned = await readJob(name, { client, store, context });
      await readSamples([shown.job, pinned.job], { client, store });
      await readSources({ pinned, shown }, { client, store });
      const comparison = comparisonOf(store.state, { pinned, shown });
      const sides = { before: isChampion ? 'champion' : shortName(name), after: shortName(shown.job.name) };
      const sources = sourceChanges(store.state, comparison);
      if (context.options.json) context.document(documentOf(comparison, sources));
      else context.show(blocksOf(comparison, sources, sides));
      return ExitCode.PASSED;
    } finally {
      store.close();
    }
  });
}

interface Reading {
  readonly client: RunnerClient;
  readonly store: Store;
  readonly context: CommandContext;
}

/** Reads an ended job. Errors: JOB_NOT_FOUND; UsageError if the job is still running or has not built anything. */
async function readJob(name: string, { client, store, context }: Reading): Promise<ComparedJob> {
  const { job } = await client.getJob({ name });
  if (job?.state !== JobState.ENDED)
    throw new UsageError(`compare: ${shortName(name)} has not ended; fa-tui watch ${shortName(name)} follows it`);
  const onExpired = (first: bigint): void => {
    context.note(`${shortName(name)}: events before number ${first} are no longer kept`);
    store.dispatch({ type: 'events-expired', job: name, first });
  };
  for await (const event of client.watch(name, { afterSequence: 0, onExpired }))
    store.dispatch({ type: 'job-event', event });
  const view = entryOf(store.state.views, name);
  const read = comparedJob(view, variantsOf(view)[0]);
  if (read === undefined) throw new UsageError(`compare: ${shortName(name)} has no results: it ended before its build`);
  return read;
}

/** The champion that accepting the job would replace; otherwise the champion that the job was compared with. */
async function championOf(
  { job }: ComparedJob,
  client: RunnerClient,
): Promise<{ readonly name: string; readonly isChampion?: boolean }> {
  const { champions } = await client.listChampions({});
  const [champion] = replacedBy({ champions }, job);
  if (champion !== undefined) return { name: champion.job, isChampion: true };
  const over = job.result?.acceptability?.over ?? '';
  if (over.startsWith('jobs/')) return { name: over, isChampion: champions.some((each) => each.job === over) };
  throw new FlashcoreError(
    'JOB_NOT_FOUND',
    { job: job.name },
    `${jobTitle(job)} has no champion to compare with: name a second job; fa-tui jobs lists them`,
  );
}

function blocksOf(comparison: PinnedComparison, sources: ChangedFile[] | string, sides: Sides): Block[] {
  const { pinned, shown, pairs } = comparison;
  const times = pairs.map(pairedTime);
  const differ = problemsDiffer(comparison);
  return [
    heading(
      `${jobTitle(shown.job)} ${shortName(shown.job.name)} next to ${jobTitle(pinned.job)} ${shortName(pinned.job.name)}`,
    ),
    facts(sideFact(sides.before, pinned.job), sideFact(sides.after, shown.job)),
    ...(differ === undefined ? [] : [notice(differText(differ), 'warn')]),
    ...(times.length === 0
      ? [notice('They have no measured shape in common.', 'dim')]
      : [tableOf(timeColumns(sides), times)]),
    ...figureBlocks(figureGroups(comparison), sides),
    ...sourceBlocks(sources, sides),
  ];
}

function sideFact(label: string, { provenance, device }: JobView): Fact {
  return fact(label, `source ${provenance?.sourceDigest.slice(0, 10) ?? 'not known'}, ${device?.name ?? 'no device'}`);
}

function sourceBlocks(files: ChangedFile[] | string, { before, after }: Sides): Block[] {
  if (typeof files === 'string') return [heading('Source'), notice(files, 'dim')];
  const { added, removed } = countLines(files);
  return [
    heading('Source', `${counted(files.length, 'compiled file')} changed, +${added} -${removed}`),
    { kind: 'verbatim', lines: files.flatMap((file) => diffLines(file, before, after)) },
  ];
}

const diffLines = ({ names, hunks = [] }: ChangedFile, before: string, after: string): string[] => [
  `--- ${names[0] ?? ''} (${before})`,
  `+++ ${names.at(-1) ?? ''} (${after})`,
  ...hunks.flatMap(({ oldStart, oldLines, newStart, newLines, lines }) => [
    `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@`,
    ...lines,
  ]),
];

function documentOf(comparison: PinnedComparison, files: ChangedFile[] | string): unknown {
  const { pinned, shown, pairs } = comparison;
  return {
    before: sideOf(pinned),
    after: sideOf(shown),
    times: pairs.map(pairedTime),
    figures: figureGroups(comparison).flatMap(({ title, figures, notCompared }) =>
      figures.map(({ name, before, after, unit }) => ({ group: title, name, before, after, unit, notCompared })),
    ),
    sources:
      typeof files === 'string'
        ? []
        : files.map((file) => {
            const { added, removed } = countLines([file]);
            return { names: file.names, added, removed };
          }),
  };
}

const sideOf = ({ job, variant }: ComparedJob) => ({
  job: job.name,
  kernel: job.kernelId,
  variant: variant.label,
  device: job.device?.name,
  sourceDigest: job.provenance?.sourceDigest,
});
