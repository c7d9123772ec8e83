/** How the user left the program, for each runner: view, job, filters. Kept in the user's state folder. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { stateFolder } from '@flashcore/shared/files';
import * as z from 'zod';
import { errorText } from '@flashcore/shared/text';
import { SAVED_VIEW, type SavedView } from '../state/saved-view.ts';

const VERSION = 1;
// A runner not visited for so long that others fill the list is forgotten.
const MOST_RUNNERS = 50;

const FILE = z.object({ version: z.literal(VERSION), runners: z.record(z.string(), SAVED_VIEW) });

export interface ReadView {
  readonly view?: SavedView | undefined;
  /** What the user should know about the file. */
  readonly problem?: string | undefined;
}

export class ViewFile {
  readonly file: string;
  /** False: the file is of a newer version, and stays as it is. */
  #writable = true;

  constructor(environment: NodeJS.ProcessEnv) {
    this.file = path.join(stateFolder(environment), 'fa-tui-views.json');
  }

  /** How the user left `runner`. A file that can't be read is set aside, and that is told. */
  read(runner: string): ReadView {
    try {
      return { view: this.#runners()[runner] };
    } catch (error) {
      const aside = `${this.file}.unreadable`;
      if (!this.#writable) return { problem: errorText(error) };
      renameSync(this.file, aside);
      return { problem: `How you left fa-tui could not be read (${shortly(error)}): the file is now ${aside}` };
    }
  }

  write(runner: string, view: SavedView): void {
    if (!this.#writable) return;
    const others = Object.entries(this.#runners())
      .filter(([name]) => name !== runner)
      .slice(0, MOST_RUNNERS - 1);
    mkdirSync(path.dirname(this.file), { recursive: true, mode: 0o700 });
    // In one step: two programs that end at once leave one of the two, never a mixture.
    const fresh = `${this.file}.${process.pid}`;
    writeFileSync(
      fresh,
      `${JSON.stringify({ version: VERSION, runners: Object.fromEntries([[runner, view], ...others]) }, null, 2)}\n`,
      { mode: 0o600 },
    );
    renameSync(fresh, this.file);
  }

  #runners(): Record<string, SavedView> {
    let content: string;
    try {
      content = readFileSync(this.file, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
      throw error;
    }
    const document = JSON.parse(content) as { version?: unknown };
    if (typeof document.version === 'number' && document.version > VERSION) {
      this.#writable = false;
      throw new Error(
        `How you left fa-tui was written by a newer version (${this.file}): it is neither used nor changed`,
      );
    }
    return FILE.parse(document).runners;
  }
}

function shortly(error: unknown): string {
  if (error instanceof z.ZodError)
    return error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`)[0] ?? '';
  return errorText(error);
}
