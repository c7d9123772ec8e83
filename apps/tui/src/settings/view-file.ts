/** The view in which the user left the program, with job and filters, for each runner. */
import * as z from 'zod';
import { entryOf } from '@flashcore/shared/text';
import { SAVED_VIEW, type SavedView } from '../state/saved-view.ts';
import { StateFile } from './state-file.ts';

// Limit on the remembered runners. The ones not used for the longest time are forgotten first.
const MOST_RUNNERS = 50;

const CONTENT = z.object({ runners: z.record(z.string(), SAVED_VIEW) });

interface ReadView {
  readonly view?: SavedView | undefined;
  /** A message for the user, if the file cannot be used. */
  readonly problem?: string | undefined;
}

export class ViewFile {
  readonly #state: StateFile<z.infer<typeof CONTENT>>;

  constructor(environment: NodeJS.ProcessEnv) {
    this.#state = new StateFile({
      environment,
      name: 'fa-tui-views.json',
      version: 1,
      schema: CONTENT,
      empty: { runners: {} },
      about: 'The saved view of fa-tui',
    });
  }

  get file(): string {
    return this.#state.file;
  }

  /** The view in which the user left `runner`. */
  read(runner: string): ReadView {
    const { content, problem } = this.#state.read();
    return { view: entryOf(content.runners, runner), problem };
  }

  /** Saves the view on leaving. An idle program that is closed later leaves the time of the last visit unchanged. */
  write(runner: string, view: SavedView): void {
    this.#write(runner, (saved) => ({ ...view, leftAt: latest(saved, view) }));
  }

  /**
   * Notes that the user was here by the time in `view`, in case the program is killed. Keeps the view that another
   * program saved on leaving, and the time if the user was in another program since.
   */
  touch(runner: string, view: SavedView): void {
    this.#write(runner, (saved = view) => ({ ...saved, leftAt: latest(saved, view) }));
  }

  #write(runner: string, change: (saved: SavedView | undefined) => SavedView): void {
    this.#state.write(({ runners }) => {
      const view = change(entryOf(runners, runner));
      const others = Object.entries(runners)
        .filter(([name]) => name !== runner)
        .slice(0, MOST_RUNNERS - 1);
      return { runners: Object.fromEntries([[runner, view], ...others]) };
    });
  }
}

/** The later of the two times. A saved time that is still to come is from a wrong clock, and would hide every visit. */
const latest = (saved: SavedView | undefined, { leftAt }: SavedView): number | undefined =>
  saved?.leftAt === undefined || (leftAt ?? 0) > saved.leftAt || saved.leftAt > Date.now() ? leftAt : saved.leftAt;
