import { expect, test } from 'vitest';
import { documentBytes, fitted } from './fitted.ts';

test('a document that fits stays unchanged, except that hidden characters in texts and names are removed', () => {
  const hidden = `say\u001b[31m ${[...'obey'].map((letter) => String.fromCodePoint(0xe0000 + letter.charCodeAt(0))).join('')}\u202enothing`;
  expect(fitted({ labels: { [hidden]: hidden }, list: [1, hidden], median_us: 1.5 }, 500)).toEqual({
    labels: { 'say nothing': 'say nothing' },
    list: [1, 'say nothing'],
    median_us: 1.5,
  });
});

test('a long list loses its last elements, and the answer says how many elements it had', () => {
  const ratios = Array.from({ length: 200 }, (_, index) => ({ shape: `1x1x${index}x64`, ratio: 1 }));
  const short = fitted({ job: 'jobs/a', ratios }, 1000);
  expect(documentBytes(short)).toBeLessThanOrEqual(1000);
  expect(short['job']).toBe('jobs/a');
  expect(short['left_out']).toEqual(['ratios had 200 elements']);
  const kept = short['ratios'] as unknown[];
  expect(kept.length).toBeGreaterThan(15);
  expect(ratios.slice(0, kept.length)).toEqual(kept);
});

test.each([
  ['one text', { notes: '"\n'.repeat(9000) }],
  ['a text inside the only element', { experiments: [{ job: 'jobs/a', labels: { why: 'x'.repeat(9000) } }] }],
  ['many names', { labels: Object.fromEntries(Array.from({ length: 900 }, (_, index) => [`name-${index}`, 'x'])) }],
  ['many long fields', { a: 'x'.repeat(3000), b: 'y'.repeat(3000), c: ['z'.repeat(3000)] }],
])('the longest field of a document with %s is shortened', (_, document) => {
  const short = fitted(document, 1000);
  expect(documentBytes(short)).toBeLessThanOrEqual(1000);
  expect(documentBytes(short)).toBeGreaterThan(500);
  expect(Object.keys(short)).toEqual([...Object.keys(document), 'left_out']);
});
