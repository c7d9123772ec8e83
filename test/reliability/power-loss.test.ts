/**
 * Records everything that the daemon does to its disk, and recreates disks as a power cut at any moment could have left
 * them. Everything that a client knew before the cut must exist when a daemon starts on such a disk.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { startChildRunner, startChildRunnerIn, temporaryFolder } from '@flashcore/runner/testing-daemon';
import { RunnerClient } from '@flashcore/shared/client';
import { FlashcoreError, sha256Of, type SourceFile } from '@flashcore/shared/contract';
import { afterAll, expect } from 'vitest';
import { campaign, integer, pick, seededUuid } from './campaign.ts';
import { FATES, imageOf, layOut, readRecord } from './disk-image.ts';
import { checkTold, flags, loadUntilKilled } from './told-jobs.ts';

const KERNELS = ['ok', 'flood_40', 'flood_900', 'sleep_30', 'error'];
const CUTS = 6;

const built = temporaryFolder();
afterAll(() => built[Symbol.dispose]());
let recorder: string | undefined;

/** Compiles disk-recorder.cpp once. */
function recorderLibrary(): string {
  if (recorder !== undefined) return recorder;
  const library = join(built.path, 'disk-recorder.so');
  const source = join(import.meta.dirname, 'disk-recorder.cpp');
  execFileSync('g++', ['-std=c++17', '-O1', '-shared', '-fPIC', '-o', library, source, '-ldl']);
  return (recorder = library);
}

campaign(
  'what a client was told outlives a power cut at any moment',
  { promise: 'power-cut', rounds: { ci: 3, soak: 30 } },
  async ({ random, rounds, figure }) => {
    const counts = { cuts: 0, told: 0, uploads: 0, operations: 0 };
    for (let round = 0; round < rounds; round += 1) {
      using folder = temporaryFolder();
      const log = join(folder.path, 'record');
      const root = join(folder.path, 'data');
      const daemon = await startChildRunnerIn(
        {
          ...process.env,
          LD_PRELOAD: recorderLibrary(),
          FLASHCORE_DISK_ROOT: root,
          FLASHCORE_DISK_LOG: log,
          UV_USE_IO_URING: '0',
        },
        ...flags(folder.path),
      );
      const wanted = Array.from({ length: integer(random, 3, 8) }, () => ({
        kernelId: pick(random, KERNELS),
        requestId: seededUuid(random),
      }));
      const uploaded = uploads(daemon.address, folder.path);
      const told = await loadUntilKilled(daemon, wanted, integer(random, 300, 1200));
      const kept = await uploaded;
      const operations = readRecord(log);
      counts.operations += operations.length;
      // The record is complete: replaying all of it gives exactly the disk's contents.
      const everything = imageOf(operations, { root, fate: 'all are kept', random });
      expect(withoutIndex(everything)).toEqual(withoutIndex(filesBelow(root)));
      for (let cut = 0; cut < CUTS; cut += 1) {
        const at = integer(random, 0, operations.length - 1);
        const fate = FATES[cut % FATES.length]!;
        using after = temporaryFolder();
        const before = operations.slice(0, at + 1);
        const momentNs = operations[at]!.at;
        layOut(imageOf(before, { root, fate, random }), join(after.path, 'data'));
        const toldByThen = told.map(({ seen, seenAt, ...each }) => {
          const count = seenAt.filter((seenNs) => seenNs < momentNs).length;
          return { ...each, seen: seen.slice(0, count), seenAt: seenAt.slice(0, count) };
        });
        await using again = await startChildRunner(...flags(after.path));
        await checkTold(again, toldByThen);
        using client = await RunnerClient.connect({ address: again.address });
        const files = kept.filter((each) => each.at < momentNs).flatMap((each) => each.files);
        const { missingSha256 } = await client.findMissingSources({ files });
        expect(missingSha256, `${fate}, cut after ${before.length} of ${operations.length} operations`).toEqual([]);
        counts.cuts += 1;
        counts.told += toldByThen.filter(({ seen }) => seen.length > 0).length;
        counts.uploads += files.length;
      }
    }
    figure(
      'power cuts at random operations of the disk',
      `${counts.cuts} of ${counts.operations} operations, with what no sync had made safe lost, kept by name only, or torn; ${counts.told} jobs and ${counts.uploads} uploaded files told of before the cut, all there, one end each`,
    );
  },
);

interface Upload {
  readonly files: SourceFile[];
  /** When the runner answered that the files are stored. */
  readonly at: bigint;
}

/** Uploads kernel folders, one after another, until the daemon is killed. */
async function uploads(address: string, folder: string): Promise<Upload[]> {
  const kept: Upload[] = [];
  const client = await RunnerClient.connect({ address });
  try {
    for (let number = 0; number < 200; number += 1) {
      const kernel = join(folder, `kernel${number}`);
      mkdirSync(kernel);
      writeFileSync(
        join(kernel, 'kernel.yaml'),
        'id: k\ntitle: t\nlesson: l\nsource: k.cu\nmin_arch: sm_80\nmath: { inputs: fp16, accumulate: fp32 }\nlaunches: [{ entry: e, grid: [1, 1, 1], block: [32, 1, 1], arguments: [Q] }]\n',
      );
      writeFileSync(join(kernel, 'k.cu'), `// number ${number}\n`);
      const { source } = await client.uploadFolder(kernel);
      if (source.case === 'tree') kept.push({ files: source.value.files, at: process.hrtime.bigint() });
    }
  } catch (error) {
    // The daemon was killed during the upload.
    if (!(error instanceof FlashcoreError && error.reason === 'RUNNER_UNREACHABLE')) throw error;
  } finally {
    client.close();
  }
  return kept;
}

const filesBelow = (root: string): Map<string, Buffer> =>
  new Map(
    readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [relative(root, path), readFileSync(path)]),
  );

/** Leaves out the index of the write-ahead log: it is shared memory, written without system calls. */
const withoutIndex = (files: ReadonlyMap<string, Buffer>): Record<string, string> =>
  Object.fromEntries(
    [...files]
      .filter(([path]) => !path.endsWith('-shm'))
      .map(([path, bytes]): [string, string] => [path, sha256Of(bytes)]),
  );
