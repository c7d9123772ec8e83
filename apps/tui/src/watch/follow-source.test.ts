import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
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
let watching: AbortController;
let done: Promise<void>;

const write = (name: string, text: string): void => writeFileSync(path.join(folder, name), text);

/** Versions run until they are superseded. */
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
  watching = new AbortController();
  const upload = async (from: string) =>
    create(KernelReferenceSchema, { source: { case: 'tree', value: (await readSourceTree(from)).tree } });
  done = followSource({
    folder,
    upload,
    run,
    onProblem: (error) =>
      story.push((error as Error).message.includes('kernel.yaml') ? 'manifest error' : String(error)),
    signal: watching.signal,
    debounceMs: 50,
  });
  await vi.waitFor(() => expect(story).toEqual(['run 1']));
});
afterEach(async () => {
  watching.abort();
  await done;
  rmSync(folder, { recursive: true });
});

test('several writes in a moment are one version, and it supersedes the one that runs', async () => {
  write('k.cu', 'xx');
  write('k.cu', 'xxx');
  await vi.waitFor(() => expect(story).toEqual(['run 1', 'end 1', 'run 3']), { timeout: 5_000 });
});

test('saving the same again, or what is no source, runs nothing', async () => {
  write('k.cu', 'x');
  write('notes.txt', 'a note');
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(story).toEqual(['run 1']);
});

test('a manifest error is shown, and watching goes on', async () => {
  write('kernel.yaml', 'id: k\n');
  await vi.waitFor(() => expect(story).toContain('manifest error'), { timeout: 5_000 });
  write('kernel.yaml', MANIFEST);
  write('k.cu', 'xxxx');
  await vi.waitFor(() => expect(story).toEqual(['run 1', 'manifest error', 'end 1', 'run 4']), { timeout: 5_000 });
});
