import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { isRunning } from '@flashcore/shared/files';
import { type Box, sizeOfMade } from '../sandbox/box.ts';
import { findBox } from '../sandbox/find-box.ts';
import { storageError } from '../store/storage-error.ts';
import { untilAborted } from '../async.ts';
import { faultOfTwo, hostError, hostFault } from './compile-blame.ts';
import { runStages, type StageOptions, type StagesEnd } from './compile-stages.ts';
import type { CompileProgress } from './compile-progress.ts';
import type { CompileClaims } from './compile-claims.ts';
import {
  readRecord,
  writeRecord,
  type CompiledFiles,
  type CompileRecord,
  type StoredOutput,
} from './compile-record.ts';
import { CompilePriority, type PriorityOptions } from './compile-priority.ts';
import type { CompilationUnderWay, CompileOptions, CompileOutput, CompileUnit, UsualTime } from './compile-unit.ts';
import type { SnapshotFile } from './source-snapshot.ts';

/** A compilation from another store. It always succeeded, because failed compilations are not stored. */
export interface OtherBuild extends CompileRecord {
  timedOut?: boolean;
}

/** Another store of compilations: SharedBuilds, InstalledLibraries or AssignedBuilds. */
export interface OtherBuilds {
  /** Copies a compilation into a runner's own files; undefined if it is missing or incomplete. Errors: DISK_FULL. */
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
  /** Other stores in which the cache looks for compilations and keeps them. */
  others?: readonly OtherBuilds[];
  /**
   * Claims shared by the processes that use this folder or a folder of `others`. Without claims, two processes may
   * compile the same unit.
   */
  claims?: CompileClaims | undefined;
  priorities?: Omit<PriorityOptions, 'isLow'>;
}

/** A compilation that has not ended. */
interface Running {
  end: Promise<unknown>;
  priority: CompilePriority;
  aside: boolean;
  sinceMs: number;
}

interface RunningOptions extends CompileOptions {
  priority: CompilePriority;
}

/** Increased by each change to this file that makes old entries invalid. */
const SCHEMA = 1;

/**
 * Compiles a unit, or returns the result of an earlier compilation of the same inputs. Only successful results are
 * kept. An entry is written after its artifacts, in one step.
 */
export class CompileCache {
  readonly #folder: string;
  readonly #files: CompiledFiles;
  readonly #box: () => Promise<Box>;
  readonly #others: readonly OtherBuilds[];
  readonly #claims: CompileClaims | undefined;
  readonly #priorities: Omit<PriorityOptions, 'isLow'>;
  readonly #running = new Map<string, Running>();
  readonly #usual = new Map<string, UsualTime>();
  /** Hits and misses since the start. */
  readonly use = { hits: 0, misses: 0 };

  constructor(
    folder: string,
    files: CompiledFiles,
    { box = () => findBox('none'), others = [], claims, priorities = {} }: CompileCacheParts = {},
  ) {
    this.#box = box;
    this.#claims = claims;
    this.#priorities = priorities;
    this.#others = others;
    this.#folder = folder;
    this.#files = files;
    for (const part of ['work', 'entries']) mkdirSync(join(folder, part), { recursive: true, mode: 0o700 });
    removeAbandoned(join(folder, 'work'));
  }

  async compile(unit: CompileUnit, options: CompileOptions): Promise<Compilation> {
    const key = keyOf(unit);
    // Another job may be compiling the same unit. Afterwards the result is in the cache. If that compilation failed,
    // this call compiles again to report why.
    for (let running = this.#running.get(key); running; running = this.#running.get(key))
      await this.#untilEnded(running, unit, options);
    const known = this.#hit(key);
    if (known) return known;
    using priority = new CompilePriority({ ...this.#priorities, isLow: options.aside === true });
    const end = this.#claimAndRun(unit, key, { ...options, priority });
    this.#running.set(key, { end, priority, aside: priority.isLow, sinceMs: performance.now() });
    try {
      return await end;
    } finally {
      this.#running.delete(key);
    }
  }

  /** Waits for another build's compilation, which no longer runs in the background if this build does not. */
  async #untilEnded(
    { end, priority, aside, sinceMs }: Running,
    unit: CompileUnit,
    options: CompileOptions,
  ): Promise<void> {
    if (!options.aside) priority.raise();
    options.onWait?.({ aside, seconds: (performance.now() - sinceMs) / 1000, usual: this.#usual.get(nameOf(unit)) });
    await untilAborted(
      end.catch(() => undefined),
      options.signal,
    );
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

  async #claimAndRun(unit: CompileUnit, key: string, options: RunningOptions): Promise<Compilation> {
    using claim = await this.#claims?.take(key, options.signal);
    const known = claim?.waited ? this.#hit(key) : undefined;
    if (known) return known;
    this.use.misses += 1;
    options.onStart?.(this.#usual.get(nameOf(unit)));
    return await this.#run(unit, key, options);
  }

  async #run(unit: CompileUnit, key: string, options: RunningOptions): Promise<Compilation> {
    const folder = this.#workFolder(key);
    try {
      for (const file of unit.files) writeInside(folder, file);
      const box = await untilAborted(this.#box(), options.signal);
      const ends = await this.#runFairly(unit, { ...options, folder, box });
      const record: CompileRecord = {
        key,
        seconds: ends.seconds,
        exitCode: ends.exitCode,
        host: hostname(),
        lines: ends.lines,
        outputs: ends.exitCode === 0 ? unit.outputs.map((output) => this.#store(folder, output)) : [],
      };
      if (record.exitCode === 0) this.#write(record);
      if (record.exitCode === 0 && !options.priority.isLow) this.#usual.set(nameOf(unit), record.seconds);
      return { ...record, cacheHit: false, timedOut: ends.timedOut };
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  /**
   * Runs a unit's stages. If the host may be at fault for a failure, runs them a second time, because such a failure
   * says nothing about the kernel. Errors: DISK_FULL, INTERNAL if the host is at fault the second time too.
   */
  async #runFairly(unit: CompileUnit, options: StageOptions): Promise<StagesEnd> {
    const first = await runAtPriority(unit, options);
    if (hostFault(first, unit.limitMs) === undefined) return first;
    const second = await runAtPriority(unit, options);
    const fault = faultOfTwo(first, second, unit.limitMs);
    if (fault !== undefined) throw hostError(fault);
    return second;
  }

  /**
   * The compiler's work folder: a temporary one if the cache's path contains a quote. nvcc writes the path into PTX
   * unescaped, and its assembler would end the name at the quote.
   */
  #workFolder(key: string): string {
    const folder = join(this.#folder, 'work', `${process.pid}-${key.slice(0, 32)}`);
    return folder.includes('"') ? mkdtempSync(join(tmpdir(), 'flashcore-build-')) : folder;
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

/** Runs a unit's stages, a second time if only that gives them the priority that they should have by now. */
async function runAtPriority(unit: CompileUnit, options: StageOptions): Promise<StagesEnd> {
  const { signal, priority } = options;
  try {
    return await runStages(unit, { ...options, signal: AbortSignal.any([signal, priority.restart]) });
  } catch (error) {
    if (signal.aborted || !priority.restart.aborted) throw error;
    return await runStages(unit, options);
  }
}

/** The name under which the time of a unit's compilations is remembered, whatever its sources. */
const nameOf = ({ target, outputs, entries = [] }: CompileUnit): string =>
  [target, outputs[0]?.fileName, ...entries].join(' ');

/** SHA-256 over the compiler, its arguments, every file, and the host's headers that may be included. */
export function keyOf(unit: CompileUnit): string {
  const hash = createHash('sha256');
  hash.update(JSON.stringify([SCHEMA, unit.compiler.identity, unit.target, unit.stages, unit.outputs]));
  for (const { name, digest } of unit.headers ?? []) hash.update(JSON.stringify(['headers', name, digest]));
  for (const { path, text } of [...unit.files].sort((a, b) => (a.path < b.path ? -1 : 1)))
    hash.update(JSON.stringify([path, text]));
  return hash.digest('hex');
}

function writeInside(folder: string, { path, text, binary }: SnapshotFile): void {
  const target = join(folder, path);
  try {
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, text, binary ? 'latin1' : 'utf8');
  } catch (error) {
    throw storageError(error, 'lay out the sources to compile');
  }
}

/** Removes work folders of processes that are gone. */
function removeAbandoned(folder: string): void {
  for (const name of readdirSync(folder))
    if (!isRunning(parseInt(name, 10))) rmSync(join(folder, name), { recursive: true, force: true });
}

export interface BuildListener {
  signal: AbortSignal;
  /** A background build, which uses only the processor time that other processes leave. */
  aside?: boolean | undefined;
  /** Called with each line of "nvcc", "clang++" or "g++". */
  onLine?: (source: string, line: string) => void;
  /** Called when a compiler is about to run because nothing was in the cache. */
  onStart?: ((usual: UsualTime) => void) | undefined;
  /** Called when a compilation that another build began is awaited. */
  onWait?: ((under: CompilationUnderWay) => void) | undefined;
  /** Follows the compilations of the runner's own libraries. */
  progress?: CompileProgress | undefined;
  /** Called for each compilation, whether its result was in the cache, is new or is a failure. */
  onCompiled?: ((unit: CompileUnit, compilation: Compilation) => void) | undefined;
}
