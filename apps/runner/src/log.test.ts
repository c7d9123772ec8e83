import { Writable } from 'node:stream';
import { pino } from 'pino';
import { expect, onTestFinished, test, vi } from 'vitest';
import { RepeatedLines, UnreadLines } from './log.ts';

const KIB = 'x'.repeat(1023) + '\n';

test('unread lines wait up to 1 MiB, then lines are dropped and counted until all is read', () => {
  const reader = new PausedReader();
  const log = new UnreadLines(reader, (lines) => log.write(`lost ${lines}\n`));
  for (let line = 0; line < 1_024 + 3; line += 1) log.write(KIB);
  expect(reader.writableLength).toBe(1024 * 1024);
  reader.readLine();
  // There is room again, but lines are dropped until the number of lost lines has been written.
  log.write('dropped too\n');
  for (let line = 1; line < 1_024; line += 1) reader.readLine();
  reader.readLine();
  log.write('again\n');
  reader.readLine();
  expect(reader.lines).toEqual([...Array.from({ length: 1_024 }, () => KIB), 'lost 4\n', 'again\n']);
});

test('a repeated line is written at once, and its repetitions later as one line with their number', () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const written: Record<string, unknown>[] = [];
  const lines = new RepeatedLines({ write: (line) => void written.push(JSON.parse(line) as Record<string, unknown>) });
  const log = pino({ base: null, timestamp: pino.stdTimeFunctions.isoTime }, lines);
  for (let second = 0; second < 35; second += 1) {
    for (let time = 0; time < 7; time += 1) log.warn({ pilot: '7' }, 'a pilot was not let in');
    log.info({ second }, 'other');
    vi.advanceTimersByTime(1_000);
  }
  lines.flush();
  const same = written.filter(({ msg }) => msg === 'a pilot was not let in');
  expect(same.map(({ repeated = 0 }) => repeated)).toEqual([0, 7 * 30 - 1, 0, 7 * 5 - 1]);
  expect(same[1]).toEqual({ ...same[2], time: expect.any(String) as string, repeated: 7 * 30 - 1 });
  expect(written.filter(({ msg }) => msg === 'other')).toHaveLength(35);
});

/** A pipe without room: each line stays until it is read. */
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

test('a token in a line is redacted, wherever it is', () => {
  const token = `fct_${'x'.repeat(43)}`;
  const written: string[] = [];
  const log = pino({ base: null }, new RepeatedLines({ write: (line) => void written.push(line) }));
  log.warn({ label: token, err: new Error(`bad ${token}`) }, `a call with ${token} was not let in`);
  expect(written.join('')).not.toContain(token);
  expect(written.join('').match(/fct_\[redacted\]/g)!.length).toBeGreaterThanOrEqual(3);
});
