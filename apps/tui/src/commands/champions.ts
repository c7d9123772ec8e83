import path from 'node:path';
import type { RunnerClient } from '@flashcore/shared/client';
import { ChampionSchema, ListChampionsResponseSchema, type Champion } from '@flashcore/shared/contract';
import { readChampions, saveChampions, type SavedChampion } from '../champions/champions-folder.ts';
import { loadChampions, type LoadedChampion } from '../champions/load-champions.ts';
import { notice, tableOf, type Block, type Column } from '../present/blocks.ts';
import { championsBlocks, hotTime } from '../present/sections/decisions.ts';
import { shortName } from '../present/words.ts';
import { type CommandContext, jsonOf } from './context.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

/** Default folder of `--save` and `--load`, relative to the current folder. flashcore.yaml can name another. */
export const CHAMPIONS_FOLDER = 'champions';

interface ChampionsOptions {
  readonly trail?: boolean;
  readonly kernel?: string;
  /** Path of the folder, or true for the default folder. */
  readonly save?: string | true;
  readonly load?: string | true;
}

/**
 * `fa-tui champions [--trail | --save | --load]`: lists the builds that experiments are compared with, saves them to a
 * folder, or loads them from one.
 */
export async function champions(options: ChampionsOptions, context: CommandContext): Promise<ExitCode> {
  const { trail, save, load } = options;
  const chosen = Object.entries({ trail, save, load }).flatMap(([name, value]) =>
    value === undefined ? [] : `--${name}`,
  );
  if (chosen.length > 1) throw new UsageError(`${chosen.join(' and ')}: give one of them`);
  return load === undefined ? list(options, context) : loadFrom(folderOf(load, context), options, context);
}

async function list(
  { trail = false, kernel = '', save }: ChampionsOptions,
  context: CommandContext,
): Promise<ExitCode> {
  return context.withRunner(async ({ client }) => {
    const response = await client.listChampions({ kernelId: kernel, includeDecisions: trail });
    if (context.options.json) context.document(jsonOf(ListChampionsResponseSchema, response));
    else context.show(championsBlocks(response.champions, trail ? response.decisions : undefined));
    return save === undefined
      ? ExitCode.PASSED
      : saveTo(folderOf(save, context), response.champions, { client, context });
  });
}

/** Writes champions to a folder and prints the path of each. */
export async function saveTo(
  folder: string,
  saved: readonly Champion[],
  { client, context }: { readonly client: RunnerClient; readonly context: CommandContext },
): Promise<ExitCode> {
  if (saved.length === 0) throw new UsageError('--save: there is no champion yet: fa-tui accept <job> makes one');
  const answers = await saveChampions(folder, saved, client);
  for (const answer of answers) {
    const name = `${answer.champion.label} on ${answer.champion.deviceName}`;
    if ('sources' in answer) context.note(`${name}: saved, its sources to ${path.join(folder, answer.sources)}`);
    else context.note(`${name}: not saved: ${answer.reason}`);
  }
  return answers.every((answer) => 'sources' in answer) ? ExitCode.PASSED : ExitCode.FAILED;
}

/**
 * The folder for `--save` or `--load`: the given one, otherwise the project's, otherwise the default. Errors:
 * UsageError for an empty one.
 */
export function folderOf(option: string | true, context: CommandContext): string {
  if (option === '') throw new UsageError('The name of the champions folder is empty: give one, or leave it out');
  return option === true ? (context.project()?.champions ?? path.resolve(CHAMPIONS_FOLDER)) : path.resolve(option);
}

async function loadFrom(folder: string, { kernel }: ChampionsOptions, context: CommandContext): Promise<ExitCode> {
  const saved = readChampions(folder).filter(({ champion }) => kernel === undefined || champion.kernelId === kernel);
  if (saved.length === 0)
    throw new UsageError(`${folder}: has no champion${kernel === undefined ? '' : ` of ${kernel}`}`);
  return context.withStartedRunner(async (connection) => {
    const loaded: LoadedChampion[] = [];
    context.note(`${saved.length} saved champions: those of this runner's devices are run again, one after the other`);
    for await (const one of loadChampions(folder, saved, connection)) {
      context.note(`${loaded.length + 1} of ${saved.length}: ${labelOf(one)}: ${one.state}`);
      loaded.push(one);
    }
    if (context.options.json) context.document(loaded.map(loadedJson));
    else context.show(loadedBlocks(loaded));
    // A champion of another device is for other runners, so it is not a failure. The command fails if a champion was
    // not accepted, or if all champions are for other devices.
    const good = loaded.filter(({ state }) => state === 'accepted' || state === 'champion already');
    const refused = loaded.some(({ state }) => state === 'not accepted');
    return refused || good.length === 0 ? ExitCode.FAILED : ExitCode.PASSED;
  });
}

/** Label of the accepted champion or, if none was accepted, of the saved one. */
const labelOf = ({ saved, champion }: LoadedChampion): string => (champion ?? saved.champion).label;

const LOADED_COLUMNS: readonly Column<LoadedChampion>[] = [
  { title: 'kernel', shrinkTo: 10, cell: labelOf },
  { title: 'device', cell: ({ saved }) => saved.champion.deviceName },
  { title: 'result', cell: ({ state }) => state },
  { title: 'hot p50 when saved', align: 'right', drop: 1, cell: ({ saved }) => hotTime(saved.champion) },
  { title: 'hot p50 here', align: 'right', drop: 2, cell: ({ champion }) => hotTime(champion) },
  { title: 'job', cell: ({ job }) => (job === '' ? '-' : shortName(job)) },
];

/** A row for each champion from a folder. If it did not become champion here, the reason is below the row. */
const loadedBlocks = (loaded: readonly LoadedChampion[]): Block[] => [
  tableOf(LOADED_COLUMNS, loaded),
  ...loaded.flatMap(({ saved, reason }) => (reason === '' ? [] : [notice(`${saved.champion.label}: ${reason}`)])),
];

const loadedJson = ({ saved, state, job, reason, champion }: LoadedChampion): unknown => ({
  state,
  reason,
  job,
  saved: savedJson(saved),
  ...(champion && { champion: jsonOf(ChampionSchema, champion) }),
});

const savedJson = ({ champion, sources, digest }: SavedChampion): unknown => ({
  champion: jsonOf(ChampionSchema, champion),
  sources,
  digest,
});
