import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import * as z from 'zod';
import { JobEventSchema, Outcome, Phase, TimingMode, type JobEvent } from '../contract/index.ts';
import { jobSpans, otlpTraces, parseTraceParent } from './index.ts';

const shape = { batch: 1, heads: 2, sequenceLength: 64, headDim: 64 };
const at = (seconds: number, payload: MessageInitShape<typeof JobEventSchema>['payload']): JobEvent =>
  create(JobEventSchema, { job: 'jobs/1', time: { seconds: BigInt(seconds), nanos: 0 }, payload: payload! });
const timed = (seconds: number, subject: string): JobEvent =>
  at(seconds, { case: 'benchmarkProgress', value: { shape, mode: TimingMode.HOT, subject } });

const EVENTS = [
  at(10, { case: 'created', value: { job: { name: 'jobs/1', label: 'mine A=1', kernelId: 'mine' } } }),
  at(12, { case: 'started', value: { device: { deviceId: 'gpu0', name: 'NVIDIA L4' } } }),
  at(12, { case: 'phaseStarted', value: { phase: Phase.BUILD } }),
  at(16, {
    case: 'buildResult',
    value: {
      runs: [
        { compiler: 'nvcc', target: 'sm_89', seconds: 4 },
        { compiler: 'g++', target: 'emulator', seconds: 3 },
        { compiler: 'nvcc', target: 'sm_90', seconds: 9, cacheHit: true },
      ],
    },
  }),
  at(16, { case: 'phaseStarted', value: { phase: Phase.VERIFY } }),
  at(18, { case: 'caseResult', value: { shape, seconds: 1.5 } }),
  at(18, { case: 'phaseStarted', value: { phase: Phase.BENCHMARK } }),
  timed(19, 'candidate'),
  timed(20, 'candidate'),
  timed(21, 'sdpa/flash'),
  timed(22, 'candidate'),
  at(23, { case: 'finished', value: { outcome: Outcome.PASSED } }),
];

test('jobSpans() gives the wait, device, phases, parallel compilers, cases and blocks of timing', () => {
  const rows = jobSpans(EVENTS).map(({ kind, name, fromUs, untilUs, track, parent }) =>
    [kind, name, fromUs / 1e6, untilUs / 1e6, track, parent].join(' | '),
  );
  expect(rows).toEqual([
    'job | mine A=1 | 10 | 23 | queue | ',
    'wait | waits for the device | 10 | 12 | queue | 0',
    'device | has the device | 12 | 23 | gpu0 | 0',
    'phase | build | 12 | 16 | gpu0 | 2',
    'compile | nvcc sm_89 | 12 | 16 | nvcc | 3',
    'compile | g++ emulator | 12 | 15 | g++ | 3',
    'phase | verify | 16 | 18 | gpu0 | 2',
    'case | 1x2x64x64 | 16.5 | 18 | gpu0 | 6',
    'phase | benchmark | 18 | 23 | gpu0 | 2',
    'timing | 1x2x64x64 hot candidate | 18 | 20 | gpu0 | 8',
    'timing | 1x2x64x64 hot sdpa/flash | 20 | 21 | gpu0 | 8',
    'timing | 1x2x64x64 hot candidate | 21 | 22 | gpu0 | 8',
  ]);
});

test('each attempt of a cluster job has its node and its own track, and a lost lease is shown', () => {
  const device = { deviceId: 'slurm:gpu', name: 'NVIDIA L4' };
  const spans = jobSpans([
    at(10, { case: 'created', value: { job: { name: 'jobs/1', label: 'mine' } } }),
    at(11, { case: 'started', value: { device } }),
    at(12, { case: 'phaseStarted', value: { phase: Phase.BUILD } }),
    at(14, { case: 'attemptStarted', value: { attempt: 1, node: 'gpu1', device } }),
    at(14, { case: 'phaseStarted', value: { phase: Phase.VERIFY } }),
    at(16, { case: 'caseResult', value: { shape, seconds: 1 } }),
    at(46, { case: 'attemptStarted', value: { attempt: 2, node: 'gpu2', device, reason: 'its pilot was silent' } }),
    at(46, { case: 'phaseStarted', value: { phase: Phase.VERIFY } }),
    at(49, { case: 'finished', value: { outcome: Outcome.PASSED } }),
  ]);
  const rows = spans.map(({ kind, name, fromUs, untilUs, track, parent, failed }) =>
    [kind, name, fromUs / 1e6, untilUs / 1e6, track, parent, failed ? 'failed' : ''].join(' | '),
  );
  expect(rows).toEqual([
    'job | mine | 10 | 49 | queue |  | ',
    'wait | waits for the device | 10 | 11 | queue | 0 | ',
    'wait | waits for a pilot | 11 | 14 | slurm:gpu | 0 | ',
    'phase | build | 12 | 14 | slurm:gpu | 2 | ',
    'device | attempt 1 on gpu1 | 14 | 16 | attempt 1 on gpu1 | 0 | failed',
    'phase | verify | 14 | 16 | attempt 1 on gpu1 | 4 | ',
    'case | 1x2x64x64 | 15 | 16 | attempt 1 on gpu1 | 5 | ',
    'wait | lost its lease, waits for another | 16 | 46 | queue | 0 | ',
    'device | attempt 2 on gpu2 | 46 | 49 | attempt 2 on gpu2 | 0 | ',
    'phase | verify | 46 | 49 | attempt 2 on gpu2 | 8 | ',
  ]);
  expect(spans[4]!.attributes).toEqual({
    attempt: 1,
    node: 'gpu1',
    device: 'NVIDIA L4',
    simulated: false,
    lost: 'its pilot was silent',
  });
});

test('the span of a running job ends with its last event, and without events there are no spans', () => {
  expect(jobSpans([])).toEqual([]);
  expect(jobSpans(EVENTS.slice(0, 3)).map(({ untilUs }) => untilUs / 1e6)).toEqual([12, 12, 12, 12]);
});

// opentelemetry/proto/trace/v1 in protobuf's JSON mapping; ids are hexadecimal (OTLP 1.5, "JSON Protobuf Encoding").
const ATTRIBUTES = z.array(
  z.strictObject({
    key: z.string(),
    value: z.union([
      z.strictObject({ stringValue: z.string() }),
      z.strictObject({ boolValue: z.boolean() }),
      z.strictObject({ intValue: z.string().regex(/^-?\d+$/) }),
      z.strictObject({ doubleValue: z.number() }),
    ]),
  }),
);
const SPAN = z.strictObject({
  traceId: z.string().regex(/^[0-9a-f]{32}$/),
  spanId: z.string().regex(/^[0-9a-f]{16}$/),
  parentSpanId: z
    .string()
    .regex(/^[0-9a-f]{16}$/)
    .optional(),
  name: z.string(),
  kind: z.literal(1),
  startTimeUnixNano: z.string().regex(/^\d+$/),
  endTimeUnixNano: z.string().regex(/^\d+$/),
  attributes: ATTRIBUTES,
  status: z.strictObject({ code: z.union([z.literal(1), z.literal(2)]) }),
});
const TRACES = z.strictObject({
  resourceSpans: z.tuple([
    z.strictObject({
      resource: z.strictObject({ attributes: ATTRIBUTES }),
      scopeSpans: z.tuple([
        z.strictObject({ scope: z.strictObject({ name: z.string(), version: z.string() }), spans: z.array(SPAN) }),
      ]),
    }),
  ]),
});

test('otlpTraces() writes the parent of every span and repeatable ids, and continues the client’s trace', async () => {
  const parent = { traceId: 'ab'.repeat(16), spanId: 'cd'.repeat(8) };
  const options = { job: 'jobs/1', parent, resource: { 'service.name': 'x' }, version: '1' };
  const body = otlpTraces(jobSpans(EVENTS), options);
  const { spans } = TRACES.parse(body).resourceSpans[0].scopeSpans[0];
  expect(spans).toHaveLength(12);
  expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([parent.traceId]));
  const ids = new Set([parent.spanId, ...spans.map(({ spanId }) => spanId)]);
  expect(ids.size).toBe(13);
  expect(spans.filter(({ parentSpanId }) => !ids.has(parentSpanId ?? ''))).toEqual([]);
  expect(spans[0]).toMatchObject({ parentSpanId: parent.spanId, startTimeUnixNano: '10000000000' });
  expect(otlpTraces(jobSpans(EVENTS), options)).toEqual(body);
  await expect(`${JSON.stringify(body, null, 1)}\n`).toMatchFileSnapshot('goldens/otlp.txt');
});

test('without a client’s trace the job’s span has no parent, and an interrupted job is an error', () => {
  const lost = [...EVENTS.slice(0, 2), at(13, { case: 'finished', value: { outcome: Outcome.INTERRUPTED } })];
  const body = otlpTraces(jobSpans(lost), { job: 'jobs/1', parent: undefined, resource: {}, version: '1' });
  const [root] = TRACES.parse(body).resourceSpans[0].scopeSpans[0].spans;
  expect(root!.parentSpanId).toBeUndefined();
  expect(root!.status).toEqual({ code: 2 });
});

test.each([
  [
    '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' },
  ],
  [
    'cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what',
    { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' },
  ],
  ['ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', undefined],
  ['00-00000000000000000000000000000000-00f067aa0ba902b7-01', undefined],
  ['00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01', undefined],
  ['00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01', undefined],
  ['nothing', undefined],
  [undefined, undefined],
])('parseTraceParent(%j) is %j', (text, wanted) => {
  expect(parseTraceParent(text)).toEqual(wanted);
});
