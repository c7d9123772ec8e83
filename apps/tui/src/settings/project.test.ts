import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
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

test('the nearest flashcore.yaml applies, and its folders are relative to it', () => {
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

test.each(['', '# nothing yet\n\n# plan: merge\n'])('a flashcore.yaml that contains %j sets nothing', (text) => {
  write(text, 'a');
  write('plan: merge\n');
  expect(findProject(path.join(root, 'a/b'))).toEqual({ file: path.join(root, 'a/flashcore.yaml') });
});

test.each([
  ['champions: ../elsewhere', 'champions: must be a folder below flashcore.yaml'],
  ['kernels: /tmp/elsewhere', 'kernels: must be a folder below flashcore.yaml'],
  ['kernels: a/../../elsewhere', 'kernels: must be a folder below flashcore.yaml'],
  ['kernels: "a\\u001b[2J"', 'kernels: must be a folder below flashcore.yaml'],
  ['champions: .git', 'champions: must be a folder below flashcore.yaml, got ".git"'],
  ['champions: a/.hidden', 'champions: must be a folder below flashcore.yaml'],
  ['plan: "merge; rm"', 'plan: must be the name of a plan'],
  ['runer: gpu', 'unknown key "runer" (did you mean "runner"?)'],
  ['- plan', 'must be a mapping'],
  ['plan: [', 'not valid YAML'],
])('a flashcore.yaml that contains %j is refused with file and key', (text, message) => {
  write(text);
  expect(() => findProject(root)).toThrow(path.join(root, 'flashcore.yaml'));
  expect(() => findProject(root)).toThrow(message);
});

test('a folder that is a link out of the project is refused, and a link within the project is accepted', () => {
  mkdirSync(path.join(root, 'a/kept'));
  symlinkSync('kept', path.join(root, 'a/inside'));
  symlinkSync('../..', path.join(root, 'a/outside'));
  write('champions: inside\n', 'a');
  expect(findProject(path.join(root, 'a'))?.champions).toBe(path.join(root, 'a/inside'));
  for (const champions of ['outside', 'outside/new']) {
    write(`champions: ${champions}\n`, 'a');
    expect(() => findProject(path.join(root, 'a'))).toThrow('is a link out of its folder');
  }
});

test.each([
  ['blank lines', '\n'.repeat(900_000)],
  ['commented paragraphs', '# a\n\n'.repeat(200_000)],
  ['blanks', ' '.repeat(900_000)],
])('a megabyte of %s is read in seconds on the busiest machine', (_, text) => {
  write(text);
  const started = performance.now();
  expect(findProject(root)).toEqual({ file: path.join(root, 'flashcore.yaml') });
  expect(performance.now() - started).toBeLessThan(10_000);
});

test('a folder named flashcore.yaml is reported rather than skipped', () => {
  mkdirSync(path.join(root, 'flashcore.yaml'));
  expect(() => findProject(root)).toThrow('flashcore.yaml: cannot be read (EISDIR)');
});
