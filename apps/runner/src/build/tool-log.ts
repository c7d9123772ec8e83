import { isCaretLine, isDiagnosticLine } from './diagnostics.ts';

type Emit = (source: string, line: string) => void;

/**
 * Compiler output without the messages that become diagnostics and the source lines quoted in them, so that a log shows
 * each error once. Lines that explain a message ("operand types are …") stay.
 */
export class ToolLog {
  readonly #emit: Emit;
  /**
   * The lines after a message, by tool. They are held until it is known whether the last one is a source line above a
   * caret.
   */
  readonly #held = new Map<string, string[]>();
  /** Tools whose message has ended except for a possible empty line. */
  readonly #closing = new Set<string>();

  constructor(emit: Emit) {
    this.#emit = emit;
  }

  readonly add: Emit = (source, line) => {
    const held = this.#held.get(source);
    if (this.#closing.delete(source) && line === '') return;
    if (isDiagnosticLine(line)) {
      this.#release(source);
      this.#held.set(source, []);
    } else if (held === undefined) this.#emit(source, line);
    else if (isCaretLine(line)) {
      this.#release(source, held.length - 1);
      this.#closing.add(source);
    } else if (!/^\s/.test(line)) {
      this.#release(source);
      if (line !== '') this.#emit(source, line);
    } else held.push(line);
  };

  /** Emits the lines still held when the output has ended. */
  end(): void {
    for (const source of [...this.#held.keys()]) this.#release(source);
  }

  #release(source: string, count = Infinity): void {
    const held = this.#held.get(source) ?? [];
    this.#held.delete(source);
    for (const line of held.slice(0, Math.max(0, count))) this.#emit(source, line);
  }
}
