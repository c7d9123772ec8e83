/**
 * Computes the contents of a disk after a power cut from the record of disk-recorder.cpp. Syncing a file makes its
 * bytes and its name safe. Syncing a folder makes the names in it safe. POSIX promises nothing else.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type { Random } from '@flashcore/shared/statistics';

const SECTOR_BYTES = 512;

/** The fate of the operations that no sync has made safe. */
export type Fate = 'all are kept' | 'all are lost' | 'names are kept' | 'some are kept';
export const FATES: readonly Fate[] = ['all are lost', 'names are kept', 'some are kept'];

type Operation =
  | { kind: 'create'; file: number; path: string }
  | { kind: 'write'; file: number; offset: number; bytes: Buffer }
  | { kind: 'truncate'; file: number; size: number }
  | { kind: 'sync'; number: number; target: string }
  | { kind: 'synced'; number: number }
  | { kind: 'rename'; path: string; to: string }
  | { kind: 'unlink' | 'mkdir' | 'rmdir'; path: string };

export type Recorded = Operation & {
  /** When the operation ended, in ns of the monotonic clock. */
  readonly at: bigint;
};

/** Reads a record of disk-recorder.cpp. */
export function readRecord(log: string): Recorded[] {
  const data = readFileSync(`${log}.data`);
  const lines = readFileSync(log, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => {
    const [at, kind, first, second, third, fourth] = line.split('\t') as [string, string, ...string[]];
    return { at: BigInt(at), ...operationOf(kind, [first!, second!, third!, fourth!], data) };
  });
}

function operationOf(
  kind: string,
  [first, second, third, fourth]: readonly [string, string, string, string],
  data: Buffer,
): Operation {
  switch (kind) {
    case 'create':
      return { kind, file: Number(first), path: second };
    case 'write': {
      const begin = Number(fourth);
      return { kind, file: Number(first), offset: Number(second), bytes: data.subarray(begin, begin + Number(third)) };
    }
    case 'truncate':
      return { kind, file: Number(first), size: Number(second) };
    case 'sync':
      return { kind, number: Number(first), target: second };
    case 'synced':
      return { kind, number: Number(first) };
    case 'rename':
      return { kind, path: first, to: second };
    case 'unlink':
    case 'mkdir':
    case 'rmdir':
      return { kind, path: first };
    default:
      throw new Error(`the record has an unknown operation ${kind}`);
  }
}

interface PowerCut {
  /** The folder that was recorded. */
  readonly root: string;
  readonly fate: Fate;
  readonly random: Random;
}

/** The disk's files, by path relative to `root`, if the power fails after all these operations. */
export function imageOf(operations: readonly Recorded[], { root, fate, random }: PowerCut): Map<string, Buffer> {
  const kept = keptOperations(operations, fate, random);
  const names = new Map<string, number>();
  const contents = new Map<number, Buffer>();
  for (const operation of kept) {
    switch (operation.kind) {
      case 'create':
        names.set(operation.path, operation.file);
        break;
      case 'rename':
        rename(names, operation);
        break;
      case 'unlink':
        names.delete(operation.path);
        break;
      case 'write':
        contents.set(operation.file, written(contents.get(operation.file), operation));
        break;
      case 'truncate':
        contents.set(operation.file, resized(contents.get(operation.file), operation.size));
        break;
      default:
    }
  }
  return new Map([...names].map(([path, file]) => [relative(root, path), contents.get(file) ?? Buffer.alloc(0)]));
}

/**
 * Writes the files below a folder. Leaves out the index of a write-ahead log, which is shared memory and therefore on
 * no disk.
 */
export function layOut(image: ReadonlyMap<string, Buffer>, folder: string): void {
  mkdirSync(folder, { recursive: true });
  for (const [path, bytes] of image) {
    if (path.endsWith('-shm')) continue;
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), bytes);
  }
}

function keptOperations(operations: readonly Recorded[], fate: Fate, random: Random): Operation[] {
  if (fate === 'all are kept') return [...operations];
  const safe = safeOperations(operations);
  // A disk may reorder changes of names only if nobody can observe the order. An image therefore keeps all changes up
  // to some point and loses the rest.
  const names = operations.flatMap((operation, index) => (isName(operation) && !safe.has(index) ? [index] : []));
  const last = { 'names are kept': Infinity, 'all are lost': -1, 'some are kept': pickFrom(names, random) };
  const namesUpTo = last[fate];
  return operations.flatMap((operation, index) => {
    if (safe.has(index) || (isName(operation) && index <= namesUpTo)) return [operation];
    return fate === 'some are kept' && operation.kind === 'write' ? torn(operation, random) : [];
  });
}

const pickFrom = (indices: readonly number[], random: Random): number =>
  indices[Math.floor(random.uniform() * (indices.length + 1))] ?? Infinity;

/** Keeps a random half of a write's sectors. */
function torn(operation: Extract<Operation, { kind: 'write' }>, random: Random): Operation[] {
  const { offset, bytes } = operation;
  const pieces: Operation[] = [];
  for (let begin = 0; begin < bytes.length;) {
    const end = Math.min(bytes.length, begin + SECTOR_BYTES - ((offset + begin) % SECTOR_BYTES));
    if (random.uniform() < 0.5)
      pieces.push({ ...operation, offset: offset + begin, bytes: bytes.subarray(begin, end) });
    begin = end;
  }
  return pieces;
}

/** Indices of the operations that a sync has made safe: the sync began after the operation, and has ended. */
function safeOperations(operations: readonly Recorded[]): Set<number> {
  const ended = new Set(operations.flatMap((each) => (each.kind === 'synced' ? [each.number] : [])));
  const safe = new Set<number>();
  const pending = new Map<string, number[]>();
  const add = (target: string, index: number): void => {
    const waiting = pending.get(target);
    if (waiting) waiting.push(index);
    else pending.set(target, [index]);
  };
  const names = new Map<string, number>();
  for (const [index, operation] of operations.entries()) {
    switch (operation.kind) {
      case 'mkdir':
      case 'rmdir':
        safe.add(index);
        break;
      case 'create':
        names.set(operation.path, operation.file);
        add(String(operation.file), index);
        add(dirname(operation.path), index);
        break;
      case 'rename': {
        const file = names.get(operation.path);
        rename(names, operation);
        if (file !== undefined) add(String(file), index);
        add(dirname(operation.to), index);
        break;
      }
      case 'unlink':
        names.delete(operation.path);
        add(dirname(operation.path), index);
        break;
      case 'write':
      case 'truncate':
        add(String(operation.file), index);
        break;
      case 'sync':
        if (!ended.has(operation.number)) break;
        for (const each of pending.get(operation.target) ?? []) safe.add(each);
        pending.delete(operation.target);
        break;
      case 'synced':
        break;
    }
  }
  return safe;
}

const isName = ({ kind }: Operation): boolean => ['create', 'rename', 'unlink'].includes(kind);

function rename(names: Map<string, number>, { path, to }: { path: string; to: string }): void {
  for (const [name, file] of [...names]) {
    if (name !== path && !name.startsWith(`${path}/`)) continue;
    names.delete(name);
    names.set(to + name.slice(path.length), file);
  }
}

function written(before: Buffer | undefined, { offset, bytes }: { offset: number; bytes: Buffer }): Buffer {
  const after = resized(before, Math.max(before?.length ?? 0, offset + bytes.length));
  bytes.copy(after, offset);
  return after;
}

function resized(before: Buffer | undefined, size: number): Buffer {
  const after = Buffer.alloc(size);
  before?.copy(after, 0, 0, Math.min(size, before.length));
  return after;
}
