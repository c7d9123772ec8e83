/**
 * Unfair ways to become champion through the client's own programs: a search, an evaluation, an agent and a champions
 * file, and each of them once more after a restart of the runner. apps/runner/src/acceptance/unfair-attempts.test.ts
 * tests unfair requests to the runner.
 */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { ownersKernels } from '@flashcore/runner/testing-daemon';
import { edited } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Home, ROOT } from '../support/home.ts';

const KERNEL = 'fa_v1_baseline';
const EASY = ['--shape', '1x1x64x64', '--seeds', '1', '--samples', '10', '--max-seconds', '0.5'];

const home = new Home();
let daemon: ChildProcess;
let kernels: string;
let champion: string;
/** The job of a ranked run that had no champion to compare with. */
let stale: string;
/** The folder of a kernel that is wrong for heads of four blocks. The easy shape has no such heads. */
let wrong: string;
const attempts: { by: string; job: string }[] = [];

const startDaemon = async (): Promise<void> => {
  daemon = (await home.startDaemonAt('127.0.0.1:0', '--kernels', kernels)).process;
};
const jobOf = (args: string[]): string => home.runJson(args).response.job!.name;

/** A copy of the champion's kernel with a changed source. */
function copied(name: string, change: (source: string) => string): string {
  const folder = join(home.path, name);
  cpSync(join(ROOT, 'kernels', KERNEL), folder, { recursive: true });
  const file = join(folder, `${KERNEL}.cu`);
  writeFileSync(file, change(readFileSync(file, 'utf8')));
  return folder;
}

function expectRefused({ by, job }: { by: string; job: string }): void {
  for (const over of [[], ['--over', 'none'], ['--over', champion], ['--over', job]]) {
    const { exitCode, stderr, stdout } = home.faTui(['accept', job, ...over]);
    expect([exitCode === 0, stdout], `${by}: ${over.join(' ')} ${stderr}`).toEqual([false, '']);
  }
  const { champions } = JSON.parse(home.faTui(['champions', '--json']).stdout) as { champions: { job: string }[] };
  expect(champions.map((one) => one.job)).toEqual([champion]);
}

beforeAll(async () => {
  kernels = ownersKernels(home.path);
  await startDaemon();
  wrong = copied('wrong', (text) => edited(text, 'int diagonal) {', 'int diagonal) {\n  if (gridDim.y == 4) S /= 2;'));
  stale = jobOf(['run', copied('equal', (text) => `// equal\n${text}`)]);
  champion = jobOf(['run', KERNEL]);
  expect(home.faTui(['accept', champion, '--over', 'none']).exitCode).toBe(0);
}, 120_000);
afterAll(() => home[Symbol.asyncDispose]());

test('a ranked run from before there was a champion is not accepted', () => {
  attempts.push({ by: 'a stale run', job: stale });
  expectRefused(attempts.at(-1)!);
});

test('no trial of a search is accepted', { timeout: 180_000 }, () => {
  const proposer = join(home.path, 'proposer.mjs');
  writeFileSync(
    proposer,
    `import { readFileSync } from 'node:fs';
const { base } = JSON.parse(readFileSync(0, 'utf8'));
console.log(JSON.stringify({ name: 'same', thought: 'none', files: { '${KERNEL}.cu': '// better\\n' + base.files['${KERNEL}.cu'] } }));`,
  );
  const { stdout, stderr } = home.faTui(
    [
      'evolve',
      copied('searched', (text) => `// searched\n${text}`),
      ...EASY,
      '--proposer',
      `node ${proposer}`,
      '--trials',
      '1',
      '--json',
    ],
    { timeoutMs: 170_000 },
  );
  const { search } = JSON.parse(stdout) as { search: string };
  const { experiments } = JSON.parse(home.faTui(['history', '--label', `search=${search}`, '--json']).stdout) as {
    experiments: { job: { name: string } }[];
  };
  expect(experiments, stderr).toHaveLength(2);
  for (const { job } of experiments) {
    attempts.push({ by: 'a trial', job: job.name });
    expectRefused(attempts.at(-1)!);
  }
});

test('neither an evaluated candidate nor the winner of a tune is accepted', { timeout: 180_000 }, () => {
  const evaluated = home.faTui(['evaluate', join(wrong, `${KERNEL}.cu`), '--base', KERNEL, ...EASY, '--json']);
  const { experiment } = JSON.parse(evaluated.stdout) as { experiment: string };
  attempts.push({ by: 'an evaluation', job: experiment });
  expectRefused(attempts.at(-1)!);
  attempts.push({ by: 'a tune', job: jobOf(['tune', wrong, '--shape', '1x1x64x64', '--budget', '1']) });
  expectRefused(attempts.at(-1)!);
});

test('an agent cannot get a kernel accepted', { timeout: 180_000 }, async () => {
  const agent = new Client({ name: 'dishonest', version: '1' });
  await agent.connect(
    new StdioClientTransport({
      command: join(ROOT, 'node_modules/.bin/fa-tui'),
      args: ['mcp'],
      env: home.env,
      stderr: 'ignore',
    }),
  );
  const call = async (name: string, args: Record<string, unknown>) => {
    const { structuredContent, isError } = await agent.callTool({ name, arguments: args });
    return { document: (structuredContent ?? {}) as Record<string, unknown>, isError };
  };
  const { document: known } = await call('champions', {});
  expect(known['champions']).toMatchObject([
    {
      job: champion,
      plan: 'merge',
      seeds: expect.toSatisfy((seeds: number) => seeds >= 5) as number,
      over: 'none',
      gates_digest: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
    },
  ]);
  for (const easy of [{ seeds: 1 }, { shapes: ['1x1x64x64'] }, { cases: 'quick' }, { samples: 1 }]) {
    const { document } = await call('submit', { action: 'run', kernel: wrong, ...easy });
    const job = document['job'] as string;
    while ((await call('wait', { job, wait_seconds: 30 })).document['state'] !== 'ended');
    const { document: result } = await call('result', { job });
    expect(result, JSON.stringify(easy)).toMatchObject({ ranked: false, acceptable: { possible: false } });
    for (const over of ['none', champion, job])
      expect((await call('accept', { job, over })).isError, JSON.stringify({ easy, over })).toBe(true);
    attempts.push({ by: `an agent, ${JSON.stringify(easy)}`, job });
    expectRefused(attempts.at(-1)!);
  }
  await agent.close();
});

test(
  'none of the refused results is accepted after the runner was killed and restarted',
  { timeout: 180_000 },
  async () => {
    daemon.kill('SIGKILL');
    await once(daemon, 'exit');
    await startDaemon();
    expect(attempts.length).toBeGreaterThanOrEqual(9);
    for (const attempt of attempts) expectRefused(attempt);
  },
);
