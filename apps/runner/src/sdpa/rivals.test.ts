/** The real tools/sdpa.py on a CPU with rivals that misbehave: a shared object and a Python module built here. */
import { createHash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  attentionCase,
  installedProblem,
  parseShape,
  problemCase,
  type ProblemCase,
  type TensorDtype,
} from '@flashcore/shared/kernels';
import { RIVALS } from '@flashcore/shared/rivals';
import { missing } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { SdpaBenchmark } from './sdpa-benchmark.ts';
import type { SdpaShape } from './sdpa-shape.ts';

const torchTest = test.skipIf(missing('python3-torch'));

const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'fc-rivals-'));
const OBJECT = join(folder, 'flash_attention_3.so');
const tolerances = { O: { absolute: 2e-3, relative: 2e-3 } };
let sdpa: SdpaBenchmark | undefined;

beforeAll(() => {
  if (missing('python3-torch')) return;
  execFileSync('gcc', ['-O2', '-shared', '-fPIC', '-o', OBJECT, here('fake-flash-attention-3.c'), '-lm']);
  writeRecord();
  sdpa = open(folder);
});
afterAll(async () => {
  await sdpa?.close();
  rmSync(folder, { recursive: true });
});

const open = (rivals: string): SdpaBenchmark =>
  new SdpaBenchmark({
    script: here('cpu-sdpa.py'),
    ordinal: 0,
    folder: rivals,
    python: '/usr/bin/python3',
    prepareLimitMs: 10_000,
  });

function writeRecord(changes: object = {}, object = OBJECT): void {
  const record = {
    abi: 1,
    commits: { 'flash-attention': '0251105abcdef', cutlass: '7127592abcdef' },
    nvcc: '13.0.88',
    flags: '-O3',
    sha256: createHash('sha256').update(readFileSync(object)).digest('hex'),
    ...changes,
  };
  writeFileSync(`${object}.json`, JSON.stringify(record));
}

/** A file of a case whose Q and K are 0, so that each row of O is the mean of V's. */
function writeDrawn(kind: ProblemCase): string {
  const [B, H, S, D] = kind.tensors[0]!.dims as [number, number, number, number];
  const [, Hkv, Skv] = kind.tensors[1]!.dims as [number, number, number, number];
  const zeros = (elements: number): Uint8Array => new Uint8Array(2 * elements);
  const V = Float16Array.from({ length: B * Hkv * Skv * D }, (_, index) => ((index * 37) % 16) / 8 - 1);
  const O = Float32Array.from({ length: B * H * S * D }, (_, index) => {
    const [head, d] = [Math.floor(index / (S * D)) % H, index % D];
    const first = Math.floor(head / (H / Hkv)) * Skv * D;
    return Array.from({ length: Skv }, (_, key) => V[first + key * D + d]!).reduce((a, b) => a + b, 0) / Skv;
  });
  const path = join(folder, `drawn-${Math.random()}`);
  writeFileSync(
    path,
    Buffer.concat([zeros(B * H * S * D), zeros(B * Hkv * Skv * D), new Uint8Array(V.buffer), new Uint8Array(O.buffer)]),
  );
  return path;
}

/** Each rival's row: its figure, or why it has none. */
async function rowsOf(
  shape: string,
  names: readonly string[],
  { of = sdpa!, dtype = 'fp16' }: { of?: SdpaBenchmark; dtype?: TensorDtype } = {},
) {
  const kind = attentionCase(parseShape(shape), dtype);
  const opened = (await of.openShape(kind, {
    modes: ['hot'],
    signal: new AbortController().signal,
    onSamples: () => undefined,
    rivals: { names, drawn: { path: writeDrawn(kind), tolerances } },
  })) as SdpaShape;
  for (let turn = 0; turn < 2; ++turn) await opened.turn('hot');
  return {
    results: opened.results('hot', [5, 5.5, 6]),
    rows: Object.fromEntries(opened.missingRivals.map(({ name, reason }) => [name, reason])),
    missing: opened.missing('hot'),
  };
}

torchTest('a correct rival is timed, and named with its commits and build, whatever it prints', async () => {
  const { results, rows } = await rowsOf('1x4x16x64,Hkv=2', ['flash_attention_3', 'flash', 'mosaic', 'flashinfer']);
  expect(results).toMatchObject([
    {
      name: 'flash_attention_3',
      version: expect.stringMatching(
        /^flash-attention 0251105a, cutlass 7127592a, build [0-9a-f]{8}, nvcc 13\.0\.88$/,
      ) as string,
    },
  ]);
  expect(results[0]!.maxAbsError).toBeLessThan(1e-3);
  expect(rows).toEqual({
    'sdpa/flash': expect.stringContaining('attention') as string,
    mosaic: expect.stringMatching(/^JAX runs its kernels on streams of its own/) as string,
    flashinfer: 'attention is not among its problems: attention_decode',
  });
});

torchTest.each([
  ['is wrong in one element', '1x2x16x96', 'fp16', /^wrong: 1 of 3072 elements of O differ .* by more than 0\.002/],
  ['writes nothing', '1x2x16x64', 'bf16', /^wrong: 2048 of 2048 elements of O differ .* by inf at most$/],
  ['returns a CUDA error', '1x2x16x96', 'bf16', /^fa3_bf16_96 returned 700$/],
  ['has no such function', '1x2x16x192,Dv=128', 'fp16', /was built without fa3_fp16_192: build it again/],
  ['ends the process', '1x2x16x128', 'fp16', /^PyTorch's process ended by SIGSEGV/],
  ['hangs', '1x2x16x256', 'fp16', /^PyTorch did not answer "prepare" within 10 s and was killed/],
] as const)(
  'a rival that %s has a row with the reason, and the next rival is still prepared',
  { timeout: 180_000 },
  async (_, shape, dtype, reason) => {
    const { results, rows, missing } = await rowsOf(shape, ['flash_attention_3', 'mosaic'], { dtype });
    expect(results).toEqual([]);
    expect(rows).toEqual({
      flash_attention_3: expect.stringMatching(reason) as string,
      mosaic: expect.stringMatching(/^JAX/) as string,
    });
    expect(missing).toBe('no rival was timed');
  },
);

torchTest(
  'a shared object that is missing, is not an ELF file, or does not match its record is not called, and the row says why',
  async () => {
    const other = join(folder, 'other');
    mkdirSync(other);
    const object = join(other, 'flash_attention_3.so');
    const sdpa = open(other);
    const reason = async () =>
      (await rowsOf('1x2x16x64', ['flash_attention_3'], { of: sdpa })).rows['flash_attention_3'];
    const build = /build it with `\S+\/rivals\/flash_attention_3\/build\.sh FLASH_ATTENTION CUTLASS \S+\.so`$/;
    expect(await reason()).toMatch(/^not found: there is no /);
    expect(await reason()).toMatch(build);
    copyFileSync(OBJECT, object);
    expect(await reason()).toMatch(/flash_attention_3\.so\.json does not say how flash_attention_3\.so was built/);
    writeRecord({ abi: 2 }, object);
    expect(await reason()).toMatch(/has version 2 of its functions, this flashcore calls version 1; build it with/);
    writeRecord({ sha256: '0'.repeat(64) }, object);
    expect(await reason()).toMatch(/is not the file that flash_attention_3\.so\.json describes; build it with/);
    writeFileSync(object, 'no ELF');
    writeRecord({}, object);
    expect(await reason()).toMatch(/can't be loaded: .*(invalid ELF|too short)/);
    await sdpa.close();
  },
);

torchTest.each([
  ['a decoding rival is timed if all caches are full', [16, 16], undefined],
  [
    'a decoding rival is not timed on caches of different lengths',
    [16, 9],
    'sequences of different lengths are not supported',
  ],
] as const)('%s', async (_, lengths, reason) => {
  const kind = problemCase(installedProblem('attention_decode'), { B: 2, H: 4, Hkv: 1, S: 1, Skv: 16, D: 64 }, 'fp16');
  const V = Float16Array.from({ length: 2 * 16 * 64 }, (_, index) => ((index * 37) % 16) / 8 - 1);
  const mean = (b: number, d: number): number =>
    Array.from({ length: 16 }, (_, key) => V[(b * 16 + key) * 64 + d]!).reduce((sum, value) => sum + value, 0) / 16;
  const O = Float32Array.from({ length: 2 * 4 * 64 }, (_, index) => mean(Math.floor(index / 256), index % 64));
  const [Q, K] = [new Float16Array(2 * 4 * 64), new Float16Array(2 * 16 * 64)];
  // Padded to 16 bytes.
  const ends = Int32Array.from([...lengths, 0, 0]);
  const path = join(folder, `drawn-${Math.random()}`);
  writeFileSync(path, Buffer.concat([Q, K, V, ends, O].map(({ buffer }) => new Uint8Array(buffer))));
  const opened = (await sdpa!.openShape(kind, {
    modes: ['cold', 'hot'],
    signal: new AbortController().signal,
    onSamples: () => undefined,
    rivals: { names: ['flash_attention_3'], drawn: { path, tolerances } },
  })) as SdpaShape;
  await opened.turn('cold');
  expect(opened.missingRivals[0]?.reason).toBe(reason);
  expect(opened.results('cold', [1, 2, 3])).toHaveLength(reason === undefined ? 1 : 0);
});

torchTest(
  'the row of a missing Python module names the command that installs it; the row of a broken module has its error',
  async () => {
    const kind = attentionCase(parseShape('1x2x16x64'), 'fp16');
    const modules = join(folder, 'modules');
    mkdirSync(modules);
    vi.stubEnv('PYTHON_FAKE_MODULES', modules);
    const sdpa = open(folder);
    const decode = { ...kind, problem: 'attention_decode', operation: 'own' as const };
    const row = async () => {
      const opened = (await sdpa.openShape(decode, {
        modes: ['hot'],
        signal: new AbortController().signal,
        onSamples: () => undefined,
        rivals: { names: ['flashinfer'], drawn: { path: writeDrawn(kind), tolerances } },
      })) as SdpaShape;
      return opened.missingRivals[0]!.reason;
    };
    expect(await row()).toMatch(
      /^not found: No module named 'flashinfer'; install it with `python3 -m pip install flashinfer-python`, or build it /,
    );
    writeFileSync(join(modules, 'flashinfer.py'), 'raise LookupError("half installed")\n');
    await sdpa.close();
    expect(await row()).toBe('LookupError: half installed');
    await sdpa.close();
  },
);

torchTest('a cancelled job does not wait for a rival that hangs', async () => {
  const controller = new AbortController();
  const kind = attentionCase(parseShape('1x2x16x256'), 'fp16');
  const opened = sdpa!.openShape(kind, {
    modes: ['hot'],
    signal: controller.signal,
    onSamples: () => undefined,
    rivals: { names: ['flash_attention_3'], drawn: { path: writeDrawn(kind), tolerances } },
  });
  setImmediate(() => controller.abort(new Error('cancelled')));
  await expect(opened).rejects.toThrow('cancelled');
});

torchTest("the tool's table and the names that requests may use are the same", () => {
  const table = execFileSync('python3', ['-c', 'import rivals; print(" ".join(rivals.RIVALS))'], {
    cwd: here('../../../../tools'),
    encoding: 'utf8',
  });
  expect(table.trim().split(' ').toSorted()).toEqual(RIVALS.toSorted());
});
