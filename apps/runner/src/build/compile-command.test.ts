import { chmodSync, chownSync, mkdirSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { temporaryFolder } from '@flashcore/shared/testing';
import { parseOptions } from '../options.ts';
import { TEST_HOST } from '../testing/test-host.ts';
import { runnersLibraries } from './compile-command.ts';
import { openRecord, writeRecord, type CompileRecord } from './compile-record.ts';
import { LibraryFiles } from './library-files.ts';

const repositoryRoot = join(import.meta.dirname, '../../../..');

const recordsOf = (libraries: string): CompileRecord[] =>
  readdirSync(join(libraries, 'entries')).map((name) =>
    openRecord(readFileSync(join(libraries, 'entries', name), 'utf8'))!,
  );

test("an installation copies the libraries that this user's runner has compiled, and compiles none again", async () => {
  vi.spyOn(console, 'log').mockReturnValue();
  vi.spyOn(console, 'error').mockReturnValue();
  onTestFinished(() => void vi.restoreAllMocks());
  using data = temporaryFolder();
  using installed = temporaryFolder();
  const own = join(data.path, 'libraries');
  mkdirSync(join(own, 'entries'), { recursive: true, mode: 0o700 });
  const files = new LibraryFiles(join(own, 'files'));
  const made = new LibraryFiles(join(TEST_HOST.libraryCache!, 'files'));
  for (const record of recordsOf(TEST_HOST.libraryCache!)) {
    for (const { sha256 } of record.outputs) files.putFile(made.path(sha256));
    writeRecord(join(own, 'entries', `${record.key}.json`), { ...record, host: 'the runner' });
  }

  const deferred: (() => Promise<void>)[] = [];
  parseOptions(['compile', '--into', installed.path], {
    ...{ version: '1', repositoryRoot, environment: { FLASHCORE_HOME: data.path } },
    defer: (work) => deferred.push(work),
  });
  for (const work of deferred) await work();
  const copied = recordsOf(installed.path);
  expect(new Set(copied.map(({ host }) => host))).toEqual(new Set(['the runner']));
  expect(copied.flatMap(({ outputs }) => outputs.map(({ fileName }) => fileName))).toEqual(
    expect.arrayContaining(['libcuda_emu.so', 'attention_reference.so', 'executor']),
  );
});

test('an installation copies no libraries from a folder of another user, or to which others may write', () => {
  using data = temporaryFolder();
  const libraries = join(data.path, 'libraries');
  expect(runnersLibraries(libraries)).toEqual([]);
  mkdirSync(libraries, { mode: 0o700 });
  expect(runnersLibraries(libraries)).toHaveLength(1);
  for (const mode of [0o720, 0o702]) {
    chmodSync(libraries, mode);
    expect(runnersLibraries(libraries)).toEqual([]);
  }
  chmodSync(libraries, 0o700);
  // Only root can give a folder away.
  if (process.geteuid?.() !== 0) return;
  chownSync(libraries, 12_345, 12_345);
  expect(runnersLibraries(libraries)).toEqual([]);
});
