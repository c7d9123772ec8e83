import { randomUUID } from 'node:crypto';
import { accessSync, constants, statSync } from 'node:fs';
import { rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { HAND_WRITTEN_BYTES, readForeignFile } from '@flashcore/shared/files';
import { UsageError } from './exit-code.ts';

/** Files named by options, which are written once there is content. */
type NamedFiles = Readonly<Record<string, string | undefined>>;

/**
 * Checks before a job runs that each file can be written, because otherwise the job's result would be lost. Throws
 * UsageError with the option's name.
 */
export function requireWritable(files: NamedFiles): void {
  for (const [option, file] of Object.entries(files)) if (file !== undefined) requireOne(option, path.resolve(file));
}

interface OutputOptions {
  readonly record?: string | undefined;
  readonly junit?: string | undefined;
  readonly save?: string | undefined;
}

/** Checks the files that a job's command writes besides its report. Throws like requireWritable(). */
export const requireOutputs = ({ record, junit, save }: OutputOptions): void =>
  requireWritable({ '--record': record, '--junit': junit, '--save': save });

/**
 * Writes a file next to its destination and moves it there, so that a full disk leaves no partial file under the final
 * name.
 */
export async function writeWhole(file: string, bytes: Uint8Array): Promise<void> {
  const unfinished = `${file}.${randomUUID().slice(0, 8)}.part`;
  try {
    await writeFile(unfinished, bytes, { flag: 'wx' });
    await rename(unfinished, file);
  } catch (error) {
    await rm(unfinished, { force: true });
    throw error;
  }
}

function requireOne(option: string, file: string): void {
  const folder = path.dirname(file);
  const found = statSync(file, { throwIfNoEntry: false });
  if (found?.isDirectory()) throw new UsageError(`${option}: ${file} is a folder; give a file`);
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw new UsageError(`${option}: ${folder} is not a folder; give a file in one that exists`);
  const problem = systemProblem(() => accessSync(found ? file : folder, constants.W_OK));
  if (problem) throw new UsageError(`${option}: can't be written, ${problem}`);
}

/** The bytes of a file named by an option. Throws UsageError with the option's name. */
export function readNamed(option: string, file: string): Buffer {
  let bytes: Buffer = Buffer.alloc(0);
  const problem = systemProblem(() => {
    bytes = readForeignFile(file, HAND_WRITTEN_BYTES);
  });
  if (problem) throw new UsageError(`${option}: can't be read, ${problem}`);
  return bytes;
}

/** The system's error text, such as "ENOENT: no such file or directory, open 'x'"; undefined if `work` succeeded. */
function systemProblem(work: () => void): string | undefined {
  try {
    work();
    return undefined;
  } catch (error) {
    if (error instanceof Error && typeof (error as NodeJS.ErrnoException).errno === 'number') return error.message;
    throw error;
  }
}
