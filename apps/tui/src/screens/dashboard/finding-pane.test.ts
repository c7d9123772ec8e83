import { create } from '@bufbuild/protobuf';
import { FindingKind, FindingSchema } from '@flashcore/shared/contract';
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
