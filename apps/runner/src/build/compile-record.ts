import { randomUUID } from 'node:crypto';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { FlashcoreError, isSha256, sha256Of, type Sha256 } from '@flashcore/shared/contract';
import { readForeignText } from '@flashcore/shared/files';
import { markUsed } from '../store/blob-store.ts';
import { storageError } from '../store/storage-error.ts';
import type { OutputKind } from './compile-unit.ts';

/** Limit for a record; most of it is compiler messages. */
const MOST_RECORD_BYTES = 64 * 1024 * 1024;
const NO_RECORD = ['ENOENT', 'EISDIR', 'EFTYPE', 'EFBIG', 'ELOOP', 'ENXIO'];

export interface StoredOutput {
  fileName: string;
  kind: OutputKind;
  sha256: Sha256;
  sizeBytes: number;
}

/** The data of a compilation, which is also the format of a cached one. */
export interface CompileRecord {
  key: string;
  seconds: number;
  exitCode: number;
  lines: string[];
  outputs: StoredOutput[];
  /** Network name of the machine that compiled; absent in older records. */
  host?: string;
}

/** A store of compiled files by digest. */
export interface CompiledFiles {
  putFile(path: string): Sha256;
  /** Throws ARTIFACT_NOT_FOUND if the file is missing or damaged. */
  get(sha256: Sha256): Buffer;
  path(sha256: Sha256): string;
}

/** A record if all its files are there and undamaged; otherwise undefined, and the next compilation replaces it. */
export function readRecord(path: string, key: string, files: CompiledFiles): CompileRecord | undefined {
  const record = openRecord(textOf(path));
  if (record?.key !== key || !record.outputs.every(({ sha256 }) => isIntact(files, sha256))) return undefined;
  markUsed(path);
  return record;
}

/** "" if the path does not exist or is not a regular file. */
function textOf(path: string): string {
  try {
    return readForeignText(path, MOST_RECORD_BYTES);
  } catch (error) {
    if (NO_RECORD.includes((error as NodeJS.ErrnoException).code ?? '')) return '';
    throw error;
  }
}

/** Writes a record in one step. Errors: DISK_FULL. */
export function writeRecord(path: string, record: CompileRecord): void {
  const temporary = `${path}.${randomUUID()}`;
  try {
    writeFileSync(temporary, sealRecord(record), { flush: true });
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw storageError(error, 'keep this build');
  }
}

/** Whether the store has an undamaged file with this digest. */
export function isIntact(files: CompiledFiles, sha256: Sha256): boolean {
  try {
    files.get(sha256);
    return true;
  } catch (error) {
    if (error instanceof FlashcoreError && error.reason === 'ARTIFACT_NOT_FOUND') return false;
    throw error;
  }
}

/** A record with its digest, because a flipped bit would otherwise go unnoticed. */
function sealRecord(record: CompileRecord): string {
  const text = JSON.stringify(record);
  return `${sha256Of(text)}\n${text}`;
}

/** The record in a sealed text; undefined unless the text matches its digest and every output has a valid digest. */
export function openRecord(sealed: string): CompileRecord | undefined {
  const [digest, text] = [sealed.slice(0, 64), sealed.slice(65)];
  if (sealed[64] !== '\n' || sha256Of(text) !== digest) return undefined;
  const record = JSON.parse(text) as CompileRecord;
  return record.outputs.every(({ sha256 }) => isSha256(sha256)) ? record : undefined;
}
