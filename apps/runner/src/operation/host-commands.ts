import { existsSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { isDataFolder, isOwnData } from '@flashcore/shared/files';
import { plainLine } from '@flashcore/shared/text';
import { UsageError } from '@flashcore/shared/contract';
import { openDatabase, openDatabaseToRead } from '../store/database.ts';
import { lockDirectory } from '../store/directory-lock.ts';
import { backUp, restore } from './backup.ts';
import { applyRetention, type Retention, type RetentionPolicy, type Share } from './retention.ts';

interface Surroundings {
  defaultData: string;
  say: (line: string) => void;
  /** Takes the work to do after the command line was parsed. */
  defer: (work: () => Promise<void>) => void;
}

/** Commands of a host's administrator: gc, backup, restore, purge. Each runs to its end. */
export function addOperationCommands(program: Command, { defaultData, say, defer }: Surroundings): void {
  const ofData = (command: Command): Command =>
    command.option('--data <folder>', "the runner's data folder", defaultData);
  const gc = ofData(program.command('gc'))
    .description(
      'removes events, artifacts, sources and builds beyond the limits below; results and history always stay. Use it on a stopped runner: a running one does the same daily (serve --keep-…)',
    )
    .option('--dry-run', 'lists what would be removed, even while the runner runs');
  keepOptions(gc, { eventsDays: 90, filesDays: 30, artifactsGib: 20 }).action(
    (flags: KeepFlags & { data: string; dryRun?: boolean }) =>
      defer(async () => collect(resolve(flags.data), policyOf(flags), flags.dryRun ?? false, say)),
  );
  ofData(program.command('backup <file>'))
    .description('copies the database, also while the runner runs; artifacts/ and sources/ can be copied as files')
    .action((file: string, { data }: { data: string }) => {
      const { jobs, schemaVersion } = backUp(resolve(data), resolve(file));
      say(`backed up ${jobsText(jobs)} (schema ${schemaVersion}) to ${resolve(file)}, checked`);
    });
  ofData(program.command('restore <file>'))
    .description("replaces a stopped runner's database with a backup")
    .action((file: string, { data }: { data: string }) => {
      const { jobs, before } = restore(resolve(data), resolve(file));
      say(`restored ${jobsText(jobs)}${before === undefined ? '' : `; the previous database is ${before}`}`);
    });
  ofData(program.command('purge'))
    .description('removes everything that a stopped runner keeps: jobs, results, champions, builds, credentials')
    .option('--yes', 'required, because nothing can be restored')
    .action(({ data, yes }: { data: string; yes?: boolean }) => {
      if (!yes)
        throw new UsageError(`purge: give --yes to remove the jobs, results and credentials in ${resolve(data)}`);
      const kept = purge(resolve(data));
      say(kept.length === 0 ? 'removed' : `removed; not flashcore's, so kept: ${kept.map(plainLine).join(', ')}`);
    });
}

export interface KeepFlags {
  keepEventsDays: number;
  keepFilesDays: number;
  keepArtifactsGib: number;
}

/**
 * Adds the options --keep-events-days, --keep-files-days and --keep-artifacts-gib, with the policy's values as
 * defaults.
 */
export function keepOptions(command: Command, { eventsDays, filesDays, artifactsGib }: RetentionPolicy): Command {
  const option = (flags: string, about: string, value: number): Option =>
    new Option(flags, about).argParser(limit).default(value, value === Infinity ? 'forever' : String(value));
  return command
    .addOption(
      option(
        '--keep-events-days <days>',
        'keep the events of ended jobs for so long ("forever": no limit); results always stay',
        eventsDays,
      ),
    )
    .addOption(
      option(
        '--keep-files-days <days>',
        'keep artifacts, sources and builds for so long after their last use',
        filesDays,
      ),
    )
    .addOption(
      option(
        '--keep-artifacts-gib <GiB>',
        'keep artifacts up to this total size; the least recently used are removed first',
        artifactsGib,
      ),
    );
}

export const policyOf = ({ keepEventsDays, keepFilesDays, keepArtifactsGib }: KeepFlags): RetentionPolicy => ({
  eventsDays: keepEventsDays,
  filesDays: keepFilesDays,
  artifactsGib: keepArtifactsGib,
});

const jobsText = (count: number): string => `${count} ${count === 1 ? 'job' : 'jobs'}`;

function limit(text: string): number {
  if (text === 'forever') return Infinity;
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (!(value >= 0 && value <= 1e6)) throw new InvalidArgumentError('must be a number of 0 to 1000000, or "forever"');
  return value;
}

async function collect(
  dataDirectory: string,
  policy: RetentionPolicy,
  dryRun: boolean,
  say: (line: string) => void,
): Promise<void> {
  const path = join(dataDirectory, 'flashcore.db');
  if (!existsSync(path))
    throw new UsageError(`${dataDirectory} has no flashcore.db: give --data the data folder of a runner`);
  const unlock = dryRun ? () => undefined : lockDirectory(dataDirectory);
  const database = dryRun ? openDatabaseToRead(path) : openDatabase(path);
  try {
    report(await applyRetention({ dataDirectory, database, policy, dryRun }), dryRun, say);
  } finally {
    database.close();
    unlock();
  }
}

function report({ events, artifacts, sources, builds }: Retention, dryRun: boolean, say: (line: string) => void): void {
  const line = (what: string, { count, bytes }: Share): void =>
    say(`${what.padEnd(10)}${String(count).padStart(8)}  ${(bytes / 1024 ** 2).toFixed(1).padStart(10)} MiB`);
  say(dryRun ? 'would go:' : 'removed:');
  line('events', events);
  line('artifacts', artifacts);
  line('sources', sources);
  line('builds', builds);
}

/**
 * Removes a runner's files from its data folder, and returns the names of the user's files there, which stay. Throws
 * UsageError for a folder that no runner has used or that is the user's home, DirectoryInUse while a runner uses it.
 */
export function purge(dataDirectory: string): string[] {
  if (!isDataFolder(dataDirectory))
    throw new UsageError(`${dataDirectory} must be the data folder of a runner: it has no flashcore.db; see --data`);
  if (realpathSync(dataDirectory) === realpathSync(homedir()))
    throw new UsageError(
      `${dataDirectory} must be a folder used only by flashcore, but it is your home, where "sources" or "tmp" may be yours: remove flashcore's files by hand`,
    );
  const unlock = lockDirectory(dataDirectory);
  try {
    for (const name of readdirSync(dataDirectory).filter(isOwnData))
      rmSync(join(dataDirectory, name), { recursive: true, force: true });
  } finally {
    unlock();
  }
  return readdirSync(dataDirectory).filter((name) => !isOwnData(name));
}
