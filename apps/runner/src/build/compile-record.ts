import { randomUUID } from 'node:crypto';
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { FlashcoreError } from '@flashcore/shared/contract';
import { sha256Of } from '@flashcore/shared/kernels';
import { markUsed } from '../store/last-used.ts';
import { storageError } from '../store/storage-error.ts';
import type { OutputKind } from './compile-unit.ts';

export interface StoredOutput {
  fileName: string;
  kind: OutputKind;
  sha256: string;
  sizeBytes: number;
}

/** What is known of a compilation; the file of a cached one. */
export interface CompileRecord {
  key: string;
  seconds: number;
  exitCode: number;
  lines: string[];
  outputs: StoredOutput[];
  /** Network name of the machine that it ran on; absent in what was kept before it was noted. */
  host?: string;
}

/** Where compiled files are kept, by digest. */
export interface CompiledFiles {
  putFile(path: string): string;
  /** Throws ARTIFACT_NOT_FOUND for what is not there or was damaged. */
  get(sha256: string): Buffer;
  path(sha256: string): string;
}

/** A record whose files are all there, undamaged; one that is not whole is removed, so that it is compiled again. */
export function readRecord(path: string, key: string, files: CompiledFiles): CompileRecord | undefined {
  if (!statSync(path, { throwIfNoEntry: false })) return undefined;
  const record = openRecord(readFileSync(path, 'utf8'));
  if (record?.key === key && record.outputs.every(({ sha256 }) => isIntact(files, sha256))) {
    markUsed(path);
    return record;
  }
  rmSync(path, { force: true });
  return undefined;
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

function isIntact(files: CompiledFiles, sha256: string): boolean {
  try {
    files.get(sha256);
    return true;
  } catch (error) {
    if (error instanceof FlashcoreError && error.reason === 'ARTIFACT_NOT_FOUND') return false;
    throw error;
  }
}

/** A record under its digest: a flipped bit in it would otherwise be another record. */
function sealRecord(record: CompileRecord): string {
  const text = JSON.stringify(record);
  return `${sha256Of(text)}\n${text}`;
}

/** Undefined for a file that is not, to the last bit, what this version writes. */
export function openRecord(sealed: string): CompileRecord | undefined {
  const [digest, text] = [sealed.slice(0, 64), sealed.slice(65)];
  return sealed[64] === '\n' && sha256Of(text) === digest ? (JSON.parse(text) as CompileRecord) : undefined;
}
