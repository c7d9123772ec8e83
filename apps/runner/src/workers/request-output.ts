/**
 * Output of the kernels of one request, line by line, on a stream shared by all requests of a process. An unguessable
 * line ends each request, so late output of an earlier one, perhaps another client's, is dropped.
 */
export class RequestOutput {
  readonly #onLine: (line: string) => void;
  #end: { line: string; ended: PromiseWithResolvers<void> } | undefined;
  /** End lines of earlier requests that have not arrived yet. */
  readonly #former = new Set<string>();
  /** A blank line, perhaps just before the end line, is held until another line follows. */
  #blank = false;

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  /** Resolves when all output of the latest request was passed on. */
  get ended(): Promise<void> {
    return this.#end?.ended.promise ?? Promise.resolve();
  }

  begin(endLine: string): void {
    if (this.#end) this.#former.add(this.#end.line);
    this.#end = { line: endLine, ended: Promise.withResolvers() };
    this.#blank = false;
  }

  hear(line: string): void {
    if (this.#former.delete(line)) return;
    if (!this.#end || this.#former.size > 0) return;
    if (line === this.#end.line) {
      this.#end.ended.resolve();
      this.#end = undefined;
      return;
    }
    if (this.#blank) this.#onLine('');
    this.#blank = line === '';
    if (!this.#blank) this.#onLine(line);
  }
}
