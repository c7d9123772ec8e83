import { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { UnreadLines } from './log.ts';

const KIB = 'x'.repeat(1023) + '\n';

test('what nobody reads waits up to 1 MiB; then lines are dropped until all is read, and counted', () => {
  const reader = new PausedReader();
  const log = new UnreadLines(reader, (lines) => log.write(`lost ${lines}\n`));
  for (let line = 0; line < 1_024 + 3; line += 1) log.write(KIB);
  expect(reader.writableLength).toBe(1024 * 1024);
  reader.readLine();
  // There is room again, but it is told first what is missing.
  log.write('dropped too\n');
  for (let line = 1; line < 1_024; line += 1) reader.readLine();
  reader.readLine();
  log.write('again\n');
  reader.readLine();
  expect(reader.lines).toEqual([...Array.from({ length: 1_024 }, () => KIB), 'lost 4\n', 'again\n']);
});

/** A pipe without room: a line leaves it when it is read. */
class PausedReader extends Writable {
  readonly lines: string[] = [];
  #waiting: { line: string; taken: () => void } | undefined;

  override _write(chunk: Buffer, _: string, taken: () => void): void {
    this.#waiting = { line: chunk.toString(), taken };
  }

  readLine(): void {
    const { line, taken } = this.#waiting!;
    this.lines.push(line);
    taken();
  }
}
