import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import { makeFolder, readForeignText, stateFolder, isRunning } from '@flashcore/shared/files';
import type { CandidateSource } from './candidate-source.ts';
import type { SearchConfig } from './population.ts';
import type { Trial } from './trial.ts';

const VERSION = 1;
/** Limit on a file of a search. The longest contain a kernel's sources or a job's logs. */
const MAX_FILE_BYTES = 16 * 2 ** 20;

/** The settings of a search, which stay the same when it is resumed. */
export interface SearchPlan {
  readonly version: typeof VERSION;
  readonly id: string;
  /** Id of the kernel. `kernel` is the argument that named it. */
  readonly kernelId: string;
  readonly kernel: string;
  readonly proposer: string;
  readonly proposerSeconds: number;
  readonly config: SearchConfig;
  readonly trials: number;
  readonly population: number;
  /** Number of populations that evolve separately, which is also the limit on candidates in flight. */
  readonly islands: number;
  readonly seed: number;
  readonly maxUsd: number | null;
  readonly maxDeviceSeconds: number | null;
  /** The search ends after this many trials in a row that were not accepted; absent: no limit. */
  readonly patience?: number | undefined;
  /** Command-line options of the experiments. */
  readonly options: Readonly<Record<string, unknown>>;
  readonly root: CandidateSource;
  readonly notes: string;
}

/**
 * The folder of a search: search.json, and trials/NNNN with request.json, answer.txt, proposer.log, source/ and, after
 * the trial's end, trial.json. Files are written atomically. trial.json is written only once, possibly before the
 * trial.json of an earlier trial. A search killed at any point can therefore be resumed without counting a trial twice.
 */
export class SearchStore {
  readonly folder: string;
  readonly plan: SearchPlan;

  private constructor(folder: string, plan: SearchPlan) {
    this.folder = folder;
    this.plan = plan;
  }

  static create(environment: NodeJS.ProcessEnv, plan: Omit<SearchPlan, 'version'>): SearchStore {
    const folder = searchFolder(environment, plan.id);
    makeFolder(path.join(folder, 'trials'));
    const whole = { version: VERSION, ...plan } as const;
    writeWhole(path.join(folder, 'search.json'), JSON.stringify(whole, null, 2));
    return new SearchStore(folder, whole);
  }

  /** Errors: INVALID_REQUEST if the search does not exist or has another version. */
  static open(environment: NodeJS.ProcessEnv, id: string): SearchStore {
    const folder = searchFolder(environment, id);
    if (!/^[\w-]{1,64}$/.test(id)) throw invalid(`There is no search ${id}: searches are in ${path.dirname(folder)}`);
    return SearchStore.openFolder(folder);
  }

  /** Opens a search by the path of its folder. Errors: as open(). */
  static openFolder(folder: string): SearchStore {
    const file = path.join(folder, 'search.json');
    if (!existsSync(file))
      throw invalid(`There is no search ${path.basename(folder)}: searches are in ${path.dirname(folder)}`);
    const plan = JSON.parse(readForeignText(file, MAX_FILE_BYTES)) as Omit<SearchPlan, 'version'> & { version: number };
    if (plan.version !== VERSION) throw invalid(`${file} is of version ${plan.version}, this program reads ${VERSION}`);
    // A search that was stored before searches had islands has one island.
    const { islands = 1 } = plan as Partial<SearchPlan>;
    return new SearchStore(folder, { ...plan, islands, version: VERSION });
  }

  /**
   * Keeps other processes out while `work` runs. Errors: INVALID_REQUEST that names the process that holds the lock.
   */
  async locked<Result>(work: () => Promise<Result>): Promise<Result> {
    const file = path.join(this.folder, 'lock');
    const holder = existsSync(file) ? Number(readForeignText(file, MAX_FILE_BYTES)) : 0;
    if (holder > 1 && holder !== process.pid && isRunning(holder))
      throw invalid(`Process ${holder} runs the search ${this.plan.id}: end it, or wait for it`);
    writeWhole(file, String(process.pid));
    try {
      return await work();
    } finally {
      rmSync(file, { force: true });
    }
  }

  /** Ended trials in order, up to the first that has not ended. */
  trials(): Trial[] {
    const found: Trial[] = [];
    for (;;) {
      const text = this.read(found.length, 'trial.json');
      if (text === undefined) return found;
      found.push(JSON.parse(text) as Trial);
    }
  }

  /** The folder of a trial, created if it does not exist. */
  trialFolder(trial: number): string {
    const folder = path.join(this.folder, 'trials', String(trial).padStart(4, '0'));
    mkdirSync(folder, { recursive: true });
    return folder;
  }

  read(trial: number, name: string): string | undefined {
    const file = path.join(this.folder, 'trials', String(trial).padStart(4, '0'), name);
    return existsSync(file) ? readForeignText(file, MAX_FILE_BYTES) : undefined;
  }

  write(trial: number, name: string, text: string): void {
    writeWhole(path.join(this.trialFolder(trial), name), text);
  }

  /** The sources of a trial's build. */
  candidate(trial: number): CandidateSource {
    const text = trial === 0 ? undefined : this.read(trial, 'candidate.json');
    return text === undefined ? this.plan.root : (JSON.parse(text) as CandidateSource);
  }
}

/** Ids of this user's searches, newest last. */
export function searchIds(environment: NodeJS.ProcessEnv): string[] {
  const folder = searchesFolder(environment);
  return existsSync(folder) ? readdirSync(folder).toSorted() : [];
}

const searchesFolder = (environment: NodeJS.ProcessEnv): string => path.join(stateFolder(environment), 'searches');
const searchFolder = (environment: NodeJS.ProcessEnv, id: string): string => path.join(searchesFolder(environment), id);

function writeWhole(file: string, text: string): void {
  const draft = `${file}.${process.pid}.tmp`;
  writeFileSync(draft, text);
  renameSync(draft, file);
}

const invalid = (text: string): FlashcoreError => new FlashcoreError('INVALID_REQUEST', {}, text);
