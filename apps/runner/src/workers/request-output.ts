/** What the kernels of one request print, line by line: a line of another kind of its own ends it. */
export class RequestOutput {
  readonly #onLine: (line: string) => void;
  #end: { line: string; ended: PromiseWithResolvers<void> } | undefined;
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
    this.#end = { line: endLine, ended: Promise.withResolvers() };
  }

  hear(line: string): void {
    if (line === this.#end?.line) {
      this.#blank = false;
      this.#end.ended.resolve();
      return;
    }
    if (this.#blank) this.#onLine('');
    this.#blank = line === '';
    if (!this.#blank) this.#onLine(line);
  }
}
