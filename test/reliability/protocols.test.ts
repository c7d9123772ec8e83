/**
 * Mutated frames of the three protocols whose other side is somebody else's program: pilots, coding agents and
 * proposers. Each frame is answered or refused, and the reader keeps serving.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { create, toBinary, type DescMessage, type DescMethod } from '@bufbuild/protobuf';
import { Metadata, status } from '@grpc/grpc-js';
import { NoProposal, readAnswer } from '@flashcore/fa-tui/protocol';
import { candidateOf, type CandidateSource } from '@flashcore/fa-tui/candidate-source';
import { startChildGateway, startChildRunner, temporaryFolder } from '@flashcore/runner/testing-daemon';
import { AttachRequestSchema, FleetService, RegisterSchema } from '@flashcore/shared/fleet';
import type { Random } from '@flashcore/shared/statistics';
import { until } from '@flashcore/shared/testing';
import { expect } from 'vitest';
import { Home, ROOT } from '../support/home.ts';
import { RawClient } from '../support/raw-call.ts';
import { campaign, inLanes, integer, pick } from './campaign.ts';
import { randomMessage } from './random-messages.ts';

/** Statuses that must not occur: they mean a fault of the reader or a hang. */
const FAULTS = [status.UNKNOWN, status.INTERNAL, status.DEADLINE_EXCEEDED, status.CANCELLED];
const LANES = 32;
/** Frames on one link of a pilot. The gateway ends the link at the first invalid one, so a link counts as one frame. */
const OF_A_LINK = 50;
/** Lines for an agent's server between two checks that it still serves. */
const OF_A_BATCH = 500;
/** A small kernel's manifest, because it is read for every answer that follows the protocol. */
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
const ROUNDS = { short: 2_000, ci: 20_000, soak: 1_000_000 };

campaign(
  'mutated frames to the service of pilots',
  { promise: 'protocols', rounds: ROUNDS },
  async ({ random, rounds, figure }) => {
    using folder = temporaryFolder();
    const [file, queue, pilots] = [join(folder.path, 'f.yaml'), join(folder.path, 'q'), `unix:${folder.path}/p`];
    const partition = '{ partition: gpu, device: NVIDIA L4, min: 1, max: 1, idle_seconds: 86400 }';
    writeFileSync(
      file,
      `listen: ${pilots}\nreach: ${pilots}\nbundle: /opt/flashcore\nbuilds: { at: pilots }\npartitions: [${partition}]\n`,
    );
    mkdirSync(queue);
    const address = ['--data', join(folder.path, 'data'), '--address', `unix:${folder.path}/s`];
    await using gateway = await startChildGateway(file, queue, ...address);
    using fleet = new RawClient(pilots);
    using runner = new RawClient(gateway.address);
    const codes = new Map<string, number>();
    const count = (code: status, details: string): void => {
      codes.set(status[code], (codes.get(status[code]) ?? 0) + 1);
      expect(FAULTS, details).not.toContain(code);
    };
    const link = async (frames: readonly Buffer[], session: string): Promise<status> => {
      const { code, details } = await fleet.callMethod(FleetService.method.attach, [
        registration(session, tokenIn(queue)),
        ...frames,
      ]);
      count(code, details);
      return code;
    };
    const { attach, ...unary } = FleetService.method;
    let session = randomBytes(32).toString('base64url');
    await until(() => readdirSync(queue).length > 0);
    expect(await link([], session)).toBe(status.OK);
    let sent = 0;
    while (sent < rounds) {
      const calls = Array.from({ length: 16 * LANES }, () => pick(random, Object.values(unary)));
      await inLanes(LANES, calls, async (method) => {
        const metadata = new Metadata();
        metadata.set('authorization', `Bearer ${session}`);
        const { code, details } = await fleet.callMethod(method, [mutatedMessage(random, method)], { metadata });
        count(code, details);
      });
      const frames = Array.from({ length: OF_A_LINK }, () => mutatedMessage(random, attach));
      sent += calls.length + 1;
      await link(frames, session);
      if ((await link([], session)) === status.OK) continue;
      // The gateway dropped the pilot. It submits another once the scheduler has ended this one.
      for (const name of readdirSync(queue)) rmSync(join(queue, name));
      await until(() => readdirSync(queue).length > 0);
      session = randomBytes(32).toString('base64url');
      expect(await link([], session)).toBe(status.OK);
    }
    expect([gateway.child.exitCode, gateway.child.signalCode], gateway.stderr).toEqual([null, null]);
    expect(await runner.health()).toBeLessThan(5_000);
    figure('mutated frames to FleetService', `${sent}: ${told(codes)}; the gateway serves on`);
    expect(await gateway.end('SIGTERM')).toBe(0);
  },
);

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
      // A fault in the program itself would be reported with this text.
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
    for (let sent = 0; sent < rounds; sent += OF_A_BATCH) {
      const lines = Array.from({ length: OF_A_BATCH }, () => mutatedLine(random, structuredContent.job));
      server.stdin.write(`${lines.join('\n')}\n`);
      await ask(`after ${sent}`, 'tools/list', {});
    }
    await ask('last', 'tools/call', { name: 'list_kernels', arguments: {} });
    server.stdin.end();
    expect(await exited).toEqual([0, null]);
    expect([daemon.child.exitCode, daemon.child.signalCode], daemon.stderr).toEqual([null, null]);
    const { results, errors, refusals } = kinds;
    const silent = rounds - results - errors - refusals;
    figure(
      'mutated lines to fa-tui mcp',
      `${rounds}: ${errors} errors of the protocol, ${refusals} refusals of a tool, ${results} answers, ${silent} that ask for none; server and runner serve on`,
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

const told = (codes: ReadonlyMap<string, number>): string =>
  [...codes]
    .toSorted(([, a], [, b]) => b - a)
    .map(([code, found]) => `${found} ${code}`)
    .join(', ');

/** The token of the submitted pilot; "" if there is none. */
function tokenIn(queue: string): string {
  const [name] = readdirSync(queue);
  return name === undefined ? '' : readFileSync(join(queue, name), 'utf8');
}

function registration(session: string, token: string): Buffer {
  const device = { name: 'NVIDIA L4', arch: 'sm_89' };
  const value = create(RegisterSchema, { token, session, buildId: 'test', node: 'n', device });
  return bytesOf(AttachRequestSchema, create(AttachRequestSchema, { message: { case: 'register', value } }));
}

const bytesOf = (desc: DescMessage, message: Parameters<typeof toBinary>[1]): Buffer =>
  Buffer.from(toBinary(desc, message));

/** A message with extreme values, often with flipped, missing or random bytes. */
function mutatedMessage(random: Random, { input }: DescMethod): Buffer {
  const way = random.uniform();
  if (way < 0.1) return randomBytes(integer(random, 0, 300));
  const bytes = bytesOf(input, randomMessage(random, input, ['jobs/none'], 2));
  if (way < 0.6)
    for (let left = bytes.length && integer(random, 1, 4); left > 0; left -= 1)
      bytes[integer(random, 0, bytes.length - 1)] = integer(random, 0, 255);
  return way > 0.9 ? bytes.subarray(0, integer(random, 0, bytes.length)) : bytes;
}

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

/** A call of each tool. The jobs are replaced by one that exists, half of the time. */
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

/** A line from an agent: half of the time with hostile arguments in an intact call, else damaged anywhere. */
function mutatedLine(random: Random, job: string): string {
  const id = integer(random, 1, 1e9);
  const request = (method: string, params: object) => ({ jsonrpc: '2.0', id, method, params });
  const way = random.uniform();
  if (way < 0.1) {
    const method = pick(random, [
      'tools/list',
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
  const args = 'job' in template && random.uniform() < 0.5 ? { ...template, job } : template;
  if (way < 0.55)
    return oneLine(JSON.stringify(request('tools/call', { name, arguments: withWildValue(random, args) })));
  return oneLine(mutatedText(random, request('tools/call', { name, arguments: args })));
}

const oneLine = (text: string): string => text.replaceAll('\n', ' ');

/** A document with a changed value or name, or its text with characters flipped, cut off or doubled. */
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
