import { spawnSync } from 'node:child_process';
import {
  existsSync,
  lutimesSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { getPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sha256Of } from '@flashcore/shared/contract';
import { missing } from '@flashcore/shared/testing';
import type { Box } from '../sandbox/box.ts';
import { findBox } from '../sandbox/find-box.ts';
import { ArtifactStore } from '../store/artifacts.ts';
import { CompileClaims } from './compile-claims.ts';
import { faultOfTwo, hostFault } from './compile-blame.ts';
import { CompileCache, keyOf } from './compile-cache.ts';
import type { CompileUnit, UsualTime } from './compile-unit.ts';
import { InstalledLibraries, SharedBuilds } from './shared-builds.ts';
import { LibraryFiles } from './library-files.ts';

const signal = new AbortController().signal;
let folder: string;
let artifacts: ArtifactStore;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'flashcore-cache-'));
  artifacts = new ArtifactStore(join(folder, 'artifacts'));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface UnitOverrides {
  text?: string;
  script?: string;
  identity?: string;
}

/** A unit whose "compiler" copies the source, prints a line, and counts how often it ran. */
function unit(overrides: UnitOverrides = {}): CompileUnit {
  const {
    text = 'source',
    script = 'cat kernel/a.cu > out; echo kernel/a.cu: copied; echo run >> "$RUNS"',
    identity = 'sh 1',
  } = overrides;
  return {
    compiler: { name: 'g++', path: '/bin/sh', version: '1', identity },
    target: 'test',
    files: [{ path: 'kernel/a.cu', text }],
    stages: [[{ arguments: ['-c', script.replace('"$RUNS"', join(folder, 'runs'))] }]],
    outputs: [{ path: 'out', fileName: 'out', kind: 'library' }],
    limitMs: 5_000,
  };
}

test('compile() returns the stored result for the same inputs, even to another runner on the same folder', async () => {
  const lines: string[] = [];
  const first = await new CompileCache(folder, artifacts).compile(unit(), {
    signal,
    onLine: (line) => lines.push(line),
  });
  const second = await new CompileCache(folder, artifacts).compile(unit(), { signal });
  expect([
    first.cacheHit,
    second.cacheHit,
    lines,
    second.lines,
    artifacts.get(second.outputs[0]!.sha256).toString(),
  ]).toEqual([false, true, ['a.cu: copied'], ['a.cu: copied'], 'source']);
});

test("a compiler runs in a temporary folder if the cache's path has a double quote, because nvcc would fail", async () => {
  const inQuotes = join(folder, 'my "data"');
  const pwd = unit({ script: 'pwd; pwd > out' });
  const { lines, outputs } = await new CompileCache(inQuotes, artifacts).compile(pwd, { signal });
  expect([lines, outputs.length]).toEqual([[expect.not.stringContaining('"')], 1]);
  expect([existsSync(lines[0]!), readdirSync(join(inQuotes, 'work'))]).toEqual([false, []]);
});

test('the cache key covers files, arguments and compiler', () => {
  const keys = [unit(), unit({ text: 'other' }), unit({ script: 'true' }), unit({ identity: 'sh 2' })].map(keyOf);
  expect(new Set(keys).size).toBe(4);
});

test('a failed compilation is not stored', async () => {
  const cache = new CompileCache(folder, artifacts);
  const failed = await cache.compile(unit({ script: 'echo no; exit 3' }), { signal });
  expect([failed.exitCode, failed.outputs, readdirSync(join(folder, 'entries'))]).toEqual([3, [], []]);
});

test.each([
  ['a link to a file of the host', 'ln -s "$SECRET" out'],
  ['a pipe', 'mkfifo out'],
  ['nothing', 'true'],
])('a compiler that leaves %s as its output is an error, and nothing is read or stored', async (_, script) => {
  const secret = join(folder, 'secret');
  writeFileSync(secret, 'a private key');
  const cache = new CompileCache(folder, artifacts);
  const compiled = cache.compile(unit({ script: script.replace('"$SECRET"', secret) }), { signal });
  await expect(compiled).rejects.toMatchObject({ reason: 'INTERNAL' });
  expect([artifacts.has(sha256Of('a private key')), readdirSync(join(folder, 'entries'))]).toEqual([false, []]);
});

test('a compiler that exceeds its time limit is killed, and nothing is stored', async () => {
  const slow = { ...unit({ script: 'sleep 20' }), limitMs: 200 };
  const { timedOut, exitCode } = await new CompileCache(folder, artifacts).compile(slow, { signal });
  expect([timedOut, exitCode, readdirSync(join(folder, 'entries')), readdirSync(join(folder, 'work'))]).toEqual([
    true,
    137,
    [],
    [],
  ]);
});

test('a damaged artifact or entry is compiled again', async () => {
  const cache = new CompileCache(folder, artifacts);
  const { outputs, key } = await cache.compile(unit(), { signal });
  writeFileSync(artifacts.path(outputs[0]!.sha256), 'sourcf');
  const afterFlip = await cache.compile(unit(), { signal });
  writeFileSync(join(folder, 'entries', `${key}.json`), '{"key":');
  const afterTruncation = await cache.compile(unit(), { signal });
  expect([afterFlip.cacheHit, afterTruncation.cacheHit, artifacts.get(outputs[0]!.sha256).toString()]).toEqual([
    false,
    false,
    'source',
  ]);
});

test('a runner copies an artifact that another runner compiled into a shared folder, unless the artifact is damaged', async () => {
  const runner = (name: string) => {
    const files = new ArtifactStore(join(folder, name, 'artifacts'));
    const shared = new SharedBuilds(join(folder, 'shared'));
    return {
      files,
      compile: () => new CompileCache(join(folder, name), files, { others: [shared] }).compile(unit(), { signal }),
    };
  };
  const [first, second, third] = [runner('first'), runner('second'), runner('third')];
  const compiled = await first.compile();
  const copied = await second.compile();
  const { sha256 } = compiled.outputs[0]!;
  writeFileSync(join(folder, 'shared', 'files', `${sha256}.so`), 'sourcf');
  const anew = await third.compile();
  expect([compiled, copied, anew].map(({ cacheHit }) => cacheHit)).toEqual([false, true, false]);
  expect([second, third].map(({ files }) => files.get(sha256).toString())).toEqual(['source', 'source']);
  expect((await second.compile()).cacheHit).toBe(true);
});

test("the installation's builds are copied and not changed, and a changed source or a damaged build is compiled again", async () => {
  const installed = join(folder, 'installed');
  const files = new LibraryFiles(join(installed, 'files'));
  const { outputs } = await new CompileCache(installed, files).compile(unit(), { signal });
  const runner = (name: string) =>
    new CompileCache(join(folder, name), new ArtifactStore(join(folder, name, 'artifacts')), {
      others: [new InstalledLibraries(installed)],
    });
  const before = readdirSync(installed, { recursive: true }).sort();
  expect((await runner('first').compile(unit(), { signal })).cacheHit).toBe(true);
  expect((await runner('second').compile(unit({ text: 'edited' }), { signal })).cacheHit).toBe(false);
  writeFileSync(files.path(outputs[0]!.sha256), 'sourcf');
  expect((await runner('third').compile(unit(), { signal })).cacheHit).toBe(false);
  expect(readdirSync(installed, { recursive: true }).sort()).toEqual(before);
  const nowhere = { others: [new InstalledLibraries(join(folder, 'nowhere'))] };
  expect((await new CompileCache(join(folder, 'fourth'), files, nowhere).compile(unit(), { signal })).cacheHit).toBe(
    false,
  );
});

test('a unit that two jobs want is compiled once', async () => {
  const cache = new CompileCache(folder, artifacts);
  const both = await Promise.all([cache.compile(unit(), { signal }), cache.compile(unit(), { signal })]);
  expect(both.map(({ cacheHit }) => cacheHit)).toEqual([false, true]);
});

test('if two runners with a shared folder want the same unit, one compiles and the other waits and copies', async () => {
  const runner = (name: string) =>
    new CompileCache(join(folder, name), new ArtifactStore(join(folder, name, 'artifacts')), {
      others: [new SharedBuilds(join(folder, 'shared'))],
      claims: new CompileClaims(join(folder, 'shared', 'claims')),
    });
  const both = await Promise.all(['first', 'second'].map((name) => runner(name).compile(unit(), { signal })));
  expect([both.map(({ cacheHit }) => cacheHit), readFileSync(join(folder, 'runs'), 'utf8')]).toEqual([
    [false, true],
    'run\n',
  ]);
  expect(readdirSync(join(folder, 'shared', 'claims'))).toEqual([]);
});

test('a claim is ignored if its process is gone or no longer renews it', async () => {
  const gone = spawnSync('true').pid;
  for (const [owner, claimedAt] of [
    [gone, new Date()],
    [process.pid, new Date(Date.now() - 3_600_000)],
  ] as const) {
    symlinkSync(String(owner), join(folder, 'key'));
    lutimesSync(join(folder, 'key'), claimedAt, claimedAt);
    using claim = await new CompileClaims(folder).take('key', AbortSignal.timeout(5_000));
    expect(claim.waited).toBe(true);
  }
});

test("a cancelled job stops waiting for another job's compilation, which continues", async () => {
  const cache = new CompileCache(folder, artifacts);
  const slow = unit({ script: 'sleep 2; cat kernel/a.cu > out' });
  const first = cache.compile(slow, { signal });
  const controller = new AbortController();
  const second = cache.compile(slow, { signal: controller.signal });
  const started = performance.now();
  controller.abort(new Error('cancelled'));
  await expect(second).rejects.toThrow('cancelled');
  expect(performance.now() - started).toBeLessThan(1_000);
  expect((await first).exitCode).toBe(0);
});

/** Writes its own priority and that of a child that ran from the start, once the file `go` exists. */
const TELLS_PRIORITY = `sh -c 'until [ -e ../../go ]; do sleep 0.02; done; nice' > of-child & echo run >> "$RUNS"; wait; { nice; cat of-child; } > out`;

/** Whether this process may raise a priority: it has CAP_SYS_NICE, the 23rd capability of capability.h. */
const MAY_RAISE =
  existsSync('/proc/self/status') &&
  ((BigInt(`0x${/^CapEff:\s*(\w+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))![1]!}`) >> 23n) & 1n) === 1n;

test.each([
  ['raised, with all its processes, where the runner may do so', MAY_RAISE ? 'run\n' : 'run\nrun\n', undefined],
  ['started again at normal priority if it may not be raised', 'run\nrun\n', () => false],
] as const)('a background compilation that another build waits for is %s', async (_, runs, raiseGroup) => {
  const cache = new CompileCache(folder, artifacts, {
    priorities: { graceMs: 100, ...(raiseGroup && { raiseGroup }) },
  });
  const slow = { ...unit({ script: TELLS_PRIORITY }), limitMs: 60_000 };
  const told: unknown[] = [];
  const began = (count: number) =>
    expect
      .poll(() => (existsSync(join(folder, 'runs')) ? readFileSync(join(folder, 'runs'), 'utf8') : ''), {
        timeout: 30_000,
      })
      .toHaveLength(4 * count);
  const early = cache.compile(slow, { signal, aside: true });
  await began(1);
  const own = cache.compile(slow, { signal, onWait: ({ aside, usual }) => told.push({ aside, usual }) });
  await began(runs.length / 4);
  // The priority is raised in the same turn.
  await expect.poll(() => told).toHaveLength(1);
  writeFileSync(join(folder, 'go'), '');
  const [first, second] = await Promise.all([early, own]);
  expect([first.cacheHit, second.cacheHit, artifacts.get(second.outputs[0]!.sha256).toString()]).toEqual([
    false,
    true,
    `${getPriority()}\n${getPriority()}\n`,
  ]);
  expect([readFileSync(join(folder, 'runs'), 'utf8'), told]).toEqual([runs, [{ aside: true, usual: undefined }]]);
});

test('a build hears how long the last compilation of the same name took', async () => {
  const cache = new CompileCache(folder, artifacts);
  const heard: UsualTime[] = [];
  for (const text of ['first', 'second'])
    await cache.compile(unit({ text, script: 'sleep 0.2; cat kernel/a.cu > out' }), {
      signal,
      onStart: (usual) => heard.push(usual),
    });
  expect(heard).toEqual([undefined, expect.closeTo(0.4, 0.4)]);
});

test("hostFault() distinguishes the host's faults from errors in the sources", () => {
  const plenty = { leastFreeBytes: 2 ** 40, boxBroke: false };
  const end = (lines: string[], more: object = {}) => ({
    ...{ exitCode: 1, timedOut: false, seconds: 2, lines, ...plenty },
    ...more,
  });
  const killed = 'g++: fatal error: Killed signal terminated program cc1plus';
  expect(
    [
      end(['/usr/bin/ld: final link failed: No space left on device']),
      end([killed]),
      end(["nvcc error   : 'cicc' died due to signal 9 (Kill signal)"]),
      end([], { exitCode: 137 }),
      end([killed], { seconds: 170 }),
      end([killed], { timedOut: true }),
      end(['k.cu:1:1: error: expected unqualified-id']),
      end([], { exitCode: 0 }),
      end(['k.cu:1:1: error: expected unqualified-id'], { leastFreeBytes: 4096 }),
      end(['bwrap: No permissions to create new namespace'], { boxBroke: true }),
      end(['ptxas fatal   : Memory allocation failure']),
      end(['k.cu:70:1: fatal error: error writing to /tmp/ccX.s: No space left on device']),
      end(['g++: error: error writing to k.s: Disk quota exceeded']),
      end(["sh: 1: can't create k.status: No space left on device"], { boxBroke: true, leastFreeBytes: 0 }),
      end(["g++: fatal error: cannot execute 'cc1plus': vfork: Resource temporarily unavailable"]),
      end(["ld: can't read /usr/lib/libc.so: Input/output error"]),
    ].map((one) => hostFault(one, 180_000)),
  ).toEqual([
    ...['no-space', 'killed', 'killed', 'killed', undefined, undefined, undefined, undefined],
    ...['no-space', 'box', 'unknown', 'no-space', 'no-space', 'no-space', 'trouble', 'trouble'],
  ]);
  // A source can imitate the host's messages, by #error or in the lines that a compiler quotes.
  for (const words of [
    'x: No space left on device',
    'fatal error: error writing to /tmp/ccX.s: No space left on device',
    'g++: fatal error: Killed signal terminated program cc1plus',
    'vfork: Resource temporarily unavailable',
  ])
    for (const lines of [
      [`k.cu:1:2: error: #error ${words}`, `    1 | #error ${words}`],
      [`k.cu(1): error: #error directive: ${words}`, `  #error ${words}`],
      [`k.cu:1:2: warning: #warning ${words}`, 'k.cu:2:1: error: expected unqualified-id'],
    ])
      expect([words, hostFault(end(lines), 180_000)]).toEqual([words, undefined]);
  expect(faultOfTwo(end(['as: x: Input/output error']), end(['as: x: Input/output error']), 180_000)).toBe('trouble');
  // If both runs end with the same message, the sources caused it. If the messages differ, the cause stays unknown.
  const link = (file: string) => end([`/usr/bin/ld: /tmp/${file}.o: undefined reference to f`]);
  expect(faultOfTwo(link('cc1'), link('cc2'), 180_000)).toBeUndefined();
  expect(faultOfTwo(end(['catastrophic']), link('cc2'), 180_000)).toBe('unknown');
});

const boxedTest = test.skipIf(missing('bubblewrap'));
boxedTest(
  "a sandbox that breaks once is tried again; one that stays broken is the host's fault, whatever it prints",
  async () => {
    const flag = join(folder, 'broken');
    // Imitates bubblewrap, which runs nothing if it may not create namespaces.
    const bwrap = join(folder, 'bwrap');
    writeFileSync(
      bwrap,
      `#!/bin/sh\nif [ -e ${flag} ]; then rm ${flag}; echo 'k.cu(1): error: bwrap'; exit 1; fi\nexec /usr/bin/bwrap "$@"\n`,
      { mode: 0o755 },
    );
    const real = await findBox('required');
    const box: Box = {
      ...real,
      wrap: (...given) => {
        const { program, args } = real.wrap(...given);
        return { program, args: args.map((arg) => (arg.endsWith('/bwrap') ? bwrap : arg)) };
      },
      for: () => Promise.resolve(box),
    };
    const cache = new CompileCache(folder, artifacts, { box: () => Promise.resolve(box) });
    writeFileSync(flag, '');
    const made = unit({ script: 'cat kernel/a.cu > out' });
    expect((await cache.compile(made, { signal })).exitCode).toBe(0);
    writeFileSync(bwrap, `#!/bin/sh\necho 'k.cu(1): error: bwrap'; exit 1\n`);
    await expect(
      cache.compile(unit({ text: 'other', script: 'cat kernel/a.cu > out' }), { signal }),
    ).rejects.toMatchObject({
      reason: 'INTERNAL',
      metadata: { cause: 'box broke' },
    });
  },
);
