/**
 * The cache verifies the bytes of a hit. Whatever happens to its files, a damaged build is compiled again and never
 * served.
 */
import { readFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ArtifactStore, CompileCache, type CompileUnit } from '@flashcore/runner/testing';
import { temporaryFolder } from '@flashcore/runner/testing-daemon';
import { expect } from 'vitest';
import { campaign, integer, pick, type Campaign } from './campaign.ts';

const signal = new AbortController().signal;

/** Ways to damage every file that the cache and the store have for the two units. */
const DAMAGES: Record<string, (path: string, run: Campaign, others: string[]) => void> = {
  'flip a bit': (path, { random }) => {
    const bytes = readFileSync(path);
    const bit = integer(random, 0, bytes.length * 8 - 1);
    bytes[bit >> 3]! ^= 1 << (bit & 7);
    writeFileSync(path, bytes);
  },
  truncate: (path, { random }) => truncateSync(path, integer(random, 0, readFileSync(path).length - 1)),
  append: (path) => writeFileSync(path, Buffer.concat([readFileSync(path), Buffer.from('\0more')])),
  'swap with another': (path, { random }, others) => {
    const other = pick(random, others);
    const [mine, theirs] = [readFileSync(path), readFileSync(other)];
    writeFileSync(path, theirs);
    writeFileSync(other, mine);
  },
  remove: (path) => rmSync(path),
  'JSON of another kind': (path, { random }) =>
    writeFileSync(path, pick(random, ['null', '[]', '{}', '1', '"x"', '{"outputs":null}'])),
};

campaign(
  'damaged entries and artifacts are made again',
  { promise: 'cache', rounds: { ci: 120, soak: 2_000 } },
  async (run) => {
    using folder = temporaryFolder();
    const artifacts = new ArtifactStore(join(folder.path, 'artifacts'));
    const compile = (name: string) => new CompileCache(folder.path, artifacts).compile(unit(name), { signal });
    const names = ['a', 'b', 'c'];
    for (const name of names) await compile(name);
    let misses = 0;
    for (let round = 0; round < run.rounds; round += 1) {
      const files = keptFiles(folder.path);
      const path = pick(run.random, files);
      const way = pick(run.random, Object.keys(DAMAGES));
      DAMAGES[way]!(
        path,
        run,
        files.filter((one) => one !== path),
      );
      for (const name of names) {
        const { cacheHit, exitCode, outputs } = await compile(name);
        expect([exitCode, artifacts.get(outputs[0]!.sha256).toString()], `${way}: ${path}`).toEqual([
          0,
          `source ${name}`,
        ]);
        if (!cacheHit) misses += 1;
      }
    }
    run.figure(
      'damaged cache files',
      `${run.rounds} of them (${Object.keys(DAMAGES).join(', ')}); no damaged byte served, ${misses} builds made again`,
    );
  },
);

/** A compile unit whose "compiler" copies the source. */
const unit = (name: string): CompileUnit => ({
  compiler: { name: 'g++', path: '/bin/sh', version: '1', identity: 'sh' },
  target: 'test',
  files: [{ path: 'kernel/a.cu', text: `source ${name}` }],
  stages: [[{ arguments: ['-c', 'cat kernel/a.cu >out'] }]],
  outputs: [{ path: 'out', fileName: 'out', kind: 'library' }],
  limitMs: 5_000,
});

const keptFiles = (folder: string): string[] =>
  ['entries', 'artifacts'].flatMap((part) =>
    readdirSync(join(folder, part), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.parentPath.endsWith('/quarantine'))
      .map((entry) => join(entry.parentPath, entry.name)),
  );
