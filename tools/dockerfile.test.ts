/**
 * tools/docker/Dockerfile: a linter finds no fault in it, and the files that it copies and runs exist. Needs no Docker.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { validate } from 'dockerfile-utils';
import { expect, test } from 'vitest';
import { edited } from '@flashcore/shared/testing';
import { ROOT } from './shipped-files.ts';

const text = readFileSync(join(ROOT, 'tools/docker/Dockerfile'), 'utf8');
const lines = text.replaceAll(/\\\n\s*/g, '').split('\n');
const of = (instruction: string): string[] =>
  lines.filter((line) => line.startsWith(`${instruction} `)).map((line) => line.slice(instruction.length + 1));

test('the linter finds no fault in the Dockerfile', () => {
  expect(validate(text)).toEqual([]);
  expect(validate(edited(text, 'WORKDIR /source', 'WORKDIR source'))).toHaveLength(1);
});

test('the image lacks the first stage’s compilers, and its processes do not run as root', () => {
  expect(of('FROM')).toHaveLength(2);
  expect(of('USER')).toEqual(['10001']);
  const afterUser = lines.slice(lines.indexOf('USER 10001'));
  expect(afterUser.filter((line) => line.startsWith('RUN '))).toEqual([]);
  expect(
    lines
      .filter((line) => line.includes('apt-get install'))
      .every((line) => line.includes('rm -rf /var/lib/apt/lists')),
  ).toBe(true);
});

test('the build context has everything that the package needs', () => {
  const ignored = readFileSync(join(ROOT, '.dockerignore'), 'utf8').trim().split('\n');
  const needed = ['kernels', 'problems', 'examples', 'proto', 'tools', 'test/fixtures', 'package-lock.json'];
  expect(needed.filter((path) => !existsSync(join(ROOT, path)) || ignored.includes(path))).toEqual([]);
});
