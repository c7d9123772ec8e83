import { closeSync, openSync, unlinkSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomUUID } from 'node:crypto';
import { compileFilter } from './bpf.ts';
import { CALL_FILTERS, type BoxedKind } from './call-filters.ts';
import { isFilteredArch } from './syscall-numbers.ts';

/** In memory if the system has /dev/shm, because a full disk must not prevent the box. */
const FOLDERS = ['/dev/shm', tmpdir()];

const files = new Map<BoxedKind, string>();

/**
 * The path through which a process of the runner's user opens the compiled filter of a kind during the runner's life.
 * The file has no name, so no other process can change it and no cleanup removes it. Errors: the system's.
 */
export function filterFile(kind: BoxedKind): string {
  let path = files.get(kind);
  if (path === undefined) files.set(kind, (path = namelessFile(compiled(kind))));
  return path;
}

function compiled(kind: BoxedKind): Buffer {
  const { arch } = process;
  if (!isFilteredArch(arch)) throw new Error(`There is a filter for x64 and arm64 only, and this is ${arch}`);
  return compileFilter(CALL_FILTERS[kind], arch);
}

function namelessFile(bytes: Buffer): string {
  const problems: unknown[] = [];
  for (const folder of FOLDERS) {
    const path = join(folder, `flashcore-${randomUUID()}`);
    let descriptor: number | undefined;
    try {
      descriptor = openSync(path, 'wx+', 0o600);
      unlinkSync(path);
      writeSync(descriptor, bytes);
      return `/proc/${process.pid}/fd/${descriptor}`;
    } catch (error) {
      problems.push(error);
      if (descriptor !== undefined) closeSync(descriptor);
    }
  }
  throw new AggregateError(
    problems,
    `Can't keep a filter of system calls in ${FOLDERS.join(' or ')}: ${problems.join(', ')}`,
  );
}
