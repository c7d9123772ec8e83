/**
 * Tests candidates whose host code attacks the runner. On the emulator, a module's constructors run when it is loaded.
 * An attack may only end its own job: a control job afterwards has the same result as before.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { FindingKind, Outcome } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { inFull, until } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { JobOutcome } from '../jobs/job-context.ts';
import { ATTACKS, FIRST_LENGTH, HOSTILE_MANIFEST, chosenAttack, hostileSource } from '../testing/hostile-kernel.ts';
import { openTestPlanner, type TestPlanner } from './testing/run-job.ts';

const SHAPE = parseShape('1x1x64x64');
let fixture: TestPlanner;
/** The result of control() before any attack. */
let before: unknown;
beforeAll(async () => {
  // Only the fibre engine runs a candidate's host code.
  fixture = openTestPlanner(undefined, { emulatorEngine: 'fibres' });
  before = await control();
}, 180_000);
afterAll(() => fixture.close());

async function verify(attack: string): Promise<{ outcome: string; kinds: string[]; messages: string[] }> {
  const kernel = fixture.upload({ 'kernel.yaml': HOSTILE_MANIFEST, 'hostile.cu': hostileSource(attack) });
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

/** The result of a correct kernel, which no attack may change. */
async function control(): Promise<unknown> {
  const { outcome } = await fixture.run('verify', {
    kernel: { source: { case: 'kernelId', value: 'fa_v1_baseline' } },
    settings: { shapes: [SHAPE], seeds: ['c0ffee'] },
  });
  const [found] = outcome.result.variants[0]!.verify!.cases;
  return [Outcome[outcome.outcome], found?.maxAbsError, found?.meanAbsError];
}

const SHORTER_MEMORY = 'a shorter memory';
// The short run has one attack of each kind: broken channels, garbage, forged answers and kills.
const RUNNING = [SHORTER_MEMORY, 'garbage on every descriptor', 'a forged end', 'kill of its group and its parent'];
const whileRunning = inFull(
  Object.keys(ATTACKS).map((name, index) => [name, FIRST_LENGTH + index] as const),
  ([name]) => RUNNING.includes(name),
);

test.each(whileRunning)(
  'an attack while the kernel runs fails only its own job: %s',
  { timeout: 120_000 },
  async (name, length) => {
    const kernel = fixture.upload({ 'kernel.yaml': HOSTILE_MANIFEST, 'hostile.cu': hostileSource('', chosenAttack()) });
    const shapes = [parseShape(`1x1x${length}x64`)];
    const { outcome, kinds, messages } = found(
      await fixture.run('verify', { kernel, settings: { shapes, seedCount: 1 } }),
    );
    expect(outcome).not.toBe('PASSED');
    // The job must fail before its time limit, which comes eight seconds later.
    if (name === SHORTER_MEMORY) expect(messages.join()).toContain("the kernel's module was cut short while it ran");
    expect(kinds.some((kind) => kind === 'CRASHED' || kind === 'WRONG_RESULT')).toBe(true);
    expect(await control()).toEqual(before);
  },
);

// The short run has the attacks that get furthest before any launch.
const AT_LOAD = ['replies of its own', 'kill of its group and its parent'];
test.each(inFull(Object.entries(ATTACKS), ([name]) => AT_LOAD.includes(name)))(
  'an attack while the kernel is loaded fails only its own job: %s',
  { timeout: 120_000 },
  async (_, attack) => {
    const { outcome, kinds } = await verify(attack);
    expect(outcome).not.toBe('PASSED');
    expect(kinds.some((kind) => kind === 'CRASHED' || kind === 'WRONG_RESULT')).toBe(true);
    expect(await control()).toEqual(before);
  },
);

test('threads and child processes of a job end with it', { timeout: 120_000 }, async () => {
  const marker = `flashcore-left-${process.pid}`;
  await verify(
    `for (int i = 0; i < 100; ++i) if (fork() == 0) { setsid(); if (fork() == 0) { execl("/bin/sh", "${marker}", "-c", "sleep 300; exit", nullptr); _exit(1); } _exit(0); }`,
  );
  await until(() => commands(marker).length === 0);
  await verify('static void* thread_body(void*) { for (;;) usleep(1000); }');
  expect(await control()).toEqual(before);
});

test(
  'without a sandbox, children end with the job, .incbin is found after macro expansion, and the job has a warning',
  { timeout: 120_000 },
  async () => {
    const unboxed = openTestPlanner(undefined, { isolation: 'none', emulatorEngine: 'fibres' });
    try {
      const marker = `flashcore-unboxed-${process.pid}`;
      // Every second child also drops its environment, which marks processes of the job.
      const attack = `for (int i = 0; i < 20; ++i) if (fork() == 0) { setsid(); char* none[] = { nullptr }; if (i % 2) execle("/bin/sh", "${marker}", "-c", "sleep 300; exit", nullptr, none); execl("/bin/sh", "${marker}", "-c", "sleep 300; exit", nullptr); _exit(1); }`;
      const kernel = unboxed.upload({ 'kernel.yaml': HOSTILE_MANIFEST, 'hostile.cu': hostileSource(attack) });
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

/** Command lines of the processes that contain a word. */
function commands(word: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((id) => {
      try {
        const line = readFileSync(join('/proc', id, 'cmdline'), 'utf8');
        return line.includes(word) ? [line] : [];
      } catch {
        return []; // The process has ended in the meantime.
      }
    });
}

test(
  'the executor sees no credentials, and is the first process to be killed when memory runs out',
  { timeout: 120_000 },
  async () => {
    process.env['FLASHCORE_SECRET_OF_THE_TEST'] = 'hunter2';
    try {
      const { messages, outcome } = await verify(
        'char score[8] = {}; if (read(open("/proc/self/oom_score_adj", O_RDONLY), score, 7) > 0) fprintf(stderr, "score %s\\n", score); extern char** environ; for (char** e = environ; *e; ++e) fprintf(stderr, "%s\\n", *e); abort();',
      );
      expect(outcome).toBe('CRASHED');
      expect(messages.join('\n')).toMatch(/score 1000/);
      expect(messages.join('\n')).not.toMatch(/hunter2|HOME=/);
    } finally {
      delete process.env['FLASHCORE_SECRET_OF_THE_TEST'];
    }
  },
);
