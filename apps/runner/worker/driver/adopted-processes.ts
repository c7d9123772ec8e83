import { readFileSync, readdirSync } from 'node:fs';
import koffi from 'koffi';
import { killIfThere } from '@flashcore/shared/files';

const ATTRIBUTES = { PR_SET_PDEATHSIG: 1, PR_SET_CHILD_SUBREAPER: 36 };
const WNOHANG = 1;
const PATIENCE_MS = 2_000;
const ROUND_MS = 1;

type Native = (...values: unknown[]) => number;
/** A function of the C library, for example 'int getpid()'. */
export const libc = (declaration: string): Native => koffi.load(null).func(declaration);

/** Sets an attribute of this process. Linux only. */
export function setAttribute(name: keyof typeof ATTRIBUTES, value: number): void {
  const prctl = libc('int prctl(int option, uint64_t a, uint64_t b, uint64_t c, uint64_t d)');
  const status = prctl(ATTRIBUTES[name], value, 0, 0, 0);
  if (status !== 0) throw new Error(`prctl(${name}) answered ${status}`);
}

/**
 * Processes that a candidate starts without a box and leaves behind. This process becomes their parent, whatever the
 * candidate did to their group, session and environment. Linux only.
 */
export const AdoptedProcesses = {
  /** Makes this process the parent of its children's orphans from now on. */
  adopt(): void {
    setAttribute('PR_SET_CHILD_SUBREAPER', 1);
  },

  /**
   * Kills and reaps all children except one, which the caller awaits elsewhere, and then their children, which this
   * process adopts.
   */
  end(except: number | undefined): void {
    const waitpid = libc('int waitpid(int pid, void *status, int options)');
    for (const until = performance.now() + PATIENCE_MS; performance.now() < until;) {
      const left = childrenOf(process.pid).filter((id) => id !== except);
      if (left.length === 0) return;
      for (const id of left) {
        // A program may have changed its user.
        killIfThere(id);
        waitpid(id, null, WNOHANG);
      }
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ROUND_MS);
    }
  },
};

const childrenOf = (parent: number): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && parentOf(name) === parent)
    .map(Number);

function parentOf(id: string): number | undefined {
  try {
    const stat = readFileSync(`/proc/${id}/stat`, 'latin1');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
}
