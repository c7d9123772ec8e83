/** `fa-tui evolve` on the emulator: its loop, proposers that fail, cheating kernels, and the proposers of examples/. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { spawn } from 'node:child_process';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { missing } from '@flashcore/shared/testing';
import { Home, ROOT } from '../support/home.ts';
import { layOutSmallKernel } from '../support/small-kernel.ts';

const QUICK = ['--shape', '1x1x64x64', '--seeds', '1', '--samples', '10', '--max-seconds', '0.5'];

interface Trial {
  trial: number;
  status: string;
  parents: number[];
  name: string;
  why: string;
  parameters: Record<string, number>;
  evaluation?: { correct: boolean; stage: string; experiment: string; text_feedback: string };
}
interface Summary {
  search: string;
  trials: number;
  accepted: number;
  valid: number;
  best: { trial: number };
  islands: { island: number; trials: number }[];
  archive: { cell: string; trial: number }[];
  tokens: { input: number; output: number } | null;
  lineage: Trial[];
}

let home: Home;
beforeAll(() => {
  home = new Home();
});
afterAll(() => home[Symbol.asyncDispose]());

/**
 * A proposer that answers trial N with entry N of `answers`; `body` is its code, which computes `answers` from the
 * request.
 */
function scripted(name: string, body: string): string {
  const file = join(home.path, `${name}.mjs`);
  writeFileSync(
    file,
    `import { readFileSync } from 'node:fs';\nconst request = JSON.parse(readFileSync(0, 'utf8'));\n${body}`,
  );
  return `node ${file}`;
}

function evolve(kernel: string, ...args: string[]): { exitCode: number | null; stderr: string; summary: Summary } {
  const done = home.faTui(['evolve', kernel, ...QUICK, '--json', ...args], { timeoutMs: 400_000 });
  if (done.stdout === '') throw new Error(`fa-tui evolve printed nothing (exit ${done.exitCode}): ${done.stderr}`);
  return { ...done, summary: JSON.parse(done.stdout) as Summary };
}

test(
  'with a deterministic proposer, trials are labeled experiments, no emulator time accepts one, and --show prints the search',
  { timeout: 180_000 },
  () => {
    const proposer = 'node examples/proposers/parameters.mjs';
    const folder = join(home.path, 'parameters');
    layOutSmallKernel(folder);
    const { exitCode, summary, stderr } = evolve(folder, '--proposer', proposer, '--trials', '2', '--seed', '7');
    expect([exitCode, summary.trials, summary.valid, summary.accepted]).toEqual([0, 2, 2, 0]);
    expect(stderr).toMatch(/emulator times are not GPU times/);
    const sets = summary.lineage.map(({ parameters }) => JSON.stringify(Object.entries(parameters).toSorted()));
    expect(new Set(sets).size).toBe(3);
    const listed = home.faTui(['history', '--label', `search=${summary.search}`, '--json']);
    const { experiments } = JSON.parse(listed.stdout) as {
      experiments: { job: { labels: Record<string, string>; name: string } }[];
    };
    expect(experiments.map(({ job: { labels } }) => [labels['trial'], labels['parents'], labels['name']])).toEqual(
      [2, 1, 0].map((trial) => [String(trial), trial === 0 ? '' : '0', summary.lineage[trial]!.name]),
    );
    expect(home.faTui(['evolve', '--show', summary.search, '--json']).stdout).toBe(
      JSON.stringify(summary, null, 2) + '\n',
    );
    const shown = home.faTui(['evolve', '--show', summary.search]).stdout;
    expect(shown).toMatch(
      /2 trials, 2 right \(100 %\), 0 accepted[^]*The emulator’s times judge nothing[^]*Lineage\n {2}0 root/,
    );
    // The search has already run all its trials, so resuming it runs no job.
    const resumed = home.faTui(['evolve', '--resume', summary.search, '--json']);
    expect(JSON.parse(resumed.stdout)).toEqual(summary);
  },
);

test('a proposer that fails costs one trial each time, and the failure is reported', { timeout: 180_000 }, () => {
  const proposer = scripted(
    'failing',
    `const source = request.base.files['missing_syncthreads.cu'];
const answers = {
  1: () => console.log('I think we should use tensor cores'),
  2: () => process.exit(3),
  3: () => new Promise((resolve) => setTimeout(resolve, 60_000)),
  4: () => console.log(JSON.stringify({ name: 'patch', thought: 't', patch: '--- a/x.cu\\n+++ b/x.cu\\n@@ -1,1 +1,1 @@\\n-a\\n+b\\n' })),
  5: () => console.log(JSON.stringify({ name: 'broken', thought: 't', files: { 'missing_syncthreads.cu': source + 'syntax error' } })),
  6: () => console.log(JSON.stringify({ name: 'told', thought: request.insights.feedback.slice(0, 1500), tokens: { input: 3, output: 4 },
    files: { 'missing_syncthreads.cu': source.replace('__syncthreads();', '') } })),
};
await answers[request.trial]();`,
  );
  const folder = join(home.path, 'repaired');
  layOutSmallKernel(folder);
  const { exitCode, summary } = evolve(
    folder,
    '--proposer',
    proposer,
    '--trials',
    '6',
    '--proposer-seconds',
    '3',
    '--config',
    'full',
  );
  expect(exitCode).toBe(0);
  expect(summary.lineage.map(({ status }) => status)).toEqual([
    'root',
    'no-proposal',
    'no-proposal',
    'no-proposal',
    'no-proposal',
    'not-built',
    'wrong',
  ]);
  const why = summary.lineage.map(({ why: text }) => text);
  expect(why[1]).toMatch(/not a JSON document/);
  expect(why[2]).toMatch(/ended with status 3/);
  expect(why[3]).toMatch(/did not answer within 3 s/);
  expect(why[4]).toMatch(/x\.cu, which is not there/);
  expect(why[6]).toMatch(/^RACE/);
  const told = home.faTui(['history', '--label', `search=${summary.search}`, '--label', 'trial=6', '--json']).stdout;
  expect(told).toMatch(/"thought": "Trial 5 \(broken\): not-built\./);
  expect(summary.tokens).toEqual({ input: 3, output: 4 });
});

test(
  'no code is measured twice, and the search ends after --patience trials without a gain',
  { timeout: 180_000 },
  () => {
    const proposer = scripted(
      'stubborn',
      `const file = 'missing_syncthreads.cu';
const text = request.trial === 2 ? request.base.files[file] : request.base.files[file] + '// again\\n';
console.log(JSON.stringify({ name: 'again', thought: 't', files: { [file]: text } }));`,
    );
    const folder = join(home.path, 'stubborn');
    layOutSmallKernel(folder);
    const { summary } = evolve(folder, '--proposer', proposer, '--trials', '9', '--patience', '3');
    expect(
      summary.lineage.map(({ status, why }) => [status, /^The code and parameters of trial \d/.exec(why)?.[0]]),
    ).toEqual([
      ['root', undefined],
      ['valid', undefined],
      ['no-proposal', 'The code and parameters of trial 0'],
      ['no-proposal', 'The code and parameters of trial 1'],
    ]);
    const { experiments } = JSON.parse(
      home.faTui(['history', '--label', `search=${summary.search}`, '--json']).stdout,
    ) as { experiments: object[] };
    expect(experiments).toHaveLength(2);
    expect(home.faTui(['evolve', '--resume', summary.search, '--json']).stdout).toContain('"trials": 3');
  },
);

test(
  'while a candidate is measured, the candidate of the next island is compiled and waits',
  { timeout: 400_000 },
  () => {
    const proposer = 'node examples/proposers/parameters.mjs';
    const folder = join(home.path, 'islands');
    rmSync(folder, { recursive: true, force: true }); // by an earlier try
    layOutSmallKernel(folder);
    // The source must be new to the build cache.
    const source = join(folder, 'missing_syncthreads.cu');
    writeFileSync(source, `${readFileSync(source, 'utf8')}// islands ${Date.now()}\n`);
    const args = ['--proposer', proposer, '--trials', '2', '--islands', '2', '--seed', '7', '--config', 'full'];
    const { summary, stderr } = evolve(folder, ...args);
    expect(stderr).toMatch(/^trial 2 on island 2 from 0: valid/m);
    expect(summary.islands.map(({ island, trials }) => [island, trials])).toEqual([
      [1, 1],
      [2, 1],
    ]);
    expect(summary.archive[0]!.cell).toMatch(
      missing('nvcc') ? /^registers not known$/ : /^up to \d+ registers, up to \d+ KiB of shared memory$/,
    );
    const { jobs } = JSON.parse(home.faTui(['jobs', '--label', `search=${summary.search}`, '--json']).stdout) as {
      jobs: { labels: Record<string, string>; createTime: string; startTime: string; endTime: string }[];
    };
    const [second, first] = jobs.map(({ createTime, startTime, endTime, labels }) => ({
      labels,
      times: [createTime, startTime, endTime].map((time) => Date.parse(time)) as [number, number, number],
    }));
    expect([first!.labels['island'], second!.labels['island']]).toEqual(['1', '2']);
    expect(second!.times[0]).toBeLessThan(first!.times[2]);
    expect(second!.times[1]).toBeGreaterThanOrEqual(first!.times[2]);
    expect(buildOf(summary.lineage[2]!.evaluation!.experiment).cacheHit).toBe(true);
    expect(home.faTui(['evolve', '--show', summary.search]).stdout).toMatch(/Islands\n {4}1 1 trials, 1 right/);
  },
);

/** The build in a job's result. */
function buildOf(job: string): { cacheHit?: boolean } {
  const { result } = JSON.parse(home.faTui(['watch', job, '--json']).stdout) as {
    result: { variants: { build: { cacheHit?: boolean } }[] };
  };
  return result.variants[0]!.build;
}

test('a proposer that cannot be started ends the search', { timeout: 180_000 }, () => {
  const folder = join(home.path, 'alone');
  layOutSmallKernel(folder);
  const { exitCode, stdout, stderr } = home.faTui(
    ['evolve', folder, ...QUICK, '--proposer', '/no-such-program-here --model x', '--trials', '9', '--json'],
    { timeoutMs: 170_000 },
  );
  expect([exitCode, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(/"\/no-such-program-here --model x": must be a program that the shell can start/);
});

const CHEATS = join(ROOT, 'kernels/cheating');
// One cheat that the compiler reports, and one that timing exposes. cheating-kernels.test.ts and drawn-shapes.test.ts
// test the other cheats, because the runner does not care who proposed a kernel.
const cheats = ['host_include', 'right_when_checked'];

test('cheating kernels from a proposer are caught, and none is accepted', { timeout: 600_000 }, () => {
  const proposer = scripted(
    'cheating',
    `import { readdirSync } from 'node:fs';
const id = ${JSON.stringify(cheats)}[request.trial - 1];
const folder = ${JSON.stringify(CHEATS)} + '/' + id;
const files = Object.fromEntries(readdirSync(folder).filter((name) => /kernel.yaml|\\.cuh?$|\\.h$/.test(name)).map((name) => [name, readFileSync(folder + '/' + name, 'utf8')]));
files['kernel.yaml'] = files['kernel.yaml'].replace(/^id: .*$/m, 'id: ' + request.task.kernel).replace(/^faulty:.*$/m, '');
console.log(JSON.stringify({ name: id, thought: 'cheat', files }));`,
  );
  const { summary } = evolve(
    'fa_v1_baseline',
    '--proposer',
    proposer,
    '--trials',
    String(cheats.length),
    '--seeds',
    '5',
    '--samples',
    '40',
  );
  expect(summary.lineage.map(({ name, status }) => [name, status])).toEqual([
    ['fa_v1_baseline', 'root'],
    ['host_include', 'not-built'],
    ['right_when_checked', 'wrong'],
  ]);
  expect([summary.accepted, summary.best.trial]).toEqual([0, 0]);
});

test(
  'chat.mjs asks an endpoint, extracts the object from the model’s text, and reports the tokens',
  { timeout: 180_000 },
  async () => {
    const asked: { url: string | undefined; authorization: string | undefined; body: string }[] = [];
    const recorded = readFileSync(join(ROOT, 'test/fixtures/chat/answer.json'), 'utf8');
    const server = createServer((request, response) => {
      void bodyOf(request).then((body) => {
        asked.push({ url: request.url, authorization: request.headers.authorization, body });
        response.writeHead(asked.length > 1 ? 429 : 200, { 'content-type': 'application/json' });
        response.end(asked.length > 1 ? '{"error": "slow down"}' : recorded);
      });
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address() as AddressInfo;
    const folder = join(home.path, 'chatted');
    layOutSmallKernel(folder);
    const args = ['evolve', folder, ...QUICK, '--json', '--trials', '2', '--config', 'insight'];
    const env = { ...home.env, CHAT_URL: `http://127.0.0.1:${port}/v1`, CHAT_MODEL: 'recorded', CHAT_KEY: 'secret' };
    const stdout = await new Promise<string>((resolve) => {
      const child = spawn(
        join(ROOT, 'node_modules/.bin/fa-tui'),
        [...args, '--proposer', 'node examples/proposers/chat.mjs'],
        { cwd: ROOT, env },
      );
      let text = '';
      child.stdout.setEncoding('utf8').on('data', (piece: string) => (text += piece));
      child.on('close', () => resolve(text));
    });
    server.close();
    const summary = JSON.parse(stdout) as Summary;
    expect(summary.lineage.map(({ status, name }) => [status, name])).toEqual([
      ['root', 'missing_syncthreads'],
      ['valid', 'wider copies'],
      ['no-proposal', ''],
    ]);
    expect(summary.lineage[2]!.why).toMatch(/answered 429: \{"error": "slow down"\}|status 1/);
    expect(summary.tokens).toEqual({ input: 1234, output: 56 });
    expect([asked[0]!.url, asked[0]!.authorization]).toEqual(['/v1/chat/completions', 'Bearer secret']);
    const { messages } = JSON.parse(asked[1]!.body) as { messages: { content: string }[] };
    expect(messages[1]!.content).toMatch(/# CUDA KERNEL OPTIMIZATION TASK[^]*ALREADY TRIED[^]*- 1 wider copies: valid/);
  },
);

async function bodyOf(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  return Buffer.concat(pieces).toString('utf8');
}

test('evolve exits with 2 on a usage error, and with 1 if the starting kernel is wrong', { timeout: 120_000 }, () => {
  const usage = (...args: string[]) => home.faTui(['evolve', ...args]);
  expect(usage('fa_v1_baseline')).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/--proposer COMMAND is needed/) as string,
  });
  expect(usage('--proposer', 'cat')).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/A kernel or a folder must be named/) as string,
  });
  expect(usage('--resume', 'never-was')).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/no search never-was/) as string,
  });
  expect(usage('fa_v1_baseline', '--proposer', 'cat', '--trials', '0').exitCode).toBe(2);
  const wrong = usage('missing_syncthreads', ...QUICK, '--proposer', 'cat', '--trials', '1');
  expect([wrong.exitCode, wrong.stderr]).toEqual([1, expect.stringMatching(/itself is not correct.*RACE/) as string]);
});
