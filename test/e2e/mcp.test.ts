/** `fa-tui mcp`, tested with the SDK's own client over stdio, in both protocol eras. */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { formatShape, parseManifest } from '@flashcore/shared/kernels';
import { edited, inFull, missing } from '@flashcore/shared/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Home, ROOT } from '../support/home.ts';

const ERAS = ['legacy', 'auto'] as const;

interface Answer {
  text: string;
  isError: boolean;
  document: Record<string, unknown>;
  links: string[];
}

/** An agent: its connection, and the tools as functions. */
class Agent {
  readonly client: Client;
  readonly #transport: StdioClientTransport;

  constructor(home: Home, mode: (typeof ERAS)[number], flags: readonly string[] = []) {
    this.client = new Client({ name: 'scripted-agent', version: '1.0.0' }, { versionNegotiation: { mode } });
    this.#transport = new StdioClientTransport({
      command: join(ROOT, 'node_modules/.bin/fa-tui'),
      args: ['mcp', ...flags],
      env: home.env,
      cwd: ROOT,
      stderr: 'ignore',
    });
  }

  async connect(): Promise<this> {
    await this.client.connect(this.#transport);
    return this;
  }

  async call(name: string, args: Record<string, unknown>, onprogress?: (message: string) => void): Promise<Answer> {
    const result = await this.client.callTool(
      { name, arguments: args },
      onprogress ? { onprogress: ({ message }) => onprogress(message ?? '') } : {},
    );
    const content = result.content as { type: string; text?: string; uri?: string }[];
    const text = content.map((part) => part.text ?? '').join('');
    expect(Buffer.byteLength(text), name).toBeLessThanOrEqual(8 * 1024);
    return {
      text,
      isError: result.isError === true,
      document: (result.structuredContent ?? {}) as Record<string, unknown>,
      links: content.flatMap(({ uri }) => (uri === undefined ? [] : [uri])),
    };
  }

  async read(uri: string): Promise<string> {
    const { contents } = await this.client.readResource({ uri });
    return (contents as { text?: string }[]).map(({ text }) => text ?? '').join('');
  }

  /** Calls the tool until the job has ended. */
  async finish(job: unknown): Promise<Answer> {
    for (;;) {
      const { document, isError, text } = await this.call('wait', { job, wait_seconds: 30 });
      if (isError) throw new Error(text);
      if (document['state'] === 'ended') return this.call('result', { job });
    }
  }

  close(): Promise<void> {
    return this.client.close();
  }
}

let home: Home;
beforeAll(() => {
  home = new Home();
});
afterAll(() => home[Symbol.asyncDispose]());

test('--no-accept offers every tool except those that accept, reject or undo', async () => {
  const agent = await new Agent(home, ERAS[0], ['--no-accept']).connect();
  try {
    const { tools } = await agent.client.listTools();
    const names = tools.map(({ name }) => name);
    expect([names.length, names.filter((name) => ['accept', 'reject', 'undo'].includes(name))]).toEqual([12, []]);
    await expect(agent.client.callTool({ name: 'accept', arguments: { job: 'jobs/1', over: 'none' } })).rejects.toThrow(
      /accept/,
    );
  } finally {
    await agent.close();
  }
});

describe.each(ERAS)('in the protocol era %s, the MCP server', (era) => {
  let agent: Agent;
  beforeAll(async () => {
    agent = await new Agent(home, era).connect();
  });
  afterAll(() => agent.close());

  test('offers its tools in a fixed order, each with schemas and correct hints', async () => {
    const { tools } = await agent.client.listTools();
    expect(tools.map(({ name }) => name)).toEqual([
      'list_kernels',
      'read_kernel',
      'notes',
      'submit',
      'wait',
      'jobs',
      'cancel',
      'result',
      'compare',
      'history',
      'champions',
      'leaderboard',
      'accept',
      'reject',
      'undo',
    ]);
    for (const { name, outputSchema, inputSchema, description } of tools)
      expect([name, outputSchema?.type, inputSchema.type, description !== '']).toEqual([
        name,
        'object',
        'object',
        true,
      ]);
    const hints = Object.fromEntries(tools.map(({ name, annotations }) => [name, annotations]));
    expect(hints['accept']).toMatchObject({ readOnlyHint: false, destructiveHint: true });
    expect(tools.filter(({ annotations }) => annotations?.destructiveHint).map(({ name }) => name)).toEqual([
      'cancel',
      'accept',
      'reject',
      'undo',
    ]);
    expect(tools.filter(({ annotations }) => !annotations?.readOnlyHint).map(({ name }) => name)).toEqual([
      'submit',
      'cancel',
      'compare',
      'accept',
      'reject',
      'undo',
    ]);
  });

  test('reads kernels, their files and notes, page by page', async () => {
    const kernels: { kernel: string; expected_finding?: string }[] = [];
    for (let offset: unknown = 0; offset !== undefined;) {
      const { document } = await agent.call('list_kernels', { include_faulty: true, offset });
      kernels.push(...(document['kernels'] as typeof kernels));
      offset = document['next_offset'];
    }
    expect(kernels[0]!.kernel).toBe('fa_v1_baseline');
    expect(kernels.find(({ kernel }) => kernel === 'missing_syncthreads')!.expected_finding).toBe('RACE');
    const first = await agent.call('read_kernel', { kernel: 'fa_s512_v3_wmma' });
    const next = await agent.call('read_kernel', {
      kernel: 'fa_s512_v3_wmma',
      offset: first.document['next_offset'],
    });
    const source = readFileSync(join(ROOT, 'kernels/fa_s512_v3_wmma/fa_s512_v3_wmma.cu'), 'utf8');
    expect(source.startsWith(`${String(first.document['text'])}${String(next.document['text'])}`)).toBe(true);
    const header = await agent.call('read_kernel', { kernel: 'fa_v1_baseline', file: 'primitives/mma.cuh' });
    expect(header.document['text']).toMatch(/mma/);
    expect((await agent.call('notes', { kernel: 'fa_s512_v3_wmma' })).document['notes']).toMatch(/TILE_M/);
  });

  test('refuses wrong arguments and says what to do, and the server keeps running', async () => {
    const refusals = [
      await agent.call('submit', { action: 'run', kernel: 'fa_v1_baselin' }),
      await agent.call('submit', { action: 'fly', kernel: 'fa_v1_baseline' }),
      await agent.call('submit', { action: 'run', kernel: '/nowhere/at/all' }),
      await agent.call('submit', { action: 'run', kernel: 'fa_v1_baseline', shapes: ['2x8'] }),
      await agent.call('submit', { action: 'build', kernel: 'fa_v1_baseline', champion: 'fa_v2_wmma' }),
      await agent.call('submit', { action: 'build', kernel: 'flashcore_v8', parameters: { BLOCK_Q: 65 } }),
      await agent.call('wait', { job: 'jobs/none' }),
      await agent.call('wait', { job: 'jobs/none', wait_seconds: 1000 }),
      await agent.call('read_kernel', { kernel: 'fa_v1_baseline', file: '../../../etc/passwd' }),
      await agent.call('read_kernel', { kernel: 'fa_v1_baseline', file: 'constructor' }),
      await agent.call('accept', { job: 'jobs/none' }),
      await agent.call('accept', { job: 'jobs/none', over: 'none' }),
    ];
    expect(refusals.map(({ isError }) => isError)).toEqual(refusals.map(() => true));
    const texts = refusals.map(({ text }) => text);
    expect(texts[0]).toMatch(/did you mean "?fa_v1_baseline/);
    expect(texts[2]).toMatch(/\/nowhere\/at\/all/);
    expect(texts[3]).toMatch(/2x8/);
    expect(texts[4]).toMatch(/only bench, run, tune compare/);
    expect(texts[5]).toMatch(/BLOCK_Q.*64.*96/);
    expect(texts[6]).toMatch(/^job: jobs\/none: must be a job's name or its first digits$/);
    expect(texts[10]).toMatch(/over/);
    expect(texts[11]).toMatch(/jobs\/none/);
    for (const index of [8, 9]) expect(texts[index]).toMatch(/file: must be one of/);
    const misplaced = { action: 'build', kernel: 'fa_v2_wmma', values: { USE_WMMA: [1, 0] }, max_variants: 3 };
    expect((await agent.call('submit', misplaced)).text).toMatch(/values, max_variants: of tune alone/);
    const run = { action: 'run', kernel: 'fa_v1_baseline' };
    const unknown = await agent.call('submit', { ...run, case_set: 'quick' });
    expect([unknown.isError, unknown.text]).toEqual([true, expect.stringContaining('case_set')]);
    for (const [asked, told] of [
      [{ ...run, action: 'build', plan: 'merge' }, /plan: only run has gates; the action is build/],
      [{ ...run, action: 'bench', cases: 'quick' }, /cases: only verify and run take a case set; the action is bench/],
      [{ ...run, cases: 'quick', shapes: ['1x1x32x64'] }, /cases, shapes: give one of them/],
      [{ ...run, plan: 'nonsense' }, /nonsense/],
      [{ ...run, cases: 'nonsense' }, /nonsense/],
    ] as const)
      expect((await agent.call('submit', asked)).text).toMatch(told);
    expect((await agent.call('champions', { kernel: 'nonsense' })).text).toMatch(/nonsense/);
    const absent = { job: '0123456789' };
    for (const name of ['wait', 'result', 'cancel', 'reject', 'undo'])
      expect((await agent.call(name, absent)).text).toMatch(
        /^job: no job's name begins with 0123456789: the tools jobs and history list them$/,
      );
    expect((await agent.call('list_kernels', {})).isError).toBe(false);
  });

  test(
    'an agent repairs missing_syncthreads from the finding’s text alone, and it passes',
    { timeout: 180_000 },
    async () => {
      const folder = join(home.path, `mine-${era}`);
      cpSync(join(ROOT, 'kernels/faulty/missing_syncthreads'), folder, { recursive: true });
      const file = join(folder, 'missing_syncthreads.cu');
      const verify = async (): Promise<Answer> => {
        const asked = { action: 'verify', kernel: folder, shapes: ['1x1x64x64'], seeds: 1, labels: { agent: era } };
        const { document } = await agent.call('submit', asked);
        return agent.finish(document['job']);
      };
      let result = await verify();
      for (let change = 0; change < 4 && result.document['outcome'] !== 'PASSED'; ++change) {
        const [finding = ''] = result.document['findings'] as string[];
        writeFileSync(file, repaired(readFileSync(file, 'utf8'), finding));
        result = await verify();
      }
      expect(result.document).toMatchObject({ outcome: 'PASSED', correct: true, simulated: true, findings: [] });
      expect(Buffer.byteLength(result.text)).toBeLessThanOrEqual(8 * 1024);
      const texts = await Promise.all(result.links.map((uri) => agent.read(uri)));
      expect(result.links.map((uri) => uri.split('/').at(-1))).toEqual([
        'log',
        'compiler',
        'cases',
        'profile',
        'result',
      ]);
      expect(texts[2]).toMatch(/1x1x64x64 PASS/);
      expect(JSON.parse(texts[4]!)).toMatchObject({ job: { outcome: 'OUTCOME_PASSED', labels: { agent: era } } });
    },
  );

  test('waiting reports progress', { timeout: 60_000 }, async () => {
    const said: string[] = [];
    const { document } = await agent.call('submit', {
      action: 'verify',
      // Slow enough that the job does not end before the wait begins.
      kernel: 'fa_v1_baseline',
      shapes: ['1x8x256x64'],
    });
    await agent.call('wait', { job: document['job'] }, (message) => said.push(message));
    expect(said.join('\n')).toMatch(/build|verify/);
  });

  test('a job is listed while it runs, named by its first digits, and cancelled', { timeout: 60_000 }, async () => {
    const asked = { action: 'run', kernel: 'fa_v1_baseline', plan: 'merge' };
    const name = (await agent.call('submit', asked)).document['job'] as string;
    const listed = async (): Promise<string[]> =>
      ((await agent.call('jobs', {})).document['jobs'] as { job: string }[]).map(({ job }) => job);
    expect(await listed()).toContain(name);
    const digits = name.slice('jobs/'.length, 'jobs/'.length + 13);
    expect((await agent.call('cancel', { job: digits })).document['job']).toBe(name);
    const { document } = await agent.finish(digits);
    expect(document).toMatchObject({ job: name, outcome: 'CANCELLED' });
    expect(await listed()).not.toContain(name);
    expect((await agent.call('champions', {})).document['champions']).toEqual([]);
    const board = await agent.call('leaderboard', {});
    expect([board.isError, board.document['entries']]).toEqual([false, []]);
  });

  // The tools do the same in both eras, so the slowest tools are tested in only one era.
  if (era === 'auto') {
    test('tune searches the variants of a kernel, and its result has the table', { timeout: 180_000 }, async () => {
      const asked = { action: 'tune', kernel: 'fa_v2_wmma', shapes: ['1x1x64x64'], values: { USE_WMMA: [1, 0] } };
      const { document } = await agent.call('submit', asked);
      const result = await agent.finish(document['job']);
      expect(result.document['outcome']).toBe('PASSED');
      const table = result.document['table'] as string[];
      expect(table.join('\n')).toMatch(
        /2 variants\n +ranked by registers, then shared memory, .*emulator times are\s+not GPU times/,
      );
      expect(table.join('\n')).toMatch(/USE_WMMA=1[^]*USE_WMMA=0|USE_WMMA=0[^]*USE_WMMA=1/);
      expect(Buffer.byteLength(result.text)).toBeLessThanOrEqual(8 * 1024);
    });

    test('comparing on the emulator judges nothing and says so', { timeout: 180_000 }, async () => {
      const compared = await agent.call('compare', {
        kernel: 'fa_v2_wmma',
        champion: 'fa_v1_baseline',
        shapes: ['1x1x64x64'],
        wait_seconds: 0,
      });
      const { document: result } = await agent.finish(compared.document['job']);
      expect(result['feedback']).toMatch(/emulator times are not GPU times/);
      // The run cannot decide anything, because the agent chose its shapes and champion; the answer says so.
      expect(result).toMatchObject({
        ranked: false,
        not_ranked: expect.arrayContaining([
          "cases other than the plan's",
          'champion named by the request',
        ]) as string[],
        acceptable: { possible: false },
      });
      const accepted = await agent.call('accept', { job: compared.document['job'], over: 'none' });
      expect(accepted).toMatchObject({ isError: true, text: expect.stringContaining('not ranked: ') as string });
      const { document: history } = await agent.call('history', { kernel: 'fa_v2_wmma', limit: 1 });
      expect((history['experiments'] as object[])[0]).toMatchObject({
        simulated: true,
        ranked: false,
        job: compared.document['job'],
      });
      expect(JSON.stringify(history)).not.toContain('median_us');
    });
  }
});

/** Faulty kernels, each with the tools' answer and the edit that repairs it. missing_syncthreads is repaired above. */
const REPAIRS: readonly (readonly [id: string, says: RegExp, before: string, after: string])[] = [
  ['syntax_error', /syntax_error\.cu:6:7: expected a ";"/, 'RowState state ', 'RowState state; '],
  [
    'missing_entry',
    /launches missing_entry, but .* has only missing_entry_old/,
    'ROW_KERNEL(missing_entry_old)',
    'ROW_KERNEL(missing_entry)',
  ],
  ['out_of_bounds', /past the end of O, at out_of_bounds\.cu:10/, 'if (!last_row) return;', 'return;'],
  ['misaligned_address', /read \d+ bytes at V \+ 2 bytes/, 'row.V + 1)', 'row.V)'],
  ['wrong_membermask', /mask 0xffff0000, .* at wrong_membermask\.cu:7/, '0xffff0000u', '0x0000ffffu'],
  [
    'uninitialised_shared',
    /read byte \d+ of stages \(element \d+ of 4 bytes, static shared memory\), which no thread/,
    'if (stages[1]',
    'if (stages[0]',
  ],
  [
    'nan_output',
    /A fully masked row needs a finite running maximum/,
    'state.row_sum *=',
    'if (tile_max > -INFINITY) state.row_sum *=',
  ],
  [
    'last_tile_skipped',
    /1x2x113x64 FAIL .*\n {2}largest \|error\| in \d+ rows from 0: /,
    'row.seq_len / BLOCK_KV',
    '(row.seq_len + BLOCK_KV - 1) / BLOCK_KV',
  ],
  [
    'mask_off_by_one',
    /1x2x128x64c FAIL .*\n {2}largest \|error\| in \d+ rows from 0: /,
    'min(row.index + 2, row.seq_len)',
    'row.index + 1',
  ],
  [
    'sum_not_rescaled',
    /Each row of the output is the right one times a factor of its own/,
    'rescale(O_rmem',
    'row_sum *= alpha;\n    rescale(O_rmem',
  ],
];

test.skipIf(missing('nvcc')).each(inFull(REPAIRS, ([id]) => id === 'last_tile_skipped'))(
  'an agent learns where %s is wrong from the texts of its tools, and the repaired kernel passes',
  { timeout: 120_000 },
  async (id, says, before, after) => {
    const folder = join(home.path, `repair-${id}`);
    cpSync(join(ROOT, 'kernels/faulty', id), folder, { recursive: true });
    const [manifest, source] = [join(folder, 'kernel.yaml'), join(folder, `${id}.cu`)];
    const { shape } = parseManifest(readFileSync(manifest, 'utf8'), manifest).faulty!;
    const agent = await new Agent(home, ERAS[1]).connect();
    try {
      const verified = async (): Promise<Answer> => {
        const asked = { action: 'verify', kernel: folder, shapes: [formatShape(shape)], seeds: 2 };
        return agent.finish((await agent.call('submit', asked)).document['job']);
      };
      const wrong = await verified();
      expect(wrong.document).toMatchObject({ correct: false });
      const cases = await agent.read(wrong.links.find((uri) => uri.endsWith('/cases'))!);
      const told = `${(wrong.document['findings'] as string[]).join('\n')}\n${cases}`;
      expect(told).toMatch(says);
      expect(told).not.toMatch(/fa-tui |view \d/);
      writeFileSync(source, edited(readFileSync(source, 'utf8'), before, after));
      expect((await verified()).document).toMatchObject({ outcome: 'PASSED', correct: true, findings: [] });
    } finally {
      await agent.close();
    }
  },
);

/**
 * Applies the remedy at the line that it names: a barrier between the two accesses and, if that is not enough, one
 * after the loop's last read.
 */
function repaired(source: string, finding: string): string {
  expect(finding).toMatch(/remedy: Put a __syncthreads\(\)/);
  const lines = source.split('\n');
  const call = lines.findIndex((line) => /^\s*attend_keys\(/.test(line));
  const end = lines.findIndex((line, index) => index > call && /;$/.test(line));
  const before = lines[call - 1]!.includes('__syncthreads();') || lines[call - 2]!.includes('__syncthreads();');
  lines.splice(before ? end + 1 : call, 0, '    __syncthreads();');
  return lines.join('\n');
}

test('fa-tui mcp config prints the configuration that each host needs', () => {
  const config = (host: string, ...args: string[]) => home.faTui(['mcp', 'config', host, ...args]);
  const server = (text: string) => (JSON.parse(text) as { mcpServers: { flashcore: unknown } }).mcpServers.flashcore;
  expect(server(config('claude').stdout)).toEqual({ type: 'stdio', command: 'fa-tui', args: ['mcp'] });
  expect(server(config('cursor', '--runner', 'gpu01').stdout)).toEqual({
    command: 'fa-tui',
    args: ['--runner', 'gpu01', 'mcp'],
  });
  expect(config('codex').stdout).toBe(
    '[mcp_servers.flashcore]\ncommand = "fa-tui"\nargs = ["mcp"]\ntool_timeout_sec = 120\n',
  );
  expect(config('emacs')).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/must be claude, codex, cursor/) as string,
  });
});
