import { create } from '@bufbuild/protobuf';
import { FaultThreadSchema, FindingInputSchema, FindingKind, FindingSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import { findingBody } from './finding-pane.ts';

const frame = (file: string, line: number) => ({ file, line, firstLine: line, lines: [`code of ${line};`] });
const finding = create(FindingSchema, {
  kind: FindingKind.RACE,
  message: 'writes at k.cu:39, reads at k.cu:84 (called at x.cuh:9)',
  remedy: 'Put a barrier between them',
  frame: frame('k.cu', 39),
  otherFrames: [frame('k.cu', 84), frame('x.cuh', 9)],
});
const rows = (height: number): string[] =>
  findingBody({ finding }, { width: 80, height }).map((row) => rowText(row).trimEnd());

test('a race shows the source of both accesses and of the calls, if there is room for whole frames', () => {
  const first = [
    'writes at k.cu:39, reads at k.cu:84 (called at x.cuh:9)',
    '39 ▸ code of 39;',
    '→ Put a barrier between them',
  ];
  expect(rows(20)).toEqual([...first, 'line 84', '84 ▸ code of 84;', 'x.cuh:9', '9 ▸ code of 9;']);
  expect(rows(6)).toEqual([...first, 'line 84', '84 ▸ code of 84;']);
  expect(rows(4)).toEqual(first);
});

test('if the message of a race is cut, the rows of its threads still name both lines', () => {
  const threads = [3, 7].map((x, index) =>
    create(FaultThreadSchema, {
      thread: [x, 0, 0],
      block: [0, 0, 0],
      place: index === 0 ? 'write at k.cu:39' : 'read at k.cu:84',
    }),
  );
  const long = create(FindingSchema, {
    ...finding,
    message: `thread (3,0,0) writes ${'a byte of it '.repeat(30)}`,
    threads,
  });
  const shown = findingBody({ finding: long }, { width: 60, height: 6 }).map((row) => rowText(row).trimEnd());
  expect(shown).toHaveLength(6);
  expect(shown[1]).toMatch(/…$/);
  expect(shown.slice(-3)).toEqual([
    'thread (3,0,0) of block (0,0,0) write at k.cu:39',
    'thread (7,0,0) of block (0,0,0) read at k.cu:84',
    '→ Put a barrier between them',
  ]);
});

test('the seeds that repeat a finding have one row, and all rows that are left', () => {
  const inputs = ['offset', 'max_first', 'one_key'].map((distribution) => ({ distribution, seed: 'd1701aed200500d0' }));
  const finding = create(FindingSchema, { message: 'wrong', inputs, remedy: 'Look there' });
  const rows = (height: number): string[] =>
    findingBody({ finding }, { width: 60, height }).map((row) => rowText(row).trimEnd());
  expect(rows(3)).toEqual(['wrong', expect.stringMatching(/^inputs offset, max_first, one_key: .*…$/), '→ Look there']);
  const whole = rows(8).join(' ');
  for (const { seed, distribution } of inputs) expect(whole).toContain(`--seed ${seed}@${distribution}`);
  expect(whole).not.toContain('…');
});

test('the panel of a race names the calls of both accesses and has the whole remedy, rather than its input', () => {
  const places = ['writes at k.cu:30', 'reads at x.cuh:24'];
  const race = create(FindingSchema, {
    ...finding,
    message: `thread (3,0,0) writes ${'a byte of it '.repeat(30)}at k.cu:30 (called at k.cu:92), read at x.cuh:24 (called at k.cu:9)`,
    remedy: 'Put a __syncthreads() between the two accesses; a __syncwarp() is enough only in a warp',
    inputs: [create(FindingInputSchema, { distribution: 'normal', seed: 'd1701aed200500d0' })],
    threads: places.map((place, x) => create(FaultThreadSchema, { thread: [x, 0, 0], block: [0, 0, 0], place })),
  });
  const shown = findingBody({ finding: race }, { width: 78, height: 6 }).map((row) => rowText(row).trimEnd());
  expect(shown.slice(1)).toEqual([
    '39 ▸ code of 39;',
    'thread (0,0,0) of block (0,0,0) writes at k.cu:30, called at line 92',
    'thread (1,0,0) of block (0,0,0) reads at x.cuh:24, called at k.cu:9',
    '→ Put a __syncthreads() between the two accesses; a __syncwarp() is enough',
    '  only in a warp',
  ]);
});
