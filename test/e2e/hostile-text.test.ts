/**
 * No text from a runner can control the terminal. Hostile texts in every text field of every event and answer, made
 * from the contract's descriptors, go through the terminal program and the plain commands in a real pseudo-terminal. A
 * new field is covered as soon as the contract has it.
 */
import { spawn } from 'node:child_process';
import { type DescMessage } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { API_VERSION, JOB_RPCS, type RpcHandlers } from '@flashcore/shared/client';
import {
  GetHostResponseSchema,
  GetJobResponseSchema,
  JobEventSchema,
  JobState,
  KernelRunnerService,
  Outcome,
  type JobEvent,
} from '@flashcore/shared/contract';
import { JOB, hostileMessage, serve, type FakeRunner } from '@flashcore/shared/testing';
import type { Terminal } from '@flashcore/tools/terminal';
import { Home } from '../support/home.ts';
import { FA_TUI, openScreen } from '../support/screens.ts';

/** Parts of the hostile text that no program writes by itself: OSC 52, a DCS, C1, a direction override. */
const STEERING = /ZXZpbA|\x1b\]52|\x1bP0;1|\u009b|\u202e|\u200b|\u{e0069}/u;
const HARMLESS = 'safetext';

const PAYLOADS = JobEventSchema.oneofs.find(({ localName }) => localName === 'payload')!.fields;
/** One event of each kind, `finished` last, with a runner's numbering. */
const EVENTS: JobEvent[] = [
  ...PAYLOADS.filter(({ localName }) => localName !== 'finished'),
  ...PAYLOADS.filter(({ localName }) => localName === 'finished'),
].map(({ localName }, index) =>
  Object.assign(hostileMessage(JobEventSchema, { payload: localName }), { job: JOB, sequence: BigInt(index + 1) }),
);

const home = new Home();
let runner: FakeRunner;
beforeAll(async () => {
  runner = await serve(handlers());
});
afterAll(async () => {
  runner.stop();
  await home[Symbol.asyncDispose]();
});

/** Every RPC answers with hostile text in each text field of the contract. */
function handlers(): Partial<RpcHandlers> {
  const streamed: readonly string[] = [...JOB_RPCS, 'watchJob'];
  const entries = KernelRunnerService.methods.flatMap((method): [string, unknown][] => {
    if (streamed.includes(method.localName)) return [[method.localName, streamEvents]];
    if (method.methodKind !== 'unary') return [];
    const answer = answerOf(method.output);
    return [[method.localName, (_call: unknown, done: (error: null, value: unknown) => void) => done(null, answer)]];
  });
  return Object.fromEntries(entries);
}

/** Hostile everywhere except in values that a client must recognize: versions, names, states. */
function answerOf(schema: DescMessage): unknown {
  const answer = hostileMessage(schema) as unknown as Record<string, unknown>;
  if (schema === GetHostResponseSchema) Object.assign(answer['host'] as object, { apiVersion: API_VERSION });
  for (const job of [answer['job'], ...((answer['jobs'] as unknown[] | undefined) ?? [])])
    if (job) Object.assign(job, { name: JOB, state: JobState.ENDED, outcome: Outcome.FAILED });
  if ('nextPageToken' in answer) answer['nextPageToken'] = '';
  if (schema === GetJobResponseSchema) {
    const { payload } = EVENTS.at(-1)!;
    if (payload.case === 'finished') answer['result'] = payload.value.result;
  }
  return answer;
}

interface EventCall {
  request: { afterSequence?: bigint };
  write: (value: unknown) => void;
  end: () => void;
}

function streamEvents(call: EventCall): void {
  for (const event of EVENTS) if (event.sequence > (call.request.afterSequence ?? 0n)) call.write({ event });
  call.end();
}

describe('hostile text of a runner cannot control the terminal in the plain command', () => {
  test.each([
    [['host']],
    [['kernels']],
    [['jobs']],
    [['history']],
    [['leaderboard']],
    [['champions']],
    [['watch', JOB]],
    [['verify', 'fa_v1_baseline']],
  ])('%j', async (args) => {
    for (const output of [await piped(args), await inTerminal(args)]) {
      expect(output).not.toMatch(STEERING);
      expect(output).toContain(HARMLESS);
    }
  });
});

test('no view of the terminal program lets hostile text control the terminal', { timeout: 90_000 }, async () => {
  const terminal = openScreen(home, { args: ['--runner', runner.address], columns: 160, rows: 50 });
  try {
    await terminal.waitFor(new RegExp(HARMLESS));
    for (const view of '12345678') {
      terminal.type(view);
      await terminal.waitFor(new RegExp(`\\[${view} `));
      for (const key of ['\x1b[B', 'J', '+', '+']) {
        terminal.type(key);
        await drawn(terminal);
      }
    }
    expect(terminal.output).not.toMatch(STEERING);
  } finally {
    terminal.kill('SIGKILL');
  }
});

/** The output of a command that is not connected to a terminal. */
async function piped(args: string[]): Promise<string> {
  const child = spawn(FA_TUI, [...args, '--runner', runner.address], {
    env: home.env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => void (output += text));
  await new Promise((resolve) => child.once('close', resolve));
  return output;
}

async function inTerminal(args: string[]): Promise<string> {
  const terminal = openScreen(home, { args: [...args, '--runner', runner.address], env: { NO_COLOR: '' } });
  await terminal.exit;
  return terminal.output;
}

/** Resolves when the program has written nothing for a moment. */
async function drawn(terminal: Terminal): Promise<void> {
  for (let before = -1; before !== terminal.output.length;) {
    before = terminal.output.length;
    // eslint-disable-next-line flashcore/no-fixed-wait -- only time shows that nothing more is drawn
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
}
