import { availableParallelism } from 'node:os';
import { create, toJson, type JsonObject } from '@bufbuild/protobuf';
import { Verdict, DeviceSchema, JobResultSchema, ProvenanceSchema, type Provenance } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { inFull, missing } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { nothingFound } from '../phases/job-found.ts';
import type { JobServices } from '../phases/job-services.ts';
import { provenanceOf } from './provenance.ts';
import { openTestPlanner, type TestPlanner } from './testing/run-job.ts';

let fixture: TestPlanner;

beforeAll(() => {
  fixture = openTestPlanner();
});

afterAll(() => fixture.close());

const kernel = { source: { case: 'kernelId' as const, value: 'fa_v1_baseline' } };
const SMALL = parseShape('1x2x64x64');
const protocol = { minSamples: 2, maxSamples: 2, maxSeconds: 1 };

/** Names of a provenance's fields that are not set. */
const unsetFields = (provenance: Provenance): string[] => {
  const json = toJson(ProvenanceSchema, provenance) as JsonObject;
  return ProvenanceSchema.fields.map(({ jsonName }) => jsonName).filter((name) => json[name] === undefined);
};

const requests = [
  ['verify', { kernel, settings: { shapes: [SMALL], seedCount: 1 } }],
  ['benchmark', { kernel, settings: { shapes: [SMALL], protocol } }],
  ['profile', { kernel, settings: { shape: SMALL } }],
  [
    'runExperiment',
    {
      kernel,
      verify: { shapes: [SMALL], seedCount: 1 },
      benchmark: { shapes: [SMALL], protocol },
      profile: { shape: SMALL },
    },
  ],
] as const;

// An experiment takes longer than the others together.
test.skipIf(missing('nvcc')).each(inFull(requests, ([method]) => method !== 'runExperiment'))(
  '%s on the emulator fills every field of the provenance, and says why there are no clocks',
  { timeout: 120_000 },
  async (method, request) => {
    const { outcome } = await fixture.run(method, request);
    const provenance = outcome.result.provenance!;
    // A profile draws no inputs. Only experiments are judged and draw shapes. The runner knows no git repository of its
    // own kernels. Only a gateway has pilots.
    const gates = ['gatesDigest', 'gatesSource', 'plan'];
    const lacking = { profile: ['seeds', ...gates], runExperiment: [], verify: gates, benchmark: gates };
    const drawn = method === 'runExperiment' ? [] : ['drawnShapes'];
    expect(unsetFields(provenance)).toEqual([...lacking[method], 'git', 'schedulerJob', ...drawn]);
    expect(provenance.device).toMatchObject({
      name: expect.stringMatching(/emulator/) as string,
      driverVersion: '13.0',
    });
    expect(provenance.conditions!.notMeasured).toBe('the emulator has no clocks, temperature or power');
    expect(provenance.conditions!.hostCpus).toBe(availableParallelism());
    expect(provenance.conditions!.hostLoad).toBeGreaterThanOrEqual(0);
    expect(provenance.tools.map(({ name, version }) => [name, /^\d+\.\d+\.\d+$/.test(version ?? '')])).toEqual([
      ['nvcc', true],
      ['g++', true],
      // The version is the name of the emulator's engine.
      ['emulator', false],
    ]);
    expect(
      [provenance.sourceDigest, provenance.flagsDigest].map((digest) => /^[0-9a-f]{64}$/.test(digest ?? '')),
    ).toEqual([true, true]);
    expect(outcome.result.costMissing).toContain('emulator');
  },
);

test('the provenance has the seed that draws the heads of the timed inputs', { timeout: 120_000 }, async () => {
  const { outcome } = await fixture.run('benchmark', {
    kernel: { source: { case: 'kernelId', value: 'fa_v1_baseline' } },
    settings: { shapes: [parseShape('1x1x64x64')], protocol: { minSamples: 10, maxSamples: 10, maxSeconds: 0.5 } },
  });
  // The first seed is that of the verified case; the second draws the heads of the timed shape.
  expect(outcome.result.provenance!.seeds).toEqual([
    expect.stringMatching(/^[0-9a-f]+$/),
    expect.stringMatching(/^[0-9a-f]{16}$/),
  ]);
});

test.skipIf(missing('nvcc'))(
  'flags and sources change their digests, and a build reports that it opened no device',
  { timeout: 120_000 },
  async () => {
    const [plain, fast] = [
      await fixture.run('build', { kernel }),
      await fixture.run('build', { kernel, variant: { maxRegisters: 96 } }),
    ].map(({ outcome }) => outcome.result.provenance!);
    expect([plain!.flagsDigest === fast!.flagsDigest, plain!.sourceDigest === fast!.sourceDigest]).toEqual([
      false,
      true,
    ]);
    expect(plain!.conditions!.notMeasured).toBe('a build does not open the device');
  },
);

test('on a GPU the provenance has the data of NVML, ncu and PyTorch, and the tools that were used', () => {
  const conditions = {
    smClockMhz: 1980,
    maxSmClockMhz: 1980,
    memoryClockMhz: 3201,
    temperatureC: 35,
    powerW: 120,
    powerLimitW: 700,
    persistenceMode: true,
    throttleReasons: [],
    otherProcesses: 0,
  };
  const tool = (name: string, archs: string[] = []) => ({ name, version: '1.2.3', archs });
  const services = {
    spec: {
      device: create(DeviceSchema, { name: 'NVIDIA H200', driverVersion: '13.0', kernelDriverVersion: '580.95.05' }),
      method: 'runExperiment',
      kernel: {
        sourceDigest: 'ab',
        git: { repository: 'kernels', commit: 'c0ffee', branch: 'main', dirty: true },
        manifest: { problem: { id: 'attention' } },
      },
      resolved: { dtype: 'bf16' },
      verify: { sanitize: true },
      judged: { digest: 'd', source: 'kernels/gates.yaml', plan: { name: 'merge' } },
    },
    tools: {
      headers: { now: () => [{ name: 'cutlass', folder: '/opt/cutlass', digest: 'abc' }] },
      toolchain: {
        describe: () => [
          tool('nvcc', ['sm_90']),
          tool('g++', ['emulator']),
          tool('ncu'),
          tool('compute-sanitizer'),
          tool('cuobjdump'),
        ],
      },
    },
  } as unknown as JobServices;
  const birth = { buildSources: 'cd', flagsDigest: 'ef', conditions };
  const { variants } = create(JobResultSchema, {
    variants: [
      {
        profile: { verdict: Verdict.PASS },
        benchmarks: [{ sdpa: [{ name: 'sdpa/flash', version: 'PyTorch 2.11.0+cu130, cuDNN 9.1.9' }] }],
      },
    ],
  });
  const provenance = create(
    ProvenanceSchema,
    provenanceOf(
      services,
      { ...nothingFound(), variants, seeds: ['1'], birth },
      { runner: { version: '0', buildId: 'b', rates: new Map() }, startTime: new Date() },
    ),
  );
  expect(unsetFields(provenance)).toEqual(['schedulerJob', 'drawnShapes']);
  expect(provenance.tools.map(({ name, version }) => `${name} ${version}`)).toEqual([
    'nvcc 1.2.3',
    'g++ 1.2.3',
    'ncu 1.2.3',
    'compute-sanitizer 1.2.3',
    'headers cutlass abc',
    'PyTorch 2.11.0+cu130, cuDNN 9.1.9',
  ]);
  expect(provenance.conditions).toMatchObject({ ...conditions, throttleReasons: [] });
});
