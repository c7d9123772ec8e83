/**
 * Runs whole jobs on the emulator's PTX engine: kernels of other projects, faults that only this engine finds, the
 * ladder's steps for Hopper, an endless launch, and candidates that contain host code.
 */
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fromJsonString } from '@bufbuild/protobuf';
import {
  ArtifactKind,
  FindingKind,
  InstructionListingSchema,
  Outcome,
  Verdict,
  parseSha256,
} from '@flashcore/shared/contract';
import { formatShape, parseManifest, parseShape, planLaunches, resolveVariant } from '@flashcore/shared/kernels';
import { edited, inFull, missing } from '@flashcore/shared/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BuildTools } from '../build/build-tools.ts';
import { TEST_HOST } from '../testing/test-host.ts';
import { DeviceWorker } from '../workers/device-worker.ts';
import { openTestPlanner, type TestPlanner } from './testing/run-job.ts';

const repositoryRoot = fileURLToPath(new URL('../../../../', import.meta.url));
const kernelsFolder = join(repositoryRoot, 'kernels');
const foreignFolder = join(repositoryRoot, 'test/fixtures/foreign');

/** A folder's files, for an upload. */
const filesOf = (folder: string): Record<string, string> =>
  Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')]));

const kernel = (value: string) => ({ source: { case: 'kernelId' as const, value } });

describe.skipIf(missing('nvcc'))('the PTX engine', { timeout: 180_000 }, () => {
  let fixture: TestPlanner;
  beforeAll(() => {
    fixture = openTestPlanner(undefined, { emulatorEngine: 'ptx' });
  });
  afterAll(() => fixture.close());

  test.each([
    { id: 'flash_attention_minimal', shapes: ['1x2x64x64'], most: 3e-4 },
    { id: 'bf16_inline_ptx', shapes: ['1x1x77x64c', '1x1x33x128'], most: 1e-2 },
    { id: 'half2_cooperative', shapes: ['1x2x21x64c'], most: 1e-3 },
  ])('the foreign kernel $id runs unchanged', async ({ id, shapes, most }) => {
    const { outcome, events } = await fixture.run('verify', {
      kernel: fixture.upload(filesOf(join(foreignFolder, id))),
      // Fixed seeds, because the largest error depends on the inputs.
      settings: { shapes: shapes.map(parseShape), seeds: ['5eed', 'c0ffee'] },
    });
    const { cases } = outcome.result.variants[0]!.verify!;
    expect([outcome.summary, ...cases.map(({ shape, verdict }) => [formatShape(shape!), Verdict[verdict]])]).toEqual([
      expect.any(String),
      ...shapes.map((shape) => [shape, 'PASS']),
    ]);
    expect(Math.max(...cases.map(({ maxAbsError }) => maxAbsError))).toBeLessThan(most);
    // The race check watches the first seed of every case byte by byte.
    const watched = events.flatMap((event) => (event.case === 'logLine' ? [event.value.text] : []));
    const checked = watched.find((text) => text.startsWith('race check on'));
    expect(checked).toContain('every access to memory watched, no race found');
    for (const shape of shapes) expect(checked).toContain(shape);
  });

  test('a profile lists the PTX of the launched entries by the source lines that it counts', async () => {
    const { outcome } = await fixture.run('profile', {
      kernel: kernel('flashcore_v6'),
      settings: { shape: parseShape('1x1x64x64') },
    });
    const { lines, listings } = outcome.result.variants[0]!.profile!;
    const text = fixture.artifacts.get(parseSha256(listings[0]!.file!.sha256)).toString('utf8');
    const listing = fromJsonString(InstructionListingSchema, text);
    const placeOf = ({ file, line }: { file: string; line: number }): string => `${file}:${line}`;
    const listed = new Set(listing.blocks.map(placeOf));
    expect(lines.length).toBeGreaterThan(20);
    expect(lines.map(placeOf).filter((place) => !listed.has(place))).toEqual([]);
    const tensorLine = lines.find(({ tensorInstructions }) => tensorInstructions > 0n)!;
    const ofTensorLine = listing.blocks.filter((block) => placeOf(block) === placeOf(tensorLine));
    expect(ofTensorLine.flatMap(({ instructions }) => instructions).join('\n')).toContain('mma.sync');
    expect(listing.lines.find((line) => placeOf(line) === placeOf(tensorLine))?.text).toBe(tensorLine.text);
  });

  test('an entry may have a C++ name of any length, and the manifest can ask for C++20 and device lambdas', async () => {
    const files = filesOf(join(foreignFolder, 'half2_cooperative'));
    const names = ['Loads', 'Stores', 'Softmax'].map((name) => `${name}${'OfATemplateWithAVeryLongName'.repeat(3)}`);
    const source = edited(
      files['half2_cooperative.cu']!,
      'extern "C" __global__ void half2_cooperative(',
      `${names.map((name) => `struct ${name} {};`).join('\n')}
constexpr int host_and_device(int x) { return x; }
template <typename T> concept Any = requires(T x) { x; };
template <Any A, Any B, Any C, int N> __global__ void attend(`,
    );
    const entry = `_Z6attendI${names.map((name) => `${name.length}${name}`).join('')}Li64EEvPK6__halfS5_S5_PS3_ifi`;
    const instance = `\ntemplate __global__ void attend<${names.join(', ')}, 64>(const half* __restrict__, const half* __restrict__, const half* __restrict__, half* __restrict__, int, float, int);\n`;
    const { outcome } = await fixture.run('verify', {
      kernel: fixture.upload({
        'half2_cooperative.cu':
          edited(
            source,
            'const cg::thread_block block =',
            'if (host_and_device(seq_len) < 0) return;\n  const cg::thread_block block =',
          ) + instance,
        'kernel.yaml': edited(
          edited(files['kernel.yaml']!, 'entry: half2_cooperative', `entry: ${entry}`),
          'limits:',
          'compile: { flags: ["-std=c++20", "--expt-relaxed-constexpr", "-Xptxas=-O2"] }\nlimits:',
        ),
      }),
      settings: { shapes: [parseShape('1x2x21x64c')], seedCount: 1 },
    });
    expect([outcome.summary, Outcome[outcome.outcome]]).toEqual([expect.any(String), 'PASSED']);
    const { runs, entries } = outcome.result.variants[0]!.build!;
    expect(entries.map(({ entry: name }) => name)).toEqual([entry]);
    expect(runs[0]!.arguments).toEqual(
      expect.arrayContaining(['-std=c++20', '--expt-relaxed-constexpr', '-Xptxas=-O2']),
    );
  });

  /** half2_cooperative with all parameters in one struct, followed by a pointer, a long and a bool. */
  const withStruct = (bytes: number): Record<string, string> => {
    const files = filesOf(join(foreignFolder, 'half2_cooperative'));
    return {
      'half2_cooperative.cu': edited(
        files['half2_cooperative.cu']!,
        /extern "C" __global__ void half2_cooperative\([^{]*\{/,
        `struct Strides { long long head, row; };
struct Params { const half *Q, *K, *V; half* O; Strides strides; float scale; int seq_len; bool causal; };
extern "C" __global__ void half2_cooperative(const __grid_constant__ Params p, const float* bias, long long head_stride,
                                             bool causal) {
  const half *Q = p.Q, *K = p.K, *V = p.V;
  half* O = p.O;
  const int seq_len = p.seq_len;
  const float scale = p.scale;
  if (bias || head_stride != p.strides.head || p.strides.row != 64 || causal != p.causal) return;`,
      ),
      'kernel.yaml': edited(
        files['kernel.yaml']!,
        'arguments: [Q, K, V, O, S, scale, causal]',
        `arguments:
      - struct:
          bytes: ${bytes}
          fields:
            Q: { at: 0, value: Q }
            K: { at: 8, value: K }
            V: { at: 16, value: V }
            O: { at: 24, value: O }
            strides.head: { at: 32, value: { int64: S * D } }
            strides.row: { at: 40, value: { int64: D } }
            scale: { at: 48, value: scale }
            seq_len: { at: 52, value: S }
            causal: { at: 56, value: { bool: causal } }
      - null
      - { int64: S * D }
      - { bool: causal }`,
      ),
    };
  };

  test('a struct by value, a null pointer, a long and a bool are passed as kernel.yaml describes them', async () => {
    const { outcome } = await fixture.run('verify', {
      kernel: fixture.upload(withStruct(64)),
      settings: { shapes: ['1x2x21x64c', '1x2x21x64'].map(parseShape), seedCount: 1 },
    });
    expect([outcome.summary, Outcome[outcome.outcome]]).toEqual([expect.any(String), 'PASSED']);
  });

  test("a struct whose size differs from the code's is a finding that names both sizes", async () => {
    const { outcome } = await fixture.run('verify', {
      kernel: fixture.upload(withStruct(72)),
      settings: { shapes: [parseShape('1x2x21x64c')], seedCount: 1 },
    });
    expect(outcome.result.variants[0]!.findings).toMatchObject([
      {
        kind: FindingKind.WRONG_ARGUMENTS,
        message: expect.stringMatching(
          /takes 64 bytes as parameter 1, where the manifest gives a struct of 72 bytes; /,
        ) as string,
      },
    ]);
  });

  test('a cooperative launch has all CTAs resident at once, and a launch that does not fit is refused with the number of CTAs that fit', async () => {
    const files = filesOf(join(foreignFolder, 'half2_cooperative'));
    const { outcome } = await fixture.run('verify', {
      kernel: fixture.upload({
        'half2_cooperative.cu': edited(
          files['half2_cooperative.cu']!,
          'const cg::thread_block block =',
          'cg::this_grid().sync();\n  const cg::thread_block block =',
        ),
        'kernel.yaml': edited(files['kernel.yaml']!, '    arguments:', '    cooperative: true\n    arguments:'),
      }),
      settings: { shapes: ['1x2x21x64c', '1x8x1024x64'].map(parseShape), seedCount: 1 },
    });
    const { cases } = outcome.result.variants[0]!.verify!;
    expect(cases.map(({ verdict }) => Verdict[verdict])[0]).toBe('PASS');
    expect(outcome.result.variants[0]!.findings).toMatchObject([
      {
        kind: FindingKind.LAUNCH_FAILED,
        message: expect.stringContaining(
          'half2_cooperative must have all of its 2048 CTAs resident, and the device has room for 696 (58 SMs of 12)',
        ) as string,
        remedy: expect.stringContaining('at most as many CTAs as the device keeps resident') as string,
      },
    ]);
  });

  /** Copies V to O by two launches. The second is programmatic, and `wait` may make it wait for the first. */
  const inTwoLaunches = (wait: string): Record<string, string> => ({
    'two.cu': `#include <cuda_fp16.h>
extern "C" __global__ void first(const half* V, half* W) { W[blockIdx.x * 64 + threadIdx.x] = V[blockIdx.x * 64 + threadIdx.x]; }
extern "C" __global__ void second(const half* W, half* O) {
  ${wait}
  O[blockIdx.x * 64 + threadIdx.x] = W[blockIdx.x * 64 + threadIdx.x];
}
`,
    'kernel.yaml': `id: two
title: Two launches, one after the other
lesson: the second starts early
source: two.cu
min_arch: sm_90
math: { inputs: fp16, accumulate: fp32 }
limits: [{ require: "S == 1 && D == 64", because: "with one key, O is V" }]
workspace: { W: "B * H * D * 2" }
launches:
  - { entry: first, grid: ["B * H", 1, 1], block: [64, 1, 1], arguments: [V, W] }
  - { entry: second, grid: ["B * H", 1, 1], block: [64, 1, 1], programmatic: true, arguments: [W, O] }
`,
  });

  test('a programmatic launch passes if it waits for the launch before it, and races if it does not', async () => {
    const settings = { shapes: [parseShape('1x2x1x64')], seedCount: 1 };
    const run = async (wait: string) =>
      (await fixture.run('verify', { kernel: fixture.upload(inTwoLaunches(wait)), settings })).outcome;
    expect(Outcome[(await run('cudaGridDependencySynchronize();')).outcome]).toBe('PASSED');
    expect((await run('')).result.variants[0]!.findings).toMatchObject([
      {
        kind: FindingKind.RACE,
        message: expect.stringMatching(/at two\.cu:5, which the launch before wrote: a programmatic launch/) as string,
      },
    ]);
  });

  test('a kernel whose CTA needs more registers than an SM has fails, and the finding gives both numbers of registers', async () => {
    const files = filesOf(join(kernelsFolder, 'faulty/register_spills'));
    const manifest = files['kernel.yaml']!.replace(/^(compile|faulty):.*\n/gm, '');
    const { outcome } = await fixture.run('verify', {
      kernel: fixture.upload({
        ...files,
        'kernel.yaml': edited(edited(manifest, 'block: [64, 1, 1]', 'block: [512, 1, 1]'), 'S / 64', 'S / 512'),
      }),
      settings: { shapes: [parseShape('1x1x64x64')], seedCount: 1 },
    });
    expect(outcome.outcome).toBe(Outcome.CRASHED);
    const [finding] = outcome.result.variants[0]!.findings;
    expect(finding).toMatchObject({ kind: FindingKind.LAUNCH_FAILED });
    const [, threads, registers, taken] =
      /on sm_89: (\d+) threads with (\d+) registers take (\d+) registers a CTA, an SM has 65536$/.exec(
        finding!.message,
      )!;
    expect([Number(threads), Number(taken)]).toEqual([512, 512 * Math.ceil(Number(registers) / 8) * 8]);
    expect(Number(taken)).toBeGreaterThan(65_536);
  });

  /** fa_v1_baseline with this printf call in one thread. */
  const printing = (call: string): Record<string, string> => {
    const files = filesOf(join(kernelsFolder, 'fa_v1_baseline'));
    const text = edited(files['fa_v1_baseline.cu']!, '#include <math.h>', '#include <cstdio>\n#include <math.h>');
    const first = 'if (threadIdx.x + blockIdx.x + blockIdx.y + blockIdx.z == 0)';
    return { ...files, 'fa_v1_baseline.cu': edited(text, /(?<=__global__[^]*?\) \{\n)/, `${first} ${call};\n`) };
  };
  const printedBy = async (files: Record<string, string>): Promise<string[]> => {
    const { events } = await fixture.run('verify', {
      kernel: fixture.upload(files),
      settings: { shapes: [parseShape('1x1x64x64')], seedCount: 1 },
    });
    const lines = events.flatMap((event) => (event.case === 'logLine' ? [event.value] : []));
    return lines.flatMap(({ source, text }) => (source === 'kernel' ? [text] : []));
  };

  test('a zero byte in printed text does not end the line, and a wide conversion is not cut', async () => {
    const printed = await printedBy(printing('printf("%c%*d|%s|%lld\\n", 0, 2000, 7, "text", 1ll << 40)'));
    expect(new Set(printed)).toEqual(new Set([`\0${' '.repeat(1999)}7|text|1099511627776`]));
  });

  test("everything that a kernel prints is in its job's log, down to the last unfinished line", async () => {
    const files = printing('printf("one\\n\\nopen")');
    const rounds: string[] = [];
    while (rounds.length < 3) {
      rounds.push((await printedBy(files)).join('\n'));
    }
    // Each launch continues the line that the previous one left open.
    expect(rounds[0]).toMatch(/^(one\n\nopen){2,}$/);
    expect(rounds).toEqual(rounds.map(() => rounds[0]));
  });

  test('initialized device variables are reset before each timed launch, and a champion of another dtype is refused', async () => {
    const request = {
      kernel: fixture.upload(filesOf(join(foreignFolder, 'flash_attention_minimal'))),
      settings: { shapes: [parseShape('1x1x32x64')], protocol: { minSamples: 3, maxSamples: 3, maxSeconds: 1 } },
    };
    const { outcome } = await fixture.run('benchmark', request);
    expect(outcome.result.variants[0]!.benchmarks.map(({ outputCheck }) => outputCheck)).toEqual([
      expect.stringMatching(/^right: every output of \d+ launches/),
      expect.stringMatching(/^right: every output of \d+ launches/),
    ]);
    await expect(
      fixture.run('benchmark', {
        ...request,
        settings: { ...request.settings, champion: { kernel: kernel('fa_v1_baseline') } },
      }),
    ).rejects.toMatchObject({
      reason: 'INVALID_REQUEST',
      message: expect.stringContaining(
        'must take fp32 tensors, as the candidate does: fa_v1_baseline with these parameters takes fp16',
      ) as string,
    });
  });

  const faulty = readdirSync(join(kernelsFolder, 'faulty'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => {
      const path = join(kernelsFolder, 'faulty', name, 'kernel.yaml');
      return { id: name, ...parseManifest(readFileSync(path, 'utf8'), path).faulty! };
    })
    .filter(({ needsPtxEngine, finding }) => needsPtxEngine && finding !== FindingKind.UNSPECIFIED);
  // The short run covers an address, a race and a read of memory that was never written.
  const SHORT = ['local_overrun', 'lost_copy_wait', 'uninitialised_shared'];

  test.each(inFull(faulty, ({ id }) => SHORT.includes(id)))(
    '$id is reported with its line, thread and address',
    async ({ id, finding, shape }) => {
      const { outcome } = await fixture.run('verify', {
        kernel: kernel(id),
        settings: { shapes: [shape], seedCount: 1 },
      });
      const [first] = outcome.result.variants[0]!.findings;
      expect([FindingKind[first!.kind], first!.message]).toEqual([
        FindingKind[finding],
        expect.stringMatching(/\w+\.cuh?:\d+/) as string,
      ]);
      expect(first!.location!.line).toBeGreaterThan(0);
      expect(first!.remedy).not.toBe('');
      if (finding === FindingKind.RACE) expect(first!.threads.length).toBe(2);
      else
        expect(first!.location).toMatchObject({
          block: [expect.any(Number), expect.any(Number), 0],
          thread: [expect.any(Number), 0, 0],
        });
      if (finding === FindingKind.OUT_OF_BOUNDS) expect(first!.location!.address).toMatch(/^0x[0-9a-f]+$/);
    },
  );

  // nvcc needs a minute of processor time to compile flashcore_v12.
  test.each(inFull(['flashcore_v11', 'flashcore_v12'], (id) => id === 'flashcore_v11'))(
    '%s, a kernel for Hopper, gives the right result',
    async (id) => {
      const { outcome } = await fixture.run('verify', {
        kernel: kernel(id),
        settings: { shapes: [parseShape('1x1x77x64c')], seedCount: 1 },
      });
      expect([Outcome[outcome.outcome], outcome.summary]).toEqual([
        'PASSED',
        expect.stringMatching(/^1 of 1 case correct/) as string,
      ]);
    },
  );

  test.each(inFull(['flashcore_v12'], () => false))(
    '%s writes the sink as LSE if the sink is far above all scores',
    async (id) => {
      const { outcome } = await fixture.run('verify', {
        kernel: kernel(id),
        variant: { parameters: { WRITE_LSE: 1n } },
        settings: { shapes: [parseShape('1x4x77x64c,Hkv=2,sinks=1')], seeds: ['2a@offset', '2a@max_last'] },
      });
      expect([Outcome[outcome.outcome], outcome.summary]).toEqual([
        'PASSED',
        expect.stringMatching(/^1 of 1 case correct/) as string,
      ]);
    },
  );

  test('while a long launch runs, events say how many of its blocks have begun, and how long the rest will take', async () => {
    const { events } = await fixture.run('verify', {
      kernel: kernel('fa_v1_baseline'),
      settings: { shapes: [parseShape('1x8x2048x64')], seeds: ['5eed'] },
    });
    const launches = events.flatMap((event) =>
      event.case === 'verifyProgress' && event.value.blocks > 0n ? [event.value] : [],
    );
    expect(launches.length).toBeGreaterThan(0);
    for (const { blocksBegun, blocks, secondsLeft } of launches)
      expect([blocksBegun > 0n && blocksBegun <= blocks, secondsLeft >= 0]).toEqual([true, true]);
    const forecasts = launches.filter(({ blocksBegun, blocks }) => blocksBegun < blocks);
    expect(forecasts.every(({ secondsLeft }) => secondsLeft > 0)).toBe(true);
  });

  test.each([
    { limits: { launchLimitMs: 500 }, message: 'the launch did not end within 0.5 s' },
    {
      limits: { launchLimitMs: 600_000, stallLimitMs: 500 },
      message: 'no further block of the launch began within 0.5 s',
    },
  ])('an endless launch is stopped at its limit, and the finding says where its threads are: $message', async (row) => {
    const data = mkdtempSync(join(tmpdir(), 'flashcore-endless-'));
    const signal = new AbortController().signal;
    const tools = new BuildTools({
      repositoryRoot,
      dataDirectory: data,
      ...TEST_HOST,
      engine: 'ptx',
    });
    const worker = new DeviceWorker({
      deviceId: 'emulator',
      open: async () => ({
        library: await tools.libraries.emulator({ signal }),
        referenceLibrary: await tools.libraries.reference({ signal }),
        deviceOrdinal: 0,
      }),
      canary: () => tools.libraries.canary({ arch: 'sm_89', emulated: true }, { signal }),
    });
    try {
      const folder = join(kernelsFolder, 'faulty/endless_loop');
      const manifest = parseManifest(readFileSync(join(folder, 'kernel.yaml'), 'utf8'), folder);
      const resolved = resolveVariant(manifest);
      const shape = parseShape('1x1x64x64');
      const plan = planLaunches(manifest, resolved, shape);
      const { image } = await tools.kernels.build(
        {
          kernelId: manifest.id,
          folder,
          source: manifest.source,
          folderDigest: '',
          resolved,
          arch: 'sm_89',
          emulated: true,
          entries: ['endless_loop'],
          launches: plan.launches,
        },
        { signal },
      );
      const rule = { name: 'normal', q: 'normal', k: 'normal', v: 'normal', logitScale: 1, valueScale: 1 } as const;
      const outcome = await worker.request(
        {
          type: 'run-once',
          candidate: { image: image!, plan, ...row.limits },
          input: { seed: '1', rule },
        },
        { signal },
      );
      expect(outcome).toMatchObject({
        status: 'fault',
        fault: {
          emulator: {
            kind: 'TIMED_OUT',
            message: expect.stringContaining(row.message) as string,
            place: expect.stringMatching(/endless_loop\.cu:\d+$/) as string,
          },
        },
      });
    } finally {
      await worker.close();
      rmSync(data, { recursive: true, force: true });
    }
  });
});

/** A kernel with host code that would run when a module is loaded, or before a program's main. */
function attackingKernel(leftBehind: string): Record<string, string> {
  return {
    'kernel.yaml': `id: attacking
title: Host code in a candidate
lesson: none of it may run
source: attacking.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
limits: [{ require: "S == 1", because: "with one key, O is V" }]
launches:
  - { entry: attacking, grid: ["B * H", 1, 1], block: [64, 1, 1], arguments: [V, O] }
`,
    'attacking.cu': `#include <cuda_fp16.h>
#include <stdio.h>
static int leave(const char* how) {
  FILE* file = fopen(${JSON.stringify(leftBehind)}, "a");
  if (file) fputs(how, file), fclose(file);
  return 1;
}
static struct Constructed { Constructed() { leave("a constructor\\n"); } } constructed;
static int initialised = leave("an initialiser\\n");
__attribute__((constructor)) static void at_load() { leave("at load\\n"); }
extern "C" __global__ void attacking(const half* V, half* O) {
  O[blockIdx.x * 64 + threadIdx.x] = V[blockIdx.x * 64 + threadIdx.x];
}
`,
  };
}

/** Verifies the attacking kernel without a sandbox, and returns what its host code left behind. */
async function attack(emulatorEngine: 'ptx' | 'fibres') {
  const folder = mkdtempSync(join(tmpdir(), 'flashcore-attack-'));
  const fixture = openTestPlanner(undefined, { emulatorEngine, isolation: 'none' });
  try {
    const path = join(folder, 'left-behind');
    const { outcome } = await fixture.run('verify', {
      kernel: fixture.upload(attackingKernel(path)),
      settings: { shapes: [parseShape('1x2x1x64')], seedCount: 1 },
    });
    const { build } = outcome.result.variants[0]!;
    return {
      outcome: Outcome[outcome.outcome],
      compilers: build!.runs.map(({ compiler }) => compiler),
      hostModules: build!.artifacts.filter(({ kind }) => kind === ArtifactKind.EMULATOR_MODULE).length,
      left: existsSync(path) ? [...new Set(readFileSync(path, 'utf8').trim().split('\n'))].sort() : [],
    };
  } finally {
    await fixture.close();
    rmSync(folder, { recursive: true });
  }
}

test.skipIf(missing('nvcc'))(
  "the PTX engine neither compiles nor runs a candidate's host code",
  { timeout: 180_000 },
  async () => {
    expect(await attack('ptx')).toEqual({ outcome: 'PASSED', compilers: ['nvcc'], hostModules: 0, left: [] });
  },
);

test(
  'the candidate with host code leaves a file behind if it is compiled for the host',
  { timeout: 180_000 },
  async () => {
    expect((await attack('fibres')).left).toEqual(['a constructor', 'an initialiser', 'at load']);
  },
);
