import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { create } from '@bufbuild/protobuf';
import { BenchmarkResultSchema, DeviceSchema, FindingKind, VariantResultSchema } from '@flashcore/shared/contract';
import { parseCases, parseManifest, parseShape, resolveVariant } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import type { WorkerRequest } from '../../worker/messages/channel.ts';
import type { BenchmarkRequest, LatencyReport } from '../../worker/messages/measuring.ts';
import { planProtocol } from '../spec/benchmark-protocol.ts';
import { benchmarkPhase, busyHost, drawAhead } from './benchmark-phase.ts';
import { nothingFound, type VariantFound } from './job-found.ts';
import type { VariantServices } from './job-services.ts';

const KERNEL = new URL('../../../../kernels/flashcore_v6/kernel.yaml', import.meta.url);
const manifest = parseManifest(readFileSync(KERNEL, 'utf8'), fileURLToPath(KERNEL));
const CASES = fileURLToPath(new URL('../../../../kernels/cases.yaml', import.meta.url));
const cases = parseCases(readFileSync(CASES, 'utf8'), CASES);

test('a host with far more work than CPUs is reported; a GPU, or an emulator that fills its host, is not', () => {
  const result = (conditions: { hostLoad?: number; hostCpus?: number }) =>
    create(BenchmarkResultSchema, { conditions });
  expect(busyHost([result({ hostLoad: 7.94, hostCpus: 2 })])).toBe(
    "the host is busy: load 7.9 on 2 CPUs; the emulator's times vary with it",
  );
  expect([busyHost([result({ hostLoad: 2.4, hostCpus: 2 })]), busyHost([result({})]), busyHost([])]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});

interface Timed {
  /** Microseconds per launch. */
  us?: number;
  /** Checked launches of each mode and request. */
  launches?: number;
  /** Whether the outputs of the second request are wrong. */
  laterWrong?: boolean;
  simulated?: boolean;
  /** Whether the result may be accepted. */
  acceptable?: boolean;
  /** Status of the answer to a draw request. */
  drawing?: 'done' | 'failed';
  /** The drawn shapes. */
  drawn?: string[];
}

/** A job on a device that answers requests with these times. */
function jobOn({
  us = 6,
  launches = 10_000,
  laterWrong,
  simulated = false,
  acceptable = true,
  drawing = 'done',
  drawn = ['1x2x333x64'],
}: Timed) {
  const [requests, log, warnings, seeds]: [WorkerRequest[], string[], string[], string[]] = [[], [], [], []];
  const report = (mode: 'cold' | 'hot', wrong: boolean): LatencyReport => ({
    mode,
    samplesUs: new Float32Array(100).fill(us),
    clocksMhz: new Float32Array(100),
    clockSource: '',
    slowed: 0,
    throttled: 0,
    stopReason: 'CONVERGED',
    launchesPerSample: 100,
    eventOverheadUs: 0,
    outputCheck: { passed: !wrong, detail: wrong ? 'in 1 sample' : 'right', launches },
    conditions: { throttleReasons: [] },
  });
  const timed = (): BenchmarkRequest[] => requests.filter((each) => each.type === 'benchmark');
  const services = {
    job: {
      name: 'jobs/1',
      signal: new AbortController().signal,
      emit: ({ case: what, value }: { case: string; value: { text: string; message: string } }) => {
        if (what === 'logLine') log.push(value.text);
        if (what === 'warning') warnings.push(value.message);
      },
    },
    resolved: resolveVariant(manifest, {}, undefined),
    frames: { ofFinding: () => undefined },
    artifacts: { put: () => ({ digest: '', bytes: 0 }) },
    cases,
    tools: { emulation: () => ({ engine: 'fibres' }) },
    runtime: {
      instruments: { sdpaMissing: 'no PyTorch' },
      ownProcesses: [],
      request: (request: WorkerRequest) => {
        requests.push(request);
        if (request.type !== 'benchmark') return Promise.resolve({ status: drawing, message: '' });
        const wrong = (laterWrong ?? false) && timed().length > 1;
        return Promise.resolve({ status: 'done', value: request.modes.map((mode) => report(mode, wrong)) });
      },
    },
    spec: {
      device: create(DeviceSchema, { arch: 'sm_90', name: 'Fake GPU', multiprocessors: 132, simulated }),
      kernel: { manifest },
      verify: {
        shapes: [parseShape('2x8x512x64'), parseShape('1x4x128x64')],
        ...(acceptable && { drawn: { shapes: drawn.map(parseShape), seeds: [] } }),
      },
      benchmark: {
        shapes: [parseShape('2x8x512x64')],
        ...planProtocol(undefined, create(DeviceSchema, { simulated })),
        tolerance: { profile: 'parity', absolute: 0.01, relative: 0.01 },
        sdpaBackends: [],
        rivals: [],
        reuseSdpa: false,
        legacyLaunches: 0,
      },
    },
  } as unknown as VariantServices;
  const found = {
    job: { ...nothingFound(), seeds },
    result: create(VariantResultSchema),
    build: { image: 'kernel.cubin', result: { entries: [], artifacts: [] } },
  } as unknown as VariantFound;
  return { services, found, timed, log, warnings, seeds };
}

const S512 = 512;
const lengthOf = ({ candidate }: BenchmarkRequest): number => candidate.plan.values['S']!;
/** The values of S of the further launches' shapes, in ascending order. */
const furtherLengths = ([, ...further]: readonly BenchmarkRequest[]): number[] =>
  further.map(lengthOf).toSorted((a, b) => a - b);

test('further launches are divided among shapes, until an error in one of 10,000 is found with probability 0.99', async () => {
  const drawn = ['1x2x333x64', '1x3x96x64'];
  const { services, found, timed, log, seeds } = jobOn({ launches: 10_000, drawn });
  await benchmarkPhase.run(services, found);
  expect(timed().map((each) => [each.modes, each.protocol.checkedLaunches])).toEqual([
    [['cold', 'hot'], undefined],
    [['hot'], 8_684],
    [['hot'], 8_025],
    [['hot'], 6_050],
  ]);
  expect(furtherLengths(timed())).toEqual([96, 128, 333]);
  expect(log).toEqual([
    expect.stringMatching(
      /^50,000 launches checked, the last of them on .*: an error in one of 10,000 launches is found with probability 0\.993$/,
    ),
  ]);
  expect(new Set(seeds).size).toBe(4);
  expect(found.result.benchmarks).toHaveLength(2);
});

test('if the timed launches take long, launches of smaller shapes are added', async () => {
  const { services, found, timed } = jobOn({ us: 90, launches: 20_000 });
  await benchmarkPhase.run(services, found);
  expect(timed().map(lengthOf)).toEqual([S512, expect.toBeOneOf([128, 333])]);
});

test('shapes with very many CTAs get no further launches, however little work these have', async () => {
  const { services, found, timed } = jobOn({ launches: 10_000, drawn: ['1x65535x1x64', '1x3x1x64'] });
  await benchmarkPhase.run(services, found);
  expect(furtherLengths(timed())).toEqual([1, 128]);
  expect(timed().some(({ candidate }) => candidate.plan.values['H'] === 65_535)).toBe(false);
});

test('shapes with large outputs get none either, because the judge takes longer for them than the launch', async () => {
  const { services, found, timed } = jobOn({ launches: 10_000, drawn: ['642x2x34x64', '1x3x96x64'] });
  await benchmarkPhase.run(services, found);
  expect(furtherLengths(timed())).toEqual([96, 128]);
});

test('a grid of a few CTAs is expected to take as long as a full wave of the same CTAs', async () => {
  const { services, found, timed } = jobOn({ us: 30, drawn: ['1x1x512x64', '1x1x96x64'] });
  await benchmarkPhase.run(services, found);
  expect(furtherLengths(timed())).toEqual([96, 128]);
});

test('if too few launches were checked in time, a warning gives the probability of finding an error', async () => {
  const { services, found, warnings } = jobOn({ launches: 5_000, drawn: ['1x2x333x64', '1x3x96x64'] });
  await benchmarkPhase.run(services, found);
  expect(warnings).toEqual([expect.stringMatching(/^25,000 launches checked, .* 0\.918; more took longer than 5 s$/)]);
});

test.each([
  ['enough are checked', { launches: 23_025 }],
  ["the result can't be accepted", { acceptable: false }],
  ['the device is the emulator', { simulated: true }],
])('no launches are added if %s', async (_, options) => {
  const { services, found, timed } = jobOn(options);
  await benchmarkPhase.run(services, found);
  expect(timed()).toHaveLength(1);
});

test('a wrong output in the added launches is a finding', async () => {
  const { services, found } = jobOn({ laterWrong: true });
  expect(await benchmarkPhase.run(services, found)).toBe('the kernel failed while it was timed');
  expect(found.result.findings.map(({ kind }) => kind)).toEqual([FindingKind.WRONG_RESULT]);
});

test('the benchmark uses inputs that were drawn ahead, or draws them itself if that failed', async () => {
  for (const drawing of ['done', 'failed'] as const) {
    const { services, found, timed } = jobOn({ drawing });
    const ahead = await drawAhead(services);
    if (ahead) found.timing = ahead;
    await benchmarkPhase.run(services, found);
    expect([drawing, timed()[0]!.seed === ahead?.seed]).toEqual([drawing, drawing === 'done']);
  }
});
