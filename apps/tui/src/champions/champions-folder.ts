/**
 * Champions saved in a folder of the user's repository, where they outlive the runner that accepted them.
 * champions.json contains the output of `fa-tui champions --json`; `sources` contains each kernel folder under its
 * digest.
 */
import { existsSync, lstatSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
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
import { makeFolder, readForeignText, whyUnreadable, whyUnwritable } from '@flashcore/shared/files';
import {
  MAX_TREE_BYTES,
  MAX_TREE_FILES,
  formatShape,
  loadManifest,
  isSourcePath,
  mayBeSource,
  readSourceTree,
  recordedDtype,
  recordedProblem,
  treeDigest,
} from '@flashcore/shared/kernels';
import { entryOf, errorText, plainLine } from '@flashcore/shared/text';
import { writeWhole } from '../named-files.ts';
import { UsageError } from '../exit-code.ts';

const FORMAT = 'flashcore-champions/1';
const CHAMPIONS_FILE = 'champions.json';
const MAX_FILE_BYTES = 16 * 2 ** 20;
const MAX_CHAMPIONS = 1_000;
const SHOWN = 200;

/** A champion with the sources from which its build can be reproduced. */
export interface SavedChampion {
  readonly champion: Champion;
  readonly variant: Variant;
  /** Path of the kernel, relative to the folder: "sources/<16 digits of the digest>/<kernel>". */
  readonly sources: string;
  /** SHA-256 over the kernel folder's files, `Kernel.source_digest`. */
  readonly digest: string;
}

/** The result of saving a champion. */
type SaveAnswer =
  | { readonly champion: Champion; readonly sources: string }
  /** The reason why the champion was not saved. */
  | { readonly champion: Champion; readonly reason: string };

/**
 * Adds champions to the folder, which is created if needed. As on the runner, a champion replaces earlier champions on
 * its shapes, but never one that was accepted later. Sources that no champion uses any more are kept, because they are
 * the user's files. Errors: UsageError for a folder to which nothing can be added.
 */
export async function saveChampions(
  folder: string,
  champions: readonly Champion[],
  client: RunnerClient,
): Promise<SaveAnswer[]> {
  requireSavable(folder);
  makeOwnFolder(folder);
  const answers: SaveAnswer[] = [];
  for (const champion of champions) answers.push(await saveOne(folder, champion, client));
  return answers;
}

/**
 * Makes the checks that are possible before anything is accepted. Errors: UsageError for a folder to which nothing can
 * be added.
 */
export function requireSavable(folder: string): void {
  const found = statSync(folder, { throwIfNoEntry: false });
  if (found && !found.isDirectory()) throw new UsageError(`${folder} is a file: give a folder for champions`);
  refuseLinks(folder, 'sources');
  championsBefore(folder);
}

/**
 * Saves one champion. The file is read again each time, so that champions written by another command in the meantime
 * are not lost.
 */
async function saveOne(folder: string, champion: Champion, client: RunnerClient): Promise<SaveAnswer> {
  try {
    const saved = await saveSources(folder, champion, client);
    const before = championsBefore(folder);
    const later = before.find((other) => sharesPlace(other.champion, champion) && isLater(other.champion, champion));
    if (later) return { champion, reason: `${plainLine(later.champion.label)}, accepted later, is saved in its place` };
    const kept = before.flatMap((other) => withoutPlacesOf(other, champion));
    await writeWhole(path.join(folder, CHAMPIONS_FILE), Buffer.from(textOf(inOrder([...kept, saved]))));
    return { champion, sources: saved.sources };
  } catch (error) {
    if (error instanceof UsageError) return { champion, reason: error.message };
    if (error instanceof FlashcoreError && error.reason !== 'RUNNER_UNREACHABLE')
      return { champion, reason: `the runner does not give its sources: ${error.message}` };
    throw error;
  }
}

/** The champions already in the folder; empty if nothing was saved yet. Errors: those of readChampions(). */
const championsBefore = (folder: string): SavedChampion[] =>
  existsSync(path.join(folder, CHAMPIONS_FILE)) ? readChampions(folder) : [];

/** The champions in the order of their acceptances. Errors: UsageError, which names the mistake in the file. */
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
    const why = error instanceof SyntaxError ? 'it is not JSON' : errorText(error).slice(0, SHOWN);
    throw new UsageError(`${file}: must be a file of fa-tui champions --save (${FORMAT}): ${why}`);
  }
}

/** The kernel folder of a saved champion. Errors: UsageError if its content is not the one that was saved. */
export async function sourcesOf(folder: string, { champion, sources, digest }: SavedChampion): Promise<string> {
  refuseLinks(folder, sources);
  const place = path.join(folder, sources);
  if (!existsSync(place)) throw new UsageError(`${place} is missing: restore it, or save the champion again`);
  if (treeDigest((await readSourceTree(place)).tree) !== digest)
    throw new UsageError(
      `${place} was changed since it was saved: restore it; to work on the kernel, copy it with fa-tui new --from`,
    );
  const { id } = await loadManifest(place);
  if (id === champion.kernelId) return place;
  throw new UsageError(`${place} is the kernel ${id}, and champions.json has it as ${champion.kernelId}: restore both`);
}

async function saveSources(folder: string, champion: Champion, client: RunnerClient): Promise<SavedChampion> {
  const { kernel, variant } = await client.getKernel({ buildId: champion.buildId });
  const files = kernel?.files ?? [];
  requireSourceFiles(files);
  const digest = treeDigest({ files });
  const sources = folderOf(champion.kernelId, digest);
  const saved: SavedChampion = { champion, variant: variant ?? create(VariantSchema), sources, digest };
  if (!existsSync(path.join(folder, sources))) {
    const contents = new Map<string, Buffer>();
    for (const { path: name, sha256, sizeBytes } of files)
      contents.set(name, await client.readArtifact(sha256, { mostBytes: Number(sizeBytes) }));
    refuseLinks(folder, sources);
    await writeFolder(path.join(folder, sources), { contents, digest });
  }
  await sourcesOf(folder, saved);
  return saved;
}

/** The path for a kernel's sources. Errors: INVALID_REQUEST for a kernel id that is a path. */
function folderOf(kernelId: string, digest: string): string {
  if (!/^\w{1,128}$/.test(kernelId)) throw badFile(kernelId);
  return `sources/${digest.slice(0, 16)}/${kernelId}`;
}

interface KernelContents {
  readonly contents: ReadonlyMap<string, Buffer>;
  readonly digest: string;
}

/** Writes all files or none: writes them to a folder next to the final one, checks it, and renames it. */
async function writeFolder(folder: string, { contents, digest }: KernelContents): Promise<void> {
  const unfinished = `${folder}.${process.pid}.part`;
  try {
    for (const [name, bytes] of contents) {
      const file = path.join(unfinished, name);
      makeOwnFolder(path.dirname(file));
      writeFileSync(file, bytes, { flag: 'wx' });
    }
    if (treeDigest((await readSourceTree(unfinished)).tree) !== digest)
      throw badFile('a folder that cannot be read again as a kernel');
    renameSync(unfinished, folder);
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true });
    throw error;
  }
}

/** Creates a folder that other users may read, like the rest of a repository. */
function makeOwnFolder(folder: string): void {
  try {
    makeFolder(folder, 0o777);
    if (!lstatSync(folder).isDirectory()) throw new UsageError(`${folder} is a file or a link: give a folder`);
  } catch (error) {
    const why = whyUnwritable(error);
    throw why === undefined ? error : new UsageError(`${folder} cannot be made: ${why}`);
  }
}

/** Refuses links, because in a foreign repository they could lead anywhere. */
function refuseLinks(folder: string, below: string): void {
  const names = below.split('/');
  for (let depth = 1; depth <= names.length; ++depth) {
    const place = path.join(folder, ...names.slice(0, depth));
    if (lstatSync(place, { throwIfNoEntry: false })?.isSymbolicLink())
      throw new UsageError(`${place} is a link: put the folder in its place`);
  }
}

/** Checks the paths, which come from a runner, so that none leads out of the folder. */
function requireSourceFiles(files: readonly SourceFile[]): void {
  const bytes = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0n);
  if (files.length === 0 || files.length > MAX_TREE_FILES || bytes > BigInt(MAX_TREE_BYTES))
    throw badFile(`${files.length} files of ${bytes} bytes`);
  for (const { path: name } of files) {
    const parts = name.split('/');
    const plain = parts.every((part) => part !== '' && part !== '.' && part !== '..');
    if (!plain || /[\u0000-\u001f\u007f\\]/.test(name) || !(isSourcePath(name) || mayBeSource(parts.at(-1)!)))
      throw badFile(name);
  }
}

const badFile = (name: string) =>
  new FlashcoreError(
    'INVALID_REQUEST',
    { path: name.slice(0, SHOWN) },
    `The runner names ${JSON.stringify(name.slice(0, SHOWN))} as a kernel's sources: nothing is written`,
  );

/** As on the runner, a champion that was replaced on some of its shapes keeps the others. */
function withoutPlacesOf(saved: SavedChampion, champion: Champion): SavedChampion[] {
  if (placeOf(saved.champion) !== placeOf(champion)) return [saved];
  const shapes = saved.champion.shapes.filter((shape) => !hasShape(champion, formatShape(shape)));
  return shapes.length === 0 ? [] : [{ ...saved, champion: create(ChampionSchema, { ...saved.champion, shapes }) }];
}

/** The key of a champion's place, without shapes. */
export const placeOf = ({ kernelId, deviceName, protocol, problem, dtype }: Champion): string =>
  JSON.stringify([kernelId, deviceName, protocol, recordedProblem(problem), recordedDtype(dtype)]);

export const hasShape = ({ shapes }: Champion, wanted: string): boolean =>
  shapes.some((shape) => formatShape(shape) === wanted);

const sharesPlace = (a: Champion, b: Champion): boolean =>
  placeOf(a) === placeOf(b) && a.shapes.some((shape) => hasShape(b, formatShape(shape)));

const isLater = (a: Champion, b: Champion): boolean => acceptedAt(a) > acceptedAt(b);

/** Orders champions by acceptance, because each may have been compared with those accepted before it. */
const inOrder = (saved: readonly SavedChampion[]): SavedChampion[] =>
  saved.toSorted((a, b) => acceptedAt(a.champion) - acceptedAt(b.champion));

const acceptedAt = ({ decision }: Champion): number =>
  Number(decision?.time?.seconds ?? 0n) + (decision?.time?.nanos ?? 0) / 1e9;

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

/** Parses the content of a champions file. Any error means that the JSON is not a valid champions file. */
function savedChampions(json: JsonValue): SavedChampion[] {
  const { format, champions, builds } = objectOf(json, 'the file');
  if (format !== FORMAT) throw new Error('"format" must be that');
  if (!Array.isArray(champions)) throw new Error('"champions" must be a list');
  if (champions.length > MAX_CHAMPIONS) throw new Error(`it has more than ${MAX_CHAMPIONS} champions`);
  const made = objectOf(builds, '"builds"');
  const taken = new Set<string>();
  return champions.map((each, index) => {
    const champion = fromJson(ChampionSchema, each, { ignoreUnknownFields: true });
    const name = `champions[${index}]`;
    if (champion.shapes.length === 0) throw new Error(`${name}: it must have a shape`);
    for (const place of champion.shapes.map((shape) => `${placeOf(champion)} ${formatShape(shape)}`)) {
      if (taken.has(place)) throw new Error(`${name}: another entry has the same kernel, device and shape`);
      taken.add(place);
    }
    const { sources, digest, variant } = objectOf(entryOf(made, champion.buildId), `"builds" of ${name}`);
    if (typeof digest !== 'string' || !/^[0-9a-f]{64}$/.test(digest))
      throw new Error(`${name}: "digest" must be a SHA-256`);
    if (!/^\w{1,128}$/.test(champion.kernelId) || sources !== folderOf(champion.kernelId, digest))
      throw new Error(`${name}: "sources" must be the folder of its kernel and digest`);
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
  throw new Error(`${name} must be an object`);
}
