import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { completeFolder } from './complete-path.ts';

test('Tab completes the common start of the matching folders and lists their names', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'fa-tui-complete-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const name of ['flashcore_v6', 'flashcore_v7', 'fa_v1', '.hidden']) mkdirSync(path.join(folder, name));
  writeFileSync(path.join(folder, 'file'), '');
  expect([
    completeFolder(`${folder}/fl`),
    completeFolder(`${folder}/flashcore_v6`),
    completeFolder(`${folder}/fi`),
    completeFolder(`${folder}/.h`),
    completeFolder(`${folder}/nosuch/x`),
  ]).toEqual([
    { text: `${folder}/flashcore_v`, names: ['flashcore_v6', 'flashcore_v7'] },
    { text: `${folder}/flashcore_v6/`, names: [] },
    { text: `${folder}/fi`, names: [] },
    { text: `${folder}/.hidden/`, names: [] },
    { text: `${folder}/nosuch/x`, names: [] },
  ]);
  expect(completeFolder(`${folder}/f`)).toEqual({
    text: `${folder}/f`,
    names: ['fa_v1', 'flashcore_v6', 'flashcore_v7'],
  });
});
