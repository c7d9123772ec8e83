import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import type { Logger } from '../log.ts';
import { bubblewrapCommand, type Box, type BoxPolicy } from './box.ts';
import { isFilteredArch } from './syscall-numbers.ts';
import { noGroups, type ProcessGroups } from './groups.ts';
import { Probes, tryCommand } from './probe.ts';
import { runSync } from './run-sync.ts';

export type IsolationWanted = 'auto' | 'none' | 'required';

export interface BoxFinderOptions {
  wanted: IsolationWanted;
  /** Default: no groups. */
  groups?: ProcessGroups;
  /** Logs each program that runs unboxed, and why. */
  logger?: Logger | undefined;
  /** Default: 5 s for one try, and a minute before a failure is checked again. */
  probeLimitMs?: number;
  failureKeptMs?: number;
}

const PROBE_LIMIT_MS = 5_000;
/** Opening a GPU takes seconds on a busy host. */
const DEVICE_PROBE_LIMIT_MS = 30_000;

const DETAIL =
  "compilers and the emulator's executors run as nobody without privileges, with the system and their own files read-only, a private /tmp, no network and no view of other processes; they end with the runner, " +
  'and each of them is limited in processor time, processes and file size';
const UNBOXED = 'compilers and workers run with the rights of the runner: send it only code that you trust';

/**
 * Finds the box for each use. A success is cached; a failure is tried again after a while. A probe takes about 10 ms.
 */
export class BoxFinder {
  readonly #options: BoxFinderOptions;
  readonly #groups: ProcessGroups;
  readonly #probes: Probes;
  #box: Box | undefined;

  constructor(options: BoxFinderOptions) {
    this.#options = options;
    this.#groups = options.groups ?? noGroups('none were asked for');
    this.#probes = new Probes(options.failureKeptMs);
  }

  async find(): Promise<Box> {
    const { wanted, logger, probeLimitMs = PROBE_LIMIT_MS } = this.#options;
    if (wanted === 'none') return this.#none('switched off by --isolation none');
    if (process.platform !== 'linux') return this.#none('bubblewrap is for Linux only');
    const [bwrap, prlimit] = [findProgram('bwrap'), findProgram('prlimit')];
    if (!bwrap) return this.#none('bwrap was not found: install bubblewrap');
    if (!isFilteredArch(process.arch))
      return this.#none(`there is no filter of system calls for ${process.arch}, only for x64 and arm64`);
    if (!prlimit) return this.#none('prlimit was not found: install util-linux');
    const box = (this.#box ??= this.#bubblewrap({ bwrap, prlimit, nestedNamespaces: !canDisableNamespaces(bwrap) }));
    const problem = await this.#probes.problem('', async () => {
      const found = await tryCommand(
        box.wrap('/bin/sh', ['-c', 'test ! -e /etc/passwd && echo boxed >/tmp/probe'], {
          kind: 'compiler',
          limits: { cpuSeconds: 5, fileBytes: 4096 },
        }),
        probeLimitMs,
      );
      if (found !== undefined)
        logger?.warn(
          { problem: found },
          'bubblewrap does not work: compilers and workers run with the rights of the runner',
        );
      return found;
    });
    return problem === undefined ? box : this.#none(`bubblewrap does not work here: ${problem}`);
  }

  #none(reason: string): Box {
    const box: Box = {
      kind: 'none',
      detail: `${reason}; ${UNBOXED}`,
      wrap: (program, args) => ({ program, args: [...args] }),
      group: (name) => this.#groups.make(name),
      for: (program) =>
        this.#options.wanted === 'required' ? Promise.reject(boxRequired(program, reason)) : Promise.resolve(box),
    };
    return box;
  }

  #bubblewrap(programs: Parameters<typeof bubblewrapCommand>[0]): Box {
    const boxed = new Set<string>();
    const unboxed = new Map<string, string>();
    const box: Box = {
      kind: 'bubblewrap',
      get detail() {
        return [DETAIL, ...boxed, ...unboxed.values()].join('; ');
      },
      wrap: bubblewrapCommand(programs),
      group: (name) => this.#groups.make(name),
      for: async (program, args, policy) => {
        const what = policy.devices ? `a worker with ${policy.devices.join(', ')}` : program;
        const problem = await this.#probes.problem([program, ...(policy.devices ?? [])].join(' '), async () => {
          const found = await tryCommand(box.wrap(program, args, policy), this.#limitOf(policy));
          if (found === undefined) unboxed.delete(what);
          else unboxed.set(what, `${what} does not run in the box (${found}) and runs with the rights of the runner`);
          if (found === undefined && policy.devices)
            boxed.add(
              `a GPU's worker sees the driver's nodes (${policy.devices.join(', ')}), /sys and the system's /proc besides`,
            );
          if (found !== undefined)
            this.#options.logger?.warn(
              { program: what, problem: found },
              'a program does not run in the box: it runs with the rights of the runner, or not at all where a box is required',
            );
          return found;
        });
        if (problem === undefined) return box;
        if (this.#options.wanted === 'required') throw boxRequired(program, problem);
        return this.#none('');
      },
    };
    return box;
  }

  #limitOf({ devices }: BoxPolicy): number {
    return this.#options.probeLimitMs ?? (devices ? DEVICE_PROBE_LIMIT_MS : PROBE_LIMIT_MS);
  }
}

/**
 * True for bubblewrap 0.8 and later; false if bwrap can't run, which the box's probe then reports. Synchronous, so that
 * concurrent callers get the same box.
 */
function canDisableNamespaces(bwrap: string): boolean {
  return runSync(bwrap, ['--help'], { limitMs: PROBE_LIMIT_MS }).stdout.includes('--disable-userns');
}

/** Finds a box without caching the answer. */
export const findBox = (wanted: IsolationWanted): Promise<Box> => new BoxFinder({ wanted }).find();

function boxRequired(program: string, problem: string): FlashcoreError {
  return new FlashcoreError(
    'DEVICE_UNAVAILABLE',
    { program },
    `${program} does not run in the box (${problem}): use a program that does, or serve without --isolation required`,
  );
}

function findProgram(name: string): string | undefined {
  return [...(process.env['PATH'] ?? '').split(delimiter), '/usr/bin', '/bin']
    .filter((folder) => folder.startsWith('/'))
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path));
}
