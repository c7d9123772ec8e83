/** Without a sandbox, the runner hides the output of a compiler while it checks the sources. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { getPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { findBox } from '../sandbox/find-box.ts';
import { CompilePriority } from './compile-priority.ts';
import { runStages, type StagesEnd } from './compile-stages.ts';

const root = mkdtempSync(join(tmpdir(), 'flashcore-stages-'));
afterAll(() => rmSync(root, { recursive: true }));

/**
 * A compiler that, run as the preprocessor, waits until it has also run as the compiler. If the two runs were not
 * concurrent, the test would never end.
 */
const COMPILER = `#!/bin/sh
case " $* " in
  *" -E "*)
    while [ ! -e compiled ]; do sleep 0.01; done
    echo "$PREPROCESSED" >preprocessed.ii ;;
  *)
    echo "line of the compiler, niceness $(nice)"
    : >compiled
    [ "$HANGS" = 0 ] || sleep 60 ;;
esac
`;

interface Compiling {
  preprocessed: string;
  hangs?: boolean;
  aside?: boolean;
}

async function compile(name: string, { preprocessed, hangs = false, aside = false }: Compiling) {
  const folder = join(root, name);
  mkdirSync(folder);
  const path = join(folder, 'compiler');
  writeFileSync(path, COMPILER.replace('"$PREPROCESSED"', `'${preprocessed}'`).replace('"$HANGS"', hangs ? '1' : '0'));
  chmodSync(path, 0o755);
  const told: string[] = [];
  using priority = new CompilePriority({ isLow: aside });
  const end: StagesEnd = await runStages(
    {
      compiler: { name: 'nvcc', path, version: '1', identity: '' },
      target: 'sm_90',
      files: [{ path: 'kernel/kernel.cu', text: '' }],
      stages: [[{ arguments: ['-cubin', '-o', 'kernel.cubin', 'kernel/kernel.cu'] }]],
      outputs: [],
      limitMs: 30_000,
    },
    {
      folder,
      box: await findBox('none'),
      signal: AbortSignal.timeout(30_000),
      priority,
      onLine: (line) => told.push(line),
    },
  );
  return { told, lines: end.lines, exitCode: end.exitCode };
}

test('a compiler runs while the sources are checked, and a background compilation has the lowest priority', async () => {
  const clean = 'int clean;';
  const said = (niceness: number): string => `line of the compiler, niceness ${niceness}`;
  expect(await compile('clean', { preprocessed: clean })).toEqual({
    told: [said(getPriority())],
    lines: [said(getPriority())],
    exitCode: 0,
  });
  expect((await compile('aside', { preprocessed: clean, aside: true })).told).toEqual([said(19)]);
});

test('if the sources read a file of the host, the compiler is killed and none of its output is shown', async () => {
  expect(await compile('refused', { preprocessed: 'asm(".incbin \\"x\\"");', hangs: true })).toEqual({
    told: [],
    lines: [expect.stringContaining('.incbin and .include are not allowed')],
    exitCode: 1,
  });
});
