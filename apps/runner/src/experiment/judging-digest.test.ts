import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { JudgingDigest, type JudgedWith } from './judging-digest.ts';

const WITH: JudgedWith = {
  cases: { digest: 'cases' },
  gates: { text: 'gates' },
  emulation: () => ({ engine: 'ptx', frontEnd: 'nvcc' }),
  heldOut: [parseShape('1x1x77x64')],
};

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'judging-'))));
afterEach(() => rmSync(folder, { recursive: true }));

test('the digest depends on each file, the engine and the held-out shapes, and survives a restart', () => {
  const digest = new JudgingDigest(folder);
  const unsaid = () => {
    throw new FlashcoreError('COMPILER_MISSING', {}, 'nvcc does not say what it is');
  };
  const all = [
    WITH,
    { ...WITH, cases: { digest: 'edited' } },
    { ...WITH, gates: { text: 'edited' } },
    { ...WITH, emulation: () => ({ engine: 'fibres' as const, frontEnd: undefined }) },
    { ...WITH, emulation: () => ({ engine: 'ptx' as const, frontEnd: 'clang' as const }) },
    { ...WITH, emulation: unsaid },
    { ...WITH, heldOut: [parseShape('1x1x78x64')] },
    { ...WITH, heldOut: [] },
  ].map((each) => digest.of(each));
  expect(new Set(all).size).toBe(all.length);
  expect(new JudgingDigest(folder).of(WITH)).toBe(all[0]);
});

test('each runner has its own digest, so that nobody can find the held-out shapes by trying them', () => {
  const other = mkdtempSync(join(tmpdir(), 'judging-'));
  expect(new JudgingDigest(other).of(WITH)).not.toBe(new JudgingDigest(folder).of(WITH));
  expect(statSync(join(folder, 'judging.key')).mode & 0o777).toBe(0o600);
  rmSync(other, { recursive: true });
});

test('if no key can be stored, the digest is valid only until the runner ends', () => {
  const nowhere = join(folder, 'none');
  const digest = new JudgingDigest(nowhere);
  expect(digest.of(WITH)).toBe(digest.of(WITH));
  expect(new JudgingDigest(nowhere).of(WITH)).not.toBe(digest.of(WITH));
});
