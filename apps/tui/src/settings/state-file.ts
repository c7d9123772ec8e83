/** A JSON file in fa-tui's state folder: versioned, replaced atomically, and set aside if damaged. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { stateFolder } from '@flashcore/shared/files';
import { errorText } from '@flashcore/shared/text';
import * as z from 'zod';

interface StateFileOptions<Content> {
  readonly environment: NodeJS.ProcessEnv;
  readonly name: string;
  readonly version: number;
  /** The file's content without its version. */
  readonly schema: z.ZodType<Content>;
  /** The content to use if the file does not exist. */
  readonly empty: Content;
  /** The name of the content in messages, such as "The saved view of fa-tui". */
  readonly about: string;
}

interface ReadState<Content> {
  readonly content: Content;
  /** A message for the user, if the file cannot be used. */
  readonly problem?: string | undefined;
}

export class StateFile<Content extends object> {
  readonly file: string;
  readonly #options: StateFileOptions<Content>;
  /** False if a newer version wrote the file, which then must stay unchanged. */
  #writable = true;

  constructor(options: StateFileOptions<Content>) {
    this.#options = options;
    this.file = path.join(stateFolder(options.environment), options.name);
  }

  /** The content. A damaged file is set aside and reported. */
  read(): ReadState<Content> {
    const { empty, about } = this.#options;
    try {
      return { content: this.#content() };
    } catch (error) {
      const aside = `${this.file}.unreadable`;
      if (!this.#writable) return { content: empty, problem: errorText(error) };
      renameSync(this.file, aside);
      return {
        content: empty,
        problem: `${about} could not be read (${shortly(error)}): the file is now ${aside}`,
      };
    }
  }

  /** Replaces the content with the result of `change`. Leaves a file of a newer version unchanged. */
  write(change: (content: Content) => Content): void {
    if (!this.#writable) return;
    const content = change(this.#content());
    mkdirSync(path.dirname(this.file), { recursive: true, mode: 0o700 });
    // Replaces the file atomically: if two programs write at once, one of the two contents remains, never a mixture.
    const fresh = `${this.file}.${process.pid}`;
    writeFileSync(fresh, `${JSON.stringify({ version: this.#options.version, ...content }, null, 2)}\n`, {
      mode: 0o600,
    });
    renameSync(fresh, this.file);
  }

  #content(): Content {
    const { schema, empty, version, about } = this.#options;
    let text: string;
    try {
      text = readFileSync(this.file, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return empty;
      throw error;
    }
    const document = JSON.parse(text) as { version?: unknown };
    if (typeof document.version === 'number' && document.version > version) {
      this.#writable = false;
      throw new Error(`${about} was written by a newer version (${this.file}): it is neither used nor changed`);
    }
    if (document.version !== version) throw new Error(`version must be ${version}, got ${String(document.version)}`);
    return schema.parse(document);
  }
}

function shortly(error: unknown): string {
  if (error instanceof z.ZodError)
    return error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`)[0] ?? '';
  return errorText(error);
}
