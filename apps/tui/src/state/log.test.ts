import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { LogBuffer } from './log-buffer.ts';
import { LogSearch } from './log-search.ts';

const buffer = (texts: readonly string[], capacity?: number): LogBuffer => {
  const log = new LogBuffer(capacity);
  for (const text of texts) log.append({ time: 0, source: 'nvcc', text, tone: 'plain' });
  return log;
};
const numbered = (count: number): string[] => Array.from({ length: count }, (_, index) => `line ${index}`);

test('a full buffer drops its oldest lines and keeps the numbers of the others', () => {
  const log = buffer(numbered(10), 4);
  expect([log.start, log.end, log.at(5), log.at(6)?.text, log.at(9)?.text, log.at(10)]).toEqual([
    6,
    10,
    undefined,
    'line 6',
    'line 9',
    undefined,
  ]);
});

test('lines keep their text through many thousands of appends, whatever their characters', () => {
  const lines = Array.from({ length: 5_000 }, (_, index) => ({
    time: 1e12 + index,
    source: index % 3 === 0 ? 'nvcc' : 'kernel',
    text: index % 7 === 0 ? '' : `line ${index} é`,
    tone: index % 2 === 0 ? ('bad' as const) : ('plain' as const),
  }));
  lines[3_000]!.text = '漢 🚀 ≤ é';
  const log = new LogBuffer(4_100);
  for (const line of lines) log.append(line);
  expect([log.start, log.at(899)]).toEqual([900, undefined]);
  expect(Array.from({ length: 4_100 }, (_, index) => log.at(900 + index))).toEqual(lines.slice(900));
});

test('a million log lines take about 40 MiB, and never more than 64 MiB', () => {
  const program = `const { LogBuffer } = await import(${JSON.stringify(new URL('./log-buffer.ts', import.meta.url).href)});
    (await import(${JSON.stringify(new URL('./log-buffer.ts', import.meta.url).href)})).keepYoungGeneration();
    const before = process.memoryUsage.rss();
    const log = new LogBuffer(1_000_000);
    for (let i = 0; i < 1_000_000; i++) log.append({ time: i, source: 'nvcc', text: \`\${i} ptxas info : Used 168 registers, used 1 barriers, 404 bytes cmem[0]\`, tone: 'plain' });
    console.log((process.memoryUsage.rss() - before) / 2 ** 20, log.at(0).text);`;
  const [mib, first] = execFileSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
  }).split(/ (.*)/);
  console.info(`a million lines of 70 characters: ${Number(mib).toFixed(0)} MiB`);
  expect(first).toMatch(/^0 ptxas/);
  // Allows for 10 MiB of memory that the garbage collector may not have freed yet.
  expect(Number(mib)).toBeLessThan(64);
});

test('the search finds new lines, ignores case unless the query has upper case, and wraps around', () => {
  const log = buffer(['an Error', 'fine', 'error: x']);
  const search = new LogSearch('error');
  search.advance(log);
  expect(search.matches).toEqual([0, 2]);
  log.append({ time: 0, source: '', text: 'ERROR again', tone: 'bad' });
  search.advance(log);
  expect([
    search.matches,
    search.neighbor(0, 1),
    search.neighbor(3, 1),
    search.neighbor(0, -1),
    search.neighbor(4, -1),
  ]).toEqual([[0, 2, 3], 2, 0, 3, 3]);
  const exact = new LogSearch('Error');
  exact.advance(log);
  expect(exact.matches).toEqual([0]);
});

test('a search over many lines yields when its time slice is over, and continues from there', () => {
  const log = buffer(numbered(3000));
  const search = new LogSearch('9');
  let clock = 0;
  expect(search.advance(log, () => (clock += 3))).toBe(false);
  const first = search.matches.length;
  while (!search.advance(log, () => (clock += 1)));
  expect(first).toBeLessThan(search.matches.length);
  expect(search.matches).toEqual(numbered(3000).flatMap((text, index) => (text.includes('9') ? [index] : [])));
});

test.each([
  ['spill|warn', ['0 spills', 'warning: unused', 'nothing'], [0, 1]],
  ['Used \\d+ registers', ['Used 61 registers', 'Used many registers'], [0]],
  // An invalid expression is matched as plain text. A valid one is matched both as an expression and as plain text.
  ['int[', ['int[4] a', 'float b'], [0]],
  ['a[4]', ['int a[4]', 'int a4'], [0, 1]],
  // An expression that could take exponential time is searched for only as plain text.
  ['(a+)+$', ['aaaa', 'x(a+)+$y'], [1]],
])('finds the matching lines for the search %s', (query, texts, expected) => {
  const search = new LogSearch(query);
  search.advance(buffer(texts));
  expect(search.matches).toEqual(expected);
});

test('a match gives its number, the total, and its range in the line', () => {
  const search = new LogSearch('e.r');
  search.advance(buffer(['err', 'ear', 'no', 'eor e1r']));
  expect([search.place(0), search.place(2), search.place(3), search.matches.length]).toEqual([1, 2, 3, 3]);
  expect(search.ranges('eor e1r')).toEqual([
    [0, 3],
    [4, 7],
  ]);
});
