/**
 * Champions in a folder of the user's repository: champions.json has what `fa-tui champions --json` prints of them, and
 * beside that file are the sources of each, by digest. They outlive the runner that accepted them.
 */
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { create, fromJson, toJson, type JsonObject, type JsonValue } from '@bufbuild/protobuf';
import type { RunnerClient } from '@flashcore/shared/client';
import {
  ChampionSchema,
  FlashcoreError,
  VariantSchema,
  type Champion,
  type SourceFile,
  type Variant,
} from '@flashcore/shared/contract';
import { readForeignText, whyUnreadable } from '@flashcore/shared/files';
import { SOURCE_NAME, formatShape, readSourceTree, treeDigest } from '@flashcore/shared/kernels';
import { errorText } from '@flashcore/shared/text';
import { writeWhole } from '../named-files.ts';
import { UsageError } from '../usage-error.ts';

const FORMAT = 'flashcore-champions/1';
const CHAMPIONS_FILE = 'champions.json';
/** Of some thousand champions. */
const MAX_FILE_BYTES = 16 * 2 ** 20;
const KERNEL_FOLDER = /^sources\/[0-9a-f]{16}\/\w{1,128}$/;

/** A champion with what makes its build again. */
export interface SavedChampion {
  readonly champion: Champion;
  readonly variant: Variant;
  /** Of its kernel, relative to the folder: "sources/<16 digits of the digest>/<kernel>". */
  readonly sources: string;
  /** SHA-256 over the kernel folder's files, `Kernel.source_digest`. */
  readonly digest: string;
}

/**
 * Adds champions to the folder, which is made where there is none. A champion takes the places of those before it, as
 * on the runner. Sources that no champion names any more stay: they are the user's files. Errors: those of GetKernel;
 * UsageError for a champions.json that is none, and for sources that were changed.
 */
export async function saveChampions(
  folder: string,
  champions: readonly Champion[],
  client: RunnerClient,
): Promise<SavedChampion[]> {
  const before = championsBefore(folder);
  mkdirSync(folder, { recursive: true });
  const added: SavedChampion[] = [];
  for (const champion of champions) added.push(await saveSources(folder, champion, client));
  const kept = before.flatMap((saved) => withoutPlacesOf(saved, champions));
  await writeWhole(path.join(folder, CHAMPIONS_FILE), Buffer.from(textOf(inOrder([...kept, ...added]))));
  return added;
}

/** Those of a folder to save to; none where nothing was saved yet. Errors: as of readChampions(). */
export const championsBefore = (folder: string): SavedChampion[] =>
  existsSync(path.join(folder, CHAMPIONS_FILE)) ? readChampions(folder) : [];

/** Errors: UsageError, which names what is wrong with the file. */
export function readChampions(folder: string): SavedChampion[] {
  const file = path.join(folder, CHAMPIONS_FILE);
  let text: string;
  try {
    text = readForeignText(file, MAX_FILE_BYTES);
  } catch (error) {
    throw new UsageError(
      `${file}: cannot be read (${whyUnreadable(error)}): fa-tui champions --save ${folder} writes it`,
    );
  }
  try {
    return inOrder(savedChampions(JSON.parse(text) as JsonValue));
  } catch (error) {
    throw new UsageError(`${file}: must be a file of fa-tui champions --save (${FORMAT}): ${errorText(error)}`);
  }
}

/** The kernel folder of a saved champion. Errors: UsageError where its files are not those that were saved. */
export async function sourcesOf(folder: string, { sources, digest }: SavedChampion): Promise<string> {
  const place = path.join(folder, sources);
  if (!existsSync(place)) throw new UsageError(`${place} is missing: restore it, or save the champion again`);
  if (treeDigest((await readSourceTree(place)).tree) === digest) return place;
  throw new UsageError(
    `${place} was changed since it was saved: restore it; to work on the kernel, copy it with fa-tui new --from`,
  );
}

async function saveSources(folder: string, champion: Champion, client: RunnerClient): Promise<SavedChampion> {
  const { kernel, variant } = await client.getKernel({ buildId: champion.buildId });
  const files = kernel!.files;
  files.forEach(requireSourceFile);
  const digest = treeDigest({ files });
  const sources = `sources/${digest.slice(0, 16)}/${champion.kernelId}`;
  if (!KERNEL_FOLDER.test(sources)) throw badFile(champion.kernelId);
  const saved: SavedChampion = { champion, variant: variant ?? create(VariantSchema), sources, digest };
  if (existsSync(path.join(folder, sources))) {
    await sourcesOf(folder, saved);
    return saved;
  }
  const contents = new Map<string, Buffer>();
  for (const { path: name, sha256 } of files) contents.set(name, await client.readArtifact(sha256));
  writeFolder(path.join(folder, sources), contents);
  return saved;
}

/** All files or none: made beside its place, and moved there. */
function writeFolder(folder: string, contents: ReadonlyMap<string, Buffer>): void {
  const unfinished = `${folder}.${process.pid}.part`;
  try {
    for (const [name, bytes] of contents) {
      const file = path.join(unfinished, name);
      mkdirSync(path.dirname(file), { recursive: true });
      writeFileSync(file, bytes, { flag: 'wx' });
    }
    renameSync(unfinished, folder);
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true });
    throw error;
  }
}

/** The paths are a runner's: none may lead out of the folder. */
function requireSourceFile({ path: name }: SourceFile): void {
  const parts = name.split('/');
  const plain = parts.every((part) => part !== '' && part !== '.' && part !== '..');
  if (!plain || /[\u0000-\u001f\u007f\\]/.test(name) || !SOURCE_NAME.test(parts.at(-1)!)) throw badFile(name);
}

const badFile = (name: string) =>
  new FlashcoreError(
    'INVALID_REQUEST',
    { path: name },
    `The runner names ${JSON.stringify(name.slice(0, 80))} as a kernel's file: nothing is written; ask its owner`,
  );

/** As on the runner: a champion that was replaced on some of its shapes has those that are left. */
function withoutPlacesOf(saved: SavedChampion, champions: readonly Champion[]): SavedChampion[] {
  const taken = new Set(
    champions
      .filter((other) => placeOf(other) === placeOf(saved.champion))
      .flatMap(({ shapes }) => shapes.map(formatShape)),
  );
  const shapes = saved.champion.shapes.filter((shape) => !taken.has(formatShape(shape)));
  if (shapes.length === 0) return [];
  return [{ ...saved, champion: create(ChampionSchema, { ...saved.champion, shapes }) }];
}

/** Where a champion is one, but for its shapes. */
export const placeOf = ({ kernelId, deviceName, protocol, problem, dtype }: Champion): string =>
  JSON.stringify([kernelId, deviceName, protocol, problem, dtype]);

/** Of their acceptances: the first to be loaded is the one that the next was compared with. */
const inOrder = (saved: readonly SavedChampion[]): SavedChampion[] =>
  saved.toSorted((a, b) => acceptedAt(a.champion) - acceptedAt(b.champion));

const acceptedAt = ({ decision }: Champion): number => Number(decision?.time?.seconds ?? 0n);

const textOf = (saved: readonly SavedChampion[]): string =>
  `${JSON.stringify(
    {
      format: FORMAT,
      champions: saved.map(({ champion }) => toJson(ChampionSchema, champion, { alwaysEmitImplicit: true })),
      builds: Object.fromEntries(
        saved.map(({ champion, variant, sources, digest }) => [
          champion.buildId,
          { sources, digest, variant: toJson(VariantSchema, variant) },
        ]),
      ),
    },
    null,
    2,
  )}\n`;

/** Errors: any, for a document that is none of ours. */
function savedChampions(json: JsonValue): SavedChampion[] {
  const { format, champions, builds } = objectOf(json, 'the file');
  if (format !== FORMAT) throw new Error(`"format" is ${JSON.stringify(format ?? null)}`);
  if (!Array.isArray(champions)) throw new Error('"champions" is no list');
  const made = objectOf(builds, '"builds"');
  return champions.map((each) => {
    const champion = fromJson(ChampionSchema, each, { ignoreUnknownFields: true });
    const name = `"builds" of ${champion.label || 'a champion'}`;
    const { sources, digest, variant } = objectOf(made[champion.buildId], name);
    if (typeof sources !== 'string' || !KERNEL_FOLDER.test(sources) || typeof digest !== 'string')
      throw new Error(`${name}: "sources" and "digest" must say where its kernel is`);
    return {
      champion,
      sources,
      digest,
      variant: fromJson(VariantSchema, variant ?? {}, { ignoreUnknownFields: true }),
    };
  });
}

function objectOf(json: JsonValue | undefined, name: string): JsonObject {
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json;
  throw new Error(`${name} is no object`);
}
