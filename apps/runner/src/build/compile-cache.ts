import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import { isRunning } from '@flashcore/shared/files';
import type { Box } from '../sandbox/box.ts';
import { findBox } from '../sandbox/find-box.ts';
import { sizeOfMade } from '../sandbox/made-file.ts';
import { storageError } from '../store/storage-error.ts';
import { untilAborted } from '../async.ts';
import { KILLED, runStages, type StagesEnd } from './compile-stages.ts';
import type { CompileClaims } from './compile-claims.ts';
import {
  readRecord,
  writeRecord,
  type CompiledFiles,
  type CompileRecord,
  type StoredOutput,
} from './compile-record.ts';
import type { CompileOptions, CompileOutput, CompileUnit } from './compile-unit.ts';

/** A compilation of another's; one that failed is nothing to keep. */
export interface OtherBuild extends CompileRecord {
  timedOut?: boolean;
}

/** Compilations of others: SharedBuilds, InstalledLibraries, AssignedBuilds. */
export interface OtherBuilds {
  /** Copies a compilation into a runner's own files; undefined where it is not there, whole. Errors: DISK_FULL. */
  copyTo(own: CompiledFiles, key: string): OtherBuild | undefined;
  /** Errors: DISK_FULL. */
  keep(own: CompiledFiles, record: CompileRecord): void;
}

export interface Compilation extends CompileRecord {
  cacheHit: boolean;
  timedOut: boolean;
}

interface CompileCacheParts {
  box?: () => Promise<Box>;
  /** Where else it looks, and what it keeps there too. */
  others?: readonly OtherBuilds[];
  /** Of the processes that share its folder or one of the others; absent: each compiles what it lacks. */
  claims?: CompileClaims | undefined;
}

/** Counts up when a change here makes old entries wrong. */
const SCHEMA = 1;

/**
 * Compiles, or finds what was compiled before from the same inputs. Only successes are kept; an entry is written after
 * its artifacts, in one step.
 */
export class CompileCache {
  readonly #folder: string;
  readonly #files: CompiledFiles;
  readonly #box: () => Promise<Box>;
  readonly #others: readonly OtherBuilds[];
  readonly #claims: CompileClaims | undefined;
  readonly #running = new Map<string, Promise<unknown>>();
  /** Since the start. */
  readonly use = { hits: 0, misses: 0 };

  constructor(
    folder: string,
    files: CompiledFiles,
    { box = () => findBox('none'), others = [], claims }: CompileCacheParts = {},
  ) {
    this.#box = box;
    this.#claims = claims;
    this.#others = others;
    this.#folder = folder;
    this.#files = files;
    for (const part of ['work', 'entries']) mkdirSync(join(folder, part), { recursive: true, mode: 0o700 });
    removeAbandoned(join(folder, 'work'));
  }

  async compile(unit: CompileUnit, options: CompileOptions): Promise<Compilation> {
    const key = keyOf(unit);
    // Another job may be at the same: its result is then in the cache, or it failed and it's ours to say why.
    for (let running = this.#running.get(key); running; running = this.#running.get(key))
      await untilAborted(
        running.catch(() => undefined),
        options.signal,
      );
    const known = this.#hit(key);
    if (known) return known;
    const running = this.#claimAndRun(unit, key, options);
    this.#running.set(key, running);
    try {
      return await running;
    } finally {
      this.#running.delete(key);
    }
  }

  /** A cached compilation whose artifacts are all there and undamaged. */
  find(key: string): OtherBuild | undefined {
    const own = readRecord(this.#entryPath(key), key, this.#files);
    if (own) return own;
    for (const other of this.#others) {
      const found = other.copyTo(this.#files, key);
      if (found?.exitCode === 0) writeRecord(this.#entryPath(key), found);
      if (found) return found;
    }
    return undefined;
  }

  #hit(key: string): Compilation | undefined {
    const known = this.find(key);
    if (!known) return undefined;
    this.use.hits += 1;
    return { timedOut: false, ...known, cacheHit: true };
  }

  async #claimAndRun(unit: CompileUnit, key: string, options: CompileOptions): Promise<Compilation> {
    using claim = await this.#claims?.take(key, options.signal);
    const known = claim?.waited ? this.#hit(key) : undefined;
    if (known) return known;
    this.use.misses += 1;
    options.onStart?.();
    return await this.#run(unit, key, options);
  }

  async #run(unit: CompileUnit, key: string, options: CompileOptions): Promise<Compilation> {
    const folder = join(this.#folder, 'work', `${process.pid}-${key.slice(0, 32)}`);
    try {
      for (const { path, text } of unit.files) writeInside(folder, path, text);
      const box = await untilAborted(this.#box(), options.signal);
      let ends = await runStages(unit, { ...options, folder, box });
      // What the host did to a compiler says nothing about the kernel.
      if (hostFault(ends, unit.limitMs) !== undefined) ends = await runStages(unit, { ...options, folder, box });
      const fault = hostFault(ends, unit.limitMs);
      if (fault !== undefined) throw hostError(fault);
      const record: CompileRecord = {
        key,
        seconds: ends.seconds,
        exitCode: ends.exitCode,
        host: hostname(),
        lines: ends.lines,
        outputs: ends.exitCode === 0 ? unit.outputs.map((output) => this.#store(folder, output)) : [],
      };
      if (record.exitCode === 0) this.#write(record);
      return { ...record, cacheHit: false, timedOut: ends.timedOut };
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  #store(folder: string, output: CompileOutput): StoredOutput {
    const path = join(folder, output.path);
    return {
      fileName: output.fileName,
      kind: output.kind,
      sizeBytes: sizeOfMade(path),
      sha256: this.#files.putFile(path),
    };
  }

  #write(record: CompileRecord): void {
    writeRecord(this.#entryPath(record.key), record);
    for (const other of this.#others) other.keep(this.#files, record);
  }

  #entryPath(key: string): string {
    return join(this.#folder, 'entries', `${key}.json`);
  }
}

// g++ tells of its parts, nvcc of its own; the linker and the assembler say the second.
const KILLED_PART = /(?:^|: )(?:fatal error: )?Killed signal terminated program \w+|died due to signal 9\b/;
const NO_SPACE = /: No space left on device\b/;
/** A compiler that is killed sooner has not come to its own limits. */
const OWN_LIMIT_PART = 0.8;

type HostFault = 'no-space' | 'killed';

/** What the host did to the compiler; undefined: it ended as its sources made it end. */
export function hostFault(
  { exitCode, timedOut, seconds, lines }: Pick<StagesEnd, 'exitCode' | 'timedOut' | 'seconds' | 'lines'>,
  limitMs: number,
): HostFault | undefined {
  if (exitCode === 0 || timedOut) return undefined;
  if (lines.some((line) => NO_SPACE.test(line))) return 'no-space';
  const killed = exitCode === KILLED || lines.some((line) => KILLED_PART.test(line));
  return killed && seconds * 1000 < OWN_LIMIT_PART * limitMs ? 'killed' : undefined;
}

function hostError(fault: HostFault): FlashcoreError {
  return fault === 'no-space'
    ? new FlashcoreError(
        'DISK_FULL',
        {},
        "The compiler found no space left, twice: free some on the disk of the runner's data directory and try again",
      )
    : new FlashcoreError(
        'INTERNAL',
        { cause: 'compiler killed' },
        "The compiler was killed (signal 9), twice: look at the host's memory and try again",
      );
}

/** SHA-256 over the compiler, its arguments, every file, and what may be included from the host. */
export function keyOf(unit: CompileUnit): string {
  const hash = createHash('sha256');
  hash.update(JSON.stringify([SCHEMA, unit.compiler.identity, unit.target, unit.stages, unit.outputs]));
  for (const { name, digest } of unit.headers ?? []) hash.update(JSON.stringify(['headers', name, digest]));
  for (const { path, text } of [...unit.files].sort((a, b) => (a.path < b.path ? -1 : 1)))
    hash.update(JSON.stringify([path, text]));
  return hash.digest('hex');
}

function writeInside(folder: string, path: string, text: string): void {
  const target = join(folder, path);
  try {
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, text);
  } catch (error) {
    throw storageError(error, 'lay out the sources to compile');
  }
}

/** Build folders of processes that are gone. */
function removeAbandoned(folder: string): void {
  for (const name of readdirSync(folder))
    if (!isRunning(parseInt(name, 10))) rmSync(join(folder, name), { recursive: true, force: true });
}
