import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { zstdDecompressSync } from 'node:zlib';

const ROOT = join(import.meta.dirname, '../../../..');
export const RESULTS = join(ROOT, 'lab/results');
const CACHE = join(ROOT, 'node_modules/.cache/flashcore-results');
const ARCHIVE = '.tar.zst';
const BLOCK = 512;

const unpacked = new Map<string, string>();

/** A folder with the measured files of lab/results/CAMPAIGN. */
export const measuredFolder = (campaign: string): string => unpackedFolder(join(RESULTS, campaign));

/**
 * A folder with the files of `folder`: its plain files, and those in its NAME.tar.zst, which is unpacked into
 * node_modules/.cache once.
 */
export function unpackedFolder(folder: string): string {
  const known = unpacked.get(folder);
  if (known !== undefined) return known;
  const archive = readdirSync(folder).find((name) => name.endsWith(ARCHIVE));
  const made = archive === undefined ? folder : unpack(folder, archive);
  unpacked.set(folder, made);
  return made;
}

function unpack(folder: string, name: string): string {
  const archive = readFileSync(join(folder, name));
  const hash = createHash('sha256').update(archive);
  for (const each of readdirSync(folder)) hash.update(`${each} ${statSync(join(folder, each)).mtimeMs}\n`);
  const made = join(CACHE, hash.digest('hex').slice(0, 16));
  if (existsSync(made)) return made;
  mkdirSync(CACHE, { recursive: true });
  const draft = mkdtempSync(join(CACHE, 'draft-'));
  for (const member of membersOf(zstdDecompressSync(archive))) {
    const path = join(draft, member.name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, member.bytes);
  }
  cpSync(folder, draft, { recursive: true, filter: (path) => !path.endsWith(ARCHIVE) });
  try {
    renameSync(draft, made);
  } catch (error) {
    // Another process has unpacked it meanwhile.
    rmSync(draft, { recursive: true });
    if (!existsSync(made)) throw error;
  }
  return made;
}

/** The regular files of a tar archive in the ustar format. */
function* membersOf(tar: Buffer): Generator<{ name: string; bytes: Buffer }> {
  const field = (at: number, length: number): string => tar.toString('utf8', at, at + length).replace(/\0.*$/s, '');
  for (let at = 0; tar[at] !== 0;) {
    const size = parseInt(field(at + 124, 12), 8);
    yield { name: field(at, 100), bytes: tar.subarray(at + BLOCK, at + BLOCK + size) };
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
}
