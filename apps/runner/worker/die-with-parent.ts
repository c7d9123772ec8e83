import { accessSync, constants, writeFileSync } from 'node:fs';
import koffi from 'koffi';

const PR_SET_PDEATHSIG = 1;
const SIGKILL = 9;

/**
 * Asks Linux to kill this process when its parent dies, however that happens. A process in a hung native call
 * would not notice that the channel is closed. Linux only; elsewhere a hung worker outlives a killed daemon.
 */
export function dieWithParent(): void {
  if (process.platform !== 'linux') return;
  const prctl = koffi
    .load(null)
    .func('int prctl(int option, uint64_t a, uint64_t b, uint64_t c, uint64_t d)') as unknown as (
    option: number,
    ...values: number[]
  ) => number;
  const status = prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (status !== 0) throw new Error(`prctl(PR_SET_PDEATHSIG) answered ${status}`);
  dieBeforeDaemon();
}

const OOM_SCORE = '/proc/self/oom_score_adj';
/** Out of a thousand. Candidates and compilers have 1000, the daemon 0. */
const WORKER_SCORE = '500';

/** If memory runs out, Linux kills this process before the daemon, which holds all jobs. */
function dieBeforeDaemon(): void {
  if (isWritable(OOM_SCORE)) writeFileSync(OOM_SCORE, WORKER_SCORE);
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false; // A container may mount /proc read-only.
  }
}
