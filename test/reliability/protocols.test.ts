/**
 * Sends mutated frames as coding agents and proposers, which are other people's programs. flashcore answers or refuses
 * each frame and keeps serving. pilot-frames.test.ts tests the frames of pilots.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { NoProposal, readAnswer } from '@flashcore/fa-tui/protocol';
import { candidateOf, type CandidateSource } from '@flashcore/fa-tui/candidate-source';
import { residentMib, startChildRunner, temporaryFolder } from '@flashcore/runner/testing-daemon';
import type { Random } from '@flashcore/shared/statistics';
import { expect } from 'vitest';
import { Home, ROOT } from '../support/home.ts';
import { RawClient } from '../support/raw-call.ts';
import { besideData, campaign, integer, pick } from './campaign.ts';

/** How many lines an agent sends to its server between two checks that the server still answers. */
const OF_A_BATCH = 1_000;
/** Far more than a machine that is busy with other work needs, and less than a hang takes. */
const MOST_HEALTH_MS = 15_000;
/** Allowed growth of the resident memory of the agents' server and its runner, after the first tenth of the lines. */
const MOST_GROWTH_MIB = 300;
/** The manifest of a small kernel. fa-tui reads it for every answer of a proposer that follows the protocol. */
const MANIFEST = `id: choices
title: "Choices"
lesson: "two"
source: choices.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
parameters:
  P_0: { values: [0, 1], default: 0, about: "a choice" }
launches:
  - { entry: choices, grid: [1, 1, 1], block: [64, 1, 1], arguments: [Q, K, V, O, S, scale, causal] }
`;
const ROUNDS = { ci: 20_000, soak: 1_000_000 };

campaign(
  'mutated lines to the server of coding agents',
  { promise: 'protocols', rounds: ROUNDS },
  async ({ random, rounds, figure }) => {
    using folder = temporaryFolder();
    await using home = new Home();
    await using daemon = await startChildRunner('--data', `${folder.path}/data`, '--address', `unix:${folder.path}/s`);
    const server = spawn(join(ROOT, 'node_modules/.bin/fa-tui'), ['mcp', '--runner', daemon.address], {
      env: home.env,
      cwd: ROOT,
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    const exited = once(server, 'close');
    const kinds = { results: 0, errors: 0, refusals: 0 };
    const waiting = new Map<string, (result: unknown) => void>();
    createInterface({ input: server.stdout }).on('line', (line) => {
      const answer = JSON.parse(line) as { id?: unknown; error?: unknown; result?: { isError?: boolean } };
      // fa-tui would report a bug of its own with this text.
      expect(line).not.toContain('A fault of fa-tui itself');
      if (answer.error !== undefined) kinds.errors += 1;
      else if (answer.result?.isError) kinds.refusals += 1;
      else kinds.results += 1;
      waiting.get(String(answer.id))?.(answer.result);
    });
    const ask = async (id: string, method: string, params: object): Promise<unknown> => {
      const answered = new Promise<unknown>((resolve) => waiting.set(id, resolve));
      server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
      const ended = exited.then(() => Promise.reject(new Error(`the server ended at ${id}`)));
      const result = await Promise.race([answered, ended]);
      waiting.delete(id);
      return result;
    };
    await ask('first', 'initialize', {
      protocolVersion: '2025-06-18',
      capabilities: {},
      clientInfo: { name: 'fuzz', version: '1' },
    });
    server.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
    const { tools } = (await ask('tools', 'tools/list', {})) as { tools: { name: string }[] };
    expect(Object.keys(CALLS).toSorted()).toEqual(tools.map(({ name }) => name).toSorted());
    const submitted = { name: 'submit', arguments: { action: 'build', kernel: 'ok' } };
    const { structuredContent } = (await ask('job', 'tools/call', submitted)) as { structuredContent: { job: string } };
    using raw = new RawClient(daemon.address);
    const before = besideData([home.path, folder.path]);
    const [health, resident]: [number[], number[]] = [[], []];
    for (let sent = 0; sent < rounds; sent += OF_A_BATCH) {
      const lines = Array.from({ length: OF_A_BATCH }, () => mutatedLine(random, structuredContent.job));
      server.stdin.write(`${lines.join('\n')}\n`);
      await ask(`after ${sent}`, 'ping', {});
      health.push(await raw.health());
      resident.push(residentMib(server.pid!) + daemon.rssMiB());
    }
    expect(Math.max(...health)).toBeLessThan(MOST_HEALTH_MS);
    // The first tenth of the lines fills caches and heaps, so growth is measured after it.
    const grownMib = Math.max(...resident) - Math.max(...resident.slice(0, Math.ceil(resident.length / 10)));
    expect(grownMib).toBeLessThan(MOST_GROWTH_MIB);
    expect(besideData([home.path, folder.path])).toEqual(before);
    await ask('last', 'tools/call', { name: 'list_kernels', arguments: {} });
    server.stdin.end();
    expect(await exited).toEqual([0, null]);
    expect([daemon.child.exitCode, daemon.child.signalCode], daemon.stderr).toEqual([null, null]);
    const { results, errors, refusals } = kinds;
    const silent = rounds - results - errors - refusals;
    figure(
      'mutated lines to fa-tui mcp',
      `${rounds}: ${errors} errors of the protocol, ${refusals} refusals of a tool, ${results} answers, ${silent} that ask for none; health within ${Math.max(...health).toFixed(0)} ms, resident memory of server and runner grew by ${grownMib.toFixed(0)} MiB, nothing beside the data folder changed`,
    );
  },
);

campaign(
  'mutated answers of proposers to a search of candidates',
  { promise: 'protocols', rounds: ROUNDS },
  ({ random, rounds, figure }) => {
    const id = 'choices';
    const files = { 'kernel.yaml': MANIFEST, 'choices.cu': '// a\nextern "C" __global__ void choices() {}\n' };
    const base: CandidateSource = { files, parameters: {} };
    const answer = {
      name: 'a',
      thought: 'b',
      patch: '--- a/choices.cu\n+++ b/choices.cu\n@@ -1,1 +1,2 @@\n+// c\n // a\n',
      files: { 'extra.cuh': '// d\n' },
      parameters: { P_0: 1 },
      tokens: { input: 1, output: 2 },
      cost_usd: 0.1,
    };
    const text = JSON.stringify(answer);
    expect(Object.keys(candidateOf(base, readAnswer(text), id).files)).toEqual([...Object.keys(files), 'extra.cuh']);
    let taken = 0;
    for (let round = 0; round < rounds; round += 1) {
      const mutated = mutatedText(random, pick(random, [answer, { ...answer, patch: '' }, text]));
      try {
        const candidate = candidateOf(base, readAnswer(mutated), id);
        for (const name of Object.keys(candidate.files))
          expect(name, mutated).toMatch(/^(?!(?:.*\/)?\.\.(?:\/|$))\w[\w./-]*$/);
        taken += 1;
      } catch (error) {
        if (!(error instanceof NoProposal)) throw new Error(`No refusal of ${mutated}`, { cause: error });
      }
    }
    expect(taken).toBeLessThan(rounds);
    figure(
      'mutated answers of proposers',
      `${rounds}: ${rounds - taken} refused, ${taken} candidates within the folder`,
    );
    return Promise.resolve();
  },
);

const WILD: readonly unknown[] = [
  ...[null, true, 0, -1, 1.5, 1e308, 2 ** 53, '', 'x', '__proto__', 'toString', '../../etc/passwd', '/etc/passwd'],
  ...['a\0b', '\u001b[2J', '\u202e', 'jobs/none', 'é'.repeat(100), 'a'.repeat(10_000)],
  ...[
    [],
    [[]],
    {},
    { __proto__: null },
    { toString: 1 },
    { constructor: {} },
    JSON.parse('{"__proto__":{"a":1}}') as unknown,
  ],
];

/** A valid call of each tool. Now and then its job is replaced by one that exists. */
const CALLS: Readonly<Record<string, object>> = {
  list_kernels: { include_faulty: true, offset: 0 },
  read_kernel: { kernel: 'ok', file: 'kernel.yaml', offset: 0 },
  notes: { kernel: 'ok' },
  submit: {
    action: 'tune',
    kernel: 'none',
    parameters: { A: 1 },
    values: { A: [1, 2] },
    shapes: ['1x1x32x64'],
    labels: { a: 'b' },
    plan: 'merge',
    cases: 'quick',
    champion: 'none',
    seeds: 1,
    samples: 1,
  },
  wait: { job: 'jobs/none', wait_seconds: 0 },
  jobs: { all: true, limit: 2 },
  cancel: { job: 'jobs/none' },
  result: { job: 'jobs/none' },
  compare: { kernel: 'none', champion: 'none', shapes: [], wait_seconds: 0 },
  history: { kernel: 'ok', labels: {}, limit: 2 },
  champions: { kernel: 'ok' },
  leaderboard: { device: 'gpu0', shape: '1x1x32x64', cases: '', mode: 'hot', limit: 2 },
  accept: { job: 'jobs/none', over: 'none', note: 'why' },
  reject: { job: 'jobs/none', note: 'why' },
  undo: { job: 'jobs/none', note: 'why' },
};

/** A line from an agent. Often it is an intact call with hostile arguments, else it is damaged anywhere. */
function mutatedLine(random: Random, job: string): string {
  const id = integer(random, 1, 1e9);
  const request = (method: string, params: object) => ({ jsonrpc: '2.0', id, method, params });
  const way = random.uniform();
  if (way < 0.1) {
    const method = pick(random, [
      ...(random.uniform() < 0.1 ? ['tools/list'] : []),
      'resources/list',
      'ping',
      'resources/read',
      'prompts/list',
      'none/such',
    ]);
    const part = pick(random, ['log', 'result', 'cases', 'profile', 'compiler', '../log', '']);
    return oneLine(
      mutatedText(random, request(method, { uri: `flashcore://${pick(random, [job, 'jobs/none'])}/${part}` })),
    );
  }
  const [name, template] = pick(random, Object.entries(CALLS));
  const args = 'job' in template && random.uniform() < 0.2 ? { ...template, job } : template;
  if (way < 0.35)
    return oneLine(JSON.stringify(request('tools/call', { name, arguments: withWildValue(random, args) })));
  return oneLine(mutatedText(random, request('tools/call', { name, arguments: args })));
}

const oneLine = (text: string): string => text.replaceAll('\n', ' ');

/** A document with a changed value or name, or with characters of its text flipped, cut off or doubled. */
function mutatedText(random: Random, document: object | string): string {
  if (typeof document === 'object' && random.uniform() < 0.5) return JSON.stringify(withWildValue(random, document));
  const text = typeof document === 'string' ? document : JSON.stringify(document);
  const at = integer(random, 0, text.length - 1);
  const length = integer(random, 1, 8);
  switch (pick(random, ['flip', 'cut', 'double', 'insert', 'drop'])) {
    case 'flip':
      return text.slice(0, at) + String.fromCharCode(integer(random, 0, 0xffff)) + text.slice(at + 1);
    case 'cut':
      return text.slice(0, at);
    case 'double':
      return text.slice(0, at) + text.slice(Math.max(0, at - length));
    case 'insert':
      return text.slice(0, at) + pick(random, ['{', '}', '[', ']', '"', '\\', ',', ':', '1e999', '-']) + text.slice(at);
    default:
      return text.slice(0, at) + text.slice(at + length);
  }
}

function withWildValue(random: Random, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || random.uniform() < 0.15) return pick(random, WILD);
  const entries = Object.entries(value);
  if (entries.length === 0) return pick(random, WILD);
  const chosen = integer(random, 0, entries.length - 1);
  const way = random.uniform();
  const changed = entries.flatMap(([name, inner], index): [string, unknown][] => {
    if (index !== chosen) return [[name, inner]];
    if (way < 0.1) return [];
    if (way < 0.25) return [[pick(random, ['__proto__', 'toString', 'x', '../x', '']), inner]];
    return [[name, withWildValue(random, inner)]];
  });
  return Array.isArray(value) ? changed.map(([, inner]) => inner) : Object.fromEntries(changed);
}
