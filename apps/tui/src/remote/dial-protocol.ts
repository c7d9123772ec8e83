/** The greeting of `fa-tui __dial` on the host, sent before the connection's data. Output of shells may come first. */
import { plainLine } from '@flashcore/shared/text';
import * as z from 'zod';

const MARKER = Buffer.from('\0flashcore-dial\0');
const MAX_BYTES = 64 * 1024;

const shownLine = z.string().max(500).transform(plainLine);
const GREETING = z.object({
  /** Process id of the runner, whether it was started for this connection or found. */
  pid: z.int().optional(),
  started: z.boolean(),
  log: shownLine.optional(),
});
export type DialGreeting = z.output<typeof GREETING>;

export const greetingBytes = (greeting: DialGreeting): Buffer =>
  Buffer.concat([MARKER, Buffer.from(`${JSON.stringify(greeting)}\n`)]);

/** Reads pieces of a stream until the greeting is complete. The rest belongs to the connection. */
export class GreetingReader {
  #bytes = Buffer.alloc(0);

  /** Undefined until the greeting is complete. Throws if the data can't become a greeting. */
  read(piece: Buffer): { greeting: DialGreeting; rest: Buffer } | undefined {
    this.#bytes = Buffer.concat([this.#bytes, piece]);
    const at = this.#bytes.indexOf(MARKER);
    const end = at < 0 ? -1 : this.#bytes.indexOf('\n', at);
    if (end >= 0) {
      const text = this.#bytes.subarray(at + MARKER.length, end).toString('utf8');
      return { greeting: GREETING.parse(JSON.parse(text)), rest: this.#bytes.subarray(end + 1) };
    }
    if (this.#bytes.length > MAX_BYTES) throw new Error('the host says too much before the connection');
    return undefined;
  }
}
