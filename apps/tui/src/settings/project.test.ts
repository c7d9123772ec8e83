import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { findProject } from './project.ts';

let root: string;
beforeEach(() => {
  root = realpathSync(mkdtempSync(path.join(tmpdir(), 'fc-project-')));
  mkdirSync(path.join(root, 'a/b'), { recursive: true });
});
afterEach(() => rmSync(root, { recursive: true }));

const write = (text: string, folder = '.'): void => writeFileSync(path.join(root, folder, 'flashcore.yaml'), text);

test('the nearest one holds, and its folders are beside it', () => {
  write('champions: best\n');
  expect(findProject(path.join(root, 'a/b'))).toEqual({
    file: path.join(root, 'flashcore.yaml'),
    champions: path.join(root, 'best'),
  });
  write('kernels: ./k\nplan: explore\nrunner: gpu\n', 'a');
  expect(findProject(path.join(root, 'a/b'))).toEqual({
    file: path.join(root, 'a/flashcore.yaml'),
    kernels: path.join(root, 'a/k'),
    plan: 'explore',
    runner: 'gpu',
  });
});

test.each(['', '# nothing yet\n\n# plan: merge\n'])('%j says nothing', (text) => {
  write(text, 'a');
  write('plan: merge\n');
  expect(findProject(path.join(root, 'a/b'))).toEqual({ file: path.join(root, 'a/flashcore.yaml') });
});

test.each([
  ['champions: ../elsewhere', 'champions: wanted a folder below flashcore.yaml'],
  ['kernels: /tmp/elsewhere', 'kernels: wanted a folder below flashcore.yaml'],
  ['kernels: a/../../elsewhere', 'kernels: wanted a folder below flashcore.yaml'],
  ['kernels: "a\\u001b[2J"', 'kernels: wanted a folder below flashcore.yaml'],
  ['plan: "merge; rm"', 'plan: wanted the name of a plan'],
  ['runer: gpu', 'unknown key "runer" (did you mean "runner"?)'],
  ['- plan', 'wanted a mapping'],
  ['plan: [', 'not valid YAML'],
])('%j is refused with file and key', (text, message) => {
  write(text);
  expect(() => findProject(root)).toThrow(path.join(root, 'flashcore.yaml'));
  expect(() => findProject(root)).toThrow(message);
});

test('a folder of that name is told, not passed over', () => {
  mkdirSync(path.join(root, 'flashcore.yaml'));
  expect(() => findProject(root)).toThrow('flashcore.yaml: cannot be read (EISDIR)');
});
