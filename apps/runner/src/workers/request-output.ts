/**
 * What the kernels of one request print, line by line, on a stream that every request of a process writes to. A line
 * that nobody can guess ends each request: what came late from an earlier one, another client's perhaps, is told to
 * nobody.
 */
export class RequestOutput {
  readonly #onLine: (line: string) => void;
  #end: { line: string; ended: PromiseWithResolvers<void> } | undefined;
  /** Ends of earlier requests that are still to come. */
  readonly #former = new Set<string>();
  /** An empty line that may stand ahead of the end: it is told once something else follows. */
  #blank = false;

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  /** All is told of the request that began last. */
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
