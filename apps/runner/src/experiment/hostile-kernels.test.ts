/**
 * Candidates whose host code attacks what judges them: on the emulator a module's constructors run when it is loaded.
 * Each ends its own job at most; a control job after it is as it was before.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { FindingKind, Outcome } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { inFull } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { JobOutcome } from '../jobs/job-context.ts';
import { until } from '../testing/test-runner.ts';
import { openTestPlanner, type TestPlanner } from './testing/run-job.ts';

const SHAPE = parseShape('1x1x64x64');
const MANIFEST = `
id: hostile
title: Host code that attacks
lesson: it must gain nothing
source: hostile.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
launches:
  - { entry: hostile, grid: ["B * H", 1, 1], block: [64, 1, 1], arguments: [Q, K, V, O, S, D] }
`;

/** A kernel that writes zeros, and what its host code does once the module is loaded. */
const source = (attack: string, atLaunch = ''): string => `
#include <cuda_fp16.h>
#ifdef FLASHCORE_EMULATOR
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
static void* thread_body(void*);
__attribute__((constructor)) static void attack() { ${attack.includes('thread_body(') ? 'pthread_t t; pthread_create(&t, nullptr, thread_body, nullptr);' : attack} }
${attack.includes('thread_body(') ? attack : 'static void* thread_body(void*) { return nullptr; }'}
#endif
extern "C" __global__ void hostile(const half* Q, const half* K, const half* V, half* O, int S, int D) {
#ifdef FLASHCORE_EMULATOR
  if (threadIdx.x == 0 && blockIdx.x == 0) { ${atLaunch} }
#endif
  for (int i = threadIdx.x; i < S * D; i += blockDim.x) O[size_t(blockIdx.x) * S * D + i] = __float2half(0.0f);
}
`;

const NODE_HANDLE_ACK = String.raw`{\"cmd\":\"NODE_HANDLE_ACK\"}\n`;
const write = (bytes: string): string =>
  `for (int fd = 3; fd < 32; ++fd) for (int i = 0; i < 50; ++i) if (write(fd, ${bytes}, sizeof(${bytes}) - 1) < 0) break;`;

const ATTACKS: Record<string, string> = {
  'garbage on every descriptor': write('"garbage garbage garbage garbage garbage garbage "'),
  'undefined, as a message': write(String.raw`"undefined\n"`),
  "Node's own message": write(`"${NODE_HANDLE_ACK}"`),
  'a length of 2 GiB': write(
    String.raw`"\xff\xff\xff\x7f\xff\xff\xff\x7f\xff\xff\xff\x7f\xff\xff\xff\x7f\xff\xff\xff\x7f"`,
  ),
  'a seed of 1e30': write(String.raw`"{\"type\":\"seed\",\"index\":1e30}\n"`),
  'a forged end': write(String.raw`"{\"type\":\"done\",\"value\":{\"seeds\":1,\"mismatches\":0}}\n"`),
  'a forged step': write(String.raw`"{\"type\":\"step\",\"what\":\"x\",\"limitMs\":1e9}\n"`),
  'replies of its own':
    'for (uint32_t n = 1; n < 200; ++n) { unsigned char f[40] = {}; uint32_t m = 0x31504346; memcpy(f, &m, 4); memcpy(f + 4, &n, 4); f[8] = 1; if (write(4, f, 40) < 0) break; }',
  'a text of four billion bytes':
    'for (uint32_t n = 1; n < 200; ++n) { unsigned char f[40]; memset(f, 0xff, 40); uint32_t m = 0x31504346; memcpy(f, &m, 4); memcpy(f + 4, &n, 4); if (write(4, f, 40) < 0) break; }',
  'closed descriptors': 'for (int fd = 0; fd < 64; ++fd) close(fd);',
  'a shorter memory': 'for (int fd = 3; fd < 32; ++fd) if (ftruncate(fd, 0) < 0) continue; _exit(0);',
  'exit status 0': '_exit(0);',
  'kill of its group and its parent': 'kill(0, SIGKILL); kill(getppid(), SIGKILL); kill(-1, SIGKILL);',
  'an abort': 'abort();',
};

let fixture: TestPlanner;
beforeAll(() => {
  fixture = openTestPlanner();
});
afterAll(() => fixture.close());

async function verify(attack: string): Promise<{ outcome: string; kinds: string[]; messages: string[] }> {
  const kernel = fixture.upload({ 'kernel.yaml': MANIFEST, 'hostile.cu': source(attack) });
  return found(await fixture.run('verify', { kernel, settings: { shapes: [SHAPE], seedCount: 1 } }));
}

function found({ outcome }: { outcome: JobOutcome }): { outcome: string; kinds: string[]; messages: string[] } {
  const findings = outcome.result.variants[0]?.findings ?? [];
  return {
    outcome: Outcome[outcome.outcome],
    kinds: findings.map(({ kind }) => FindingKind[kind]),
    messages: findings.map(({ message }) => message),
  };
}

/** What a good kernel gets, of which nothing may change. */
async function control(): Promise<unknown> {
  const { outcome } = await fixture.run('verify', {
    kernel: { source: { case: 'kernelId', value: 'fa_v1_baseline' } },
    settings: { shapes: [SHAPE], seeds: ['c0ffee'] },
  });
  const [found] = outcome.result.variants[0]!.verify!.cases;
  return [Outcome[outcome.outcome], found?.maxAbsError, found?.meanAbsError];
}

/** One kernel with all attacks: the length of the sequence chooses which one its first thread makes. */
const chosenAttack = (): string => {
  const cases = Object.values(ATTACKS).map((attack, index) => `case ${FIRST_LENGTH + index}: { ${attack} } break;`);
  return `switch (S) { ${cases.join('\n')} }`;
};
const FIRST_LENGTH = 64;

// A launch whose memory is gone is ended by its limit, eight seconds later.
const SLOW_WHILE_RUNNING = 'a shorter memory';
const whileRunning = Object.keys(ATTACKS)
  .map((name, index) => [name, FIRST_LENGTH + index] as const)
  .filter(([name]) => name !== SLOW_WHILE_RUNNING);

test.each(whileRunning)(
  '%s, while it runs: its own job fails, and nothing else',
  { timeout: 120_000 },
  async (_, length) => {
    const before = await control();
    const kernel = fixture.upload({ 'kernel.yaml': MANIFEST, 'hostile.cu': source('', chosenAttack()) });
    const shapes = [parseShape(`1x1x${length}x64`)];
    const { outcome, kinds } = found(await fixture.run('verify', { kernel, settings: { shapes, seedCount: 1 } }));
    expect(outcome).not.toBe('PASSED');
    expect(kinds.some((kind) => kind === 'CRASHED' || kind === 'WRONG_RESULT')).toBe(true);
    expect(await control()).toEqual(before);
  },
);

// Those that reach the most, before anything of the kernel was launched.
const AT_LOAD = [
  SLOW_WHILE_RUNNING,
  'garbage on every descriptor',
  'replies of its own',
  'kill of its group and its parent',
];
test.each(inFull(Object.entries(ATTACKS), ([name]) => AT_LOAD.includes(name)))(
  '%s, when it is loaded: its own job fails, and nothing else',
  { timeout: 120_000 },
  async (_, attack) => {
    const before = await control();
    const { outcome, kinds } = await verify(attack);
    expect(outcome).not.toBe('PASSED');
    expect(kinds.some((kind) => kind === 'CRASHED' || kind === 'WRONG_RESULT')).toBe(true);
    expect(await control()).toEqual(before);
  },
);

test('threads and children of a job end with it', { timeout: 120_000 }, async () => {
  const marker = `flashcore-left-${process.pid}`;
  await verify(
    `for (int i = 0; i < 100; ++i) if (fork() == 0) { setsid(); if (fork() == 0) { execl("/bin/sh", "${marker}", "-c", "sleep 300; exit", nullptr); _exit(1); } _exit(0); }`,
  );
  await until(() => commands(marker).length === 0);
  const before = await control();
  await verify('static void* thread_body(void*) { for (;;) usleep(1000); }');
  expect(await control()).toEqual(before);
});

test(
  'without a box: children end with the job, .incbin is seen when macros are expanded, and the job says that there is none',
  { timeout: 120_000 },
  async () => {
    const unboxed = openTestPlanner(undefined, { isolation: 'none' });
    try {
      const marker = `flashcore-unboxed-${process.pid}`;
      const attack = `for (int i = 0; i < 20; ++i) if (fork() == 0) { setsid(); execl("/bin/sh", "${marker}", "-c", "sleep 300; exit", nullptr); _exit(1); }`;
      const kernel = unboxed.upload({ 'kernel.yaml': MANIFEST, 'hostile.cu': source(attack) });
      const { events } = await unboxed.run('verify', { kernel, settings: { shapes: [SHAPE], seedCount: 1 } });
      await until(() => commands(marker).length === 0);
      const warnings = events.flatMap(({ case: kind, value }) => (kind === 'warning' ? [value.message] : []));
      expect(warnings.join('\n')).toMatch(/^No box: switched off by --isolation none/);
      const incbin = { source: { case: 'kernelId' as const, value: 'incbin' } };
      const { outcome } = await unboxed.run('build', { kernel: incbin });
      const [found] = outcome.result.variants[0]!.findings;
      expect([Outcome[outcome.outcome], found?.message]).toEqual([
        'COMPILE_FAILED',
        expect.stringContaining('.incbin and .include are not allowed'),
      ]);
    } finally {
      await unboxed.close();
    }
  },
);

/** Command lines of processes that have a word in them. */
function commands(word: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((id) => {
      try {
        const line = readFileSync(join('/proc', id, 'cmdline'), 'utf8');
        return line.includes(word) ? [line] : [];
      } catch {
        return []; // It ended meanwhile.
      }
    });
}

test('no host code is in a build for a GPU, and the executor sees no credential', { timeout: 120_000 }, async () => {
  process.env['FLASHCORE_SECRET_OF_THE_TEST'] = 'hunter2';
  try {
    const { messages, outcome } = await verify(
      'extern char** environ; for (char** e = environ; *e; ++e) fprintf(stderr, "%s\\n", *e); abort();',
    );
    expect(outcome).toBe('CRASHED');
    expect(messages.join('\n')).not.toMatch(/hunter2|HOME=/);
  } finally {
    delete process.env['FLASHCORE_SECRET_OF_THE_TEST'];
  }
});
