/** What `fa-tui __dial` on the host says before it passes the connection on; what shells print goes before. */
import { plainLine } from '@flashcore/shared/text';
import * as z from 'zod';

const MARKER = Buffer.from('\0flashcore-dial\0');
const MAX_BYTES = 64 * 1024;

const shownLine = z.string().max(500).transform(plainLine);
const GREETING = z.object({
  /** Of a runner that was started for this connection, or found. */
  pid: z.int().optional(),
  started: z.boolean(),
  log: shownLine.optional(),
});
export type DialGreeting = z.output<typeof GREETING>;

export const greetingBytes = (greeting: DialGreeting): Buffer =>
  Buffer.concat([MARKER, Buffer.from(`${JSON.stringify(greeting)}\n`)]);

/** Reads pieces of a stream until the greeting is there; the rest is the connection's. */
export class GreetingReader {
  #bytes = Buffer.alloc(0);

  /** Undefined: not yet. Throws on what can't become one. */
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
