import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, unlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { create } from '@bufbuild/protobuf';
import { KernelReferenceSchema, type KernelReference } from '@flashcore/shared/contract';
import { readSourceTree } from '@flashcore/shared/kernels';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { followSource } from './follow-source.ts';

const MANIFEST = `id: k
title: a kernel
lesson: none
source: k.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
launches:
  - { entry: k, grid: [1, 1, 1], block: [32, 1, 1], arguments: [Q, K, V, O] }
`;

let folder: string;
let story: string[];
let saves: number;
let watching: AbortController;
let done: Promise<void>;

const write = (name: string, text: string): void => writeFileSync(path.join(folder, name), text);

/** A version runs until it is superseded. */
function run(kernel: KernelReference, signal: AbortSignal): Promise<void> {
  const version =
    kernel.source.case === 'tree'
      ? kernel.source.value.files.find(({ path: name }) => name === 'k.cu')?.sizeBytes
      : undefined;
  story.push(`run ${version}`);
  return new Promise((resolve) =>
    signal.addEventListener('abort', () => {
      story.push(`end ${version}`);
      resolve();
    }),
  );
}

beforeEach(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'fa-watch-'));
  write('kernel.yaml', MANIFEST);
  write('k.cu', 'x');
  story = [];
  saves = 0;
  watching = new AbortController();
  const upload = async (from: string) =>
    create(KernelReferenceSchema, { source: { case: 'tree', value: (await readSourceTree(from)).tree } });
  done = followSource({
    folder,
    upload,
    run,
    onProblem: (error) =>
      story.push((error as Error).message.includes('kernel.yaml') ? 'manifest error' : String(error)),
    onSave: () => (saves += 1),
    signal: watching.signal,
    debounceMs: 50,
    lookEveryMs: 300,
  });
  await vi.waitFor(() => expect(story).toEqual(['run 1']));
});
afterEach(async () => {
  watching.abort();
  await done;
  for (const each of [folder, `${folder}.next`, `${folder}.old`]) rmSync(each, { recursive: true, force: true });
});

test('several writes in quick succession are one version, which supersedes the running one', async () => {
  write('k.cu', 'xx');
  write('k.cu', 'xxx');
  await vi.waitFor(() => expect(story).toEqual(['run 1', 'end 1', 'run 3']), { timeout: 5_000 });
});

test('a file that ends in the middle of a line is not run until the rest is written', async () => {
  for (const text of ['', 'x', 'xxx', 'xxxx\n']) {
    write('k.cu', text);
    // eslint-disable-next-line flashcore/no-fixed-wait -- two checks, and less than the wait for a cut-off file
    await new Promise((resolve) => setTimeout(resolve, 150));
  }
  await vi.waitFor(() => expect(story).toEqual(['run 1', 'end 1', 'run 5']), { timeout: 5_000 });
  write('k.cu', 'xx');
  await vi.waitFor(() => expect(story).toEqual(['run 1', 'end 1', 'run 5', 'end 5', 'run 2']), { timeout: 5_000 });
});

test('saving the same content, or a file that is not a source, starts no run', async () => {
  write('k.cu', 'x');
  write('notes.txt', 'a note');
  // eslint-disable-next-line flashcore/no-fixed-wait -- nothing should happen meanwhile
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(story).toEqual(['run 1']);
});

test('a manifest error is shown, and watching continues', async () => {
  write('kernel.yaml', 'id: k\n');
  await vi.waitFor(() => expect(story).toContain('manifest error'), { timeout: 5_000 });
  write('kernel.yaml', MANIFEST);
  write('k.cu', 'xxxx');
  await vi.waitFor(() => expect(story).toEqual(['run 1', 'manifest error', 'end 1', 'run 4']), { timeout: 5_000 });
});

const git = (...args: string[]): void =>
  void execFileSync('git', ['-C', folder, '-c', 'user.name=t', '-c', 'user.email=t@t', ...args], { stdio: 'ignore' });

/** A complete file of `size` bytes, whose last line ends with a newline. */
const textOf = (size: number): string => `${'x'.repeat(size - 1)}\n`;

/** Ways to save a text of `size` characters. */
const WAYS: Record<string, (size: number) => void> = {
  'writes in place': (size) => write('k.cu', textOf(size)),
  'renames a temporary file over the source': (size) => {
    write('.k.cu.tmp', textOf(size));
    renameSync(path.join(folder, '.k.cu.tmp'), path.join(folder, 'k.cu'));
  },
  'unlinks and creates': (size) => {
    unlinkSync(path.join(folder, 'k.cu'));
    write('k.cu', textOf(size));
  },
  'replaces the whole folder': (size) => {
    cpSync(folder, `${folder}.next`, { recursive: true });
    writeFileSync(path.join(`${folder}.next`, 'k.cu'), textOf(size));
    renameSync(folder, `${folder}.old`);
    renameSync(`${folder}.next`, folder);
    rmSync(`${folder}.old`, { recursive: true });
  },
  'checks out another commit': (size) => git('checkout', '--quiet', `size-${size}`),
  'saves in a subfolder': (size) => {
    mkdirSync(path.join(folder, 'include'), { recursive: true });
    write('include/k.cuh', textOf(size));
    write('k.cu', textOf(size));
  },
};
const SIZES = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

test.each(Object.keys(WAYS))(
  'a save that %s is noticed, ten times in a row',
  async (way) => {
    if (way.startsWith('checks')) {
      git('init', '--quiet');
      for (const size of SIZES) {
        write('k.cu', textOf(size));
        git('add', '-A');
        git('commit', '--quiet', '-m', String(size));
        git('tag', `size-${size}`);
      }
      await vi.waitFor(() => expect(story.at(-1)).toBe('run 11'), { timeout: 5_000 });
    }
    for (const size of SIZES) {
      WAYS[way]?.(size);
      await vi.waitFor(() => expect(story.at(-1)).toBe(`run ${size}`), { timeout: 5_000, interval: 20 });
    }
    expect(story.filter((line) => line.startsWith('run ') || line.startsWith('end ')).length).toBe(story.length);
    expect(saves).toBeGreaterThanOrEqual(SIZES.length);
  },
  30_000,
);

test('a missing folder is reported once, and watched again when it exists again', async () => {
  renameSync(folder, `${folder}.old`);
  await vi.waitFor(() => expect(story).toContain('manifest error'), { timeout: 5_000 });
  // eslint-disable-next-line flashcore/no-fixed-wait -- two checks, which should report nothing more
  await new Promise((resolve) => setTimeout(resolve, 700));
  renameSync(`${folder}.old`, folder);
  write('k.cu', 'back');
  await vi.waitFor(() => expect(story).toEqual(['run 1', 'manifest error', 'end 1', 'run 4']), { timeout: 5_000 });
});
