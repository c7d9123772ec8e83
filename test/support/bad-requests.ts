/**
 * Bad requests for each RPC, with the reason and the fields that each refusal names. grpc-js
 * (test/reliability/bad-requests.test.ts) and Python's gRPC (test/interop) send them.
 */
import { type RpcName, type RpcRequestInit } from '@flashcore/shared/client';
import { sha256Of } from '@flashcore/shared/kernels';

const V6 = { kernel: { source: { case: 'kernelId', value: 'flashcore_v6' } } } as const;
const shape = { batch: 1, heads: 1, sequenceLength: 64, headDim: 64 };
// A length just below the index limit: 4 GiB per tensor, so a benchmark's two sets of tensors need 32 GiB. The emulator
// has at most 24 GiB.
const LARGER_THAN_DEVICE = { ...shape, sequenceLength: 2 ** 25 - 1 };
const LARGE = 'x'.repeat(1_000_000);
const NO_JOB = 'jobs/00000000-0000-4000-8000-000000000000';
const file = (path: string, size = 1n, sha256 = 'a'.repeat(64)) => ({ path, sha256, sizeBytes: size });
const tree = (...files: ReturnType<typeof file>[]) =>
  ({ kernel: { source: { case: 'tree', value: { files } } } }) as const;
/** The reason of a refusal, and the fields that its violations name, if any. */
export type Wanted = [reason: string, ...fields: string[]];
export type Row = {
  [Name in RpcName]: [what: string, rpc: Name, request: RpcRequestInit<Name>, ...wanted: Wanted];
}[RpcName];

/** Requests that every RPC that starts a job refuses in the same way. */
const ofEveryJob = (['build', 'verify', 'benchmark', 'profile', 'runExperiment'] as const).flatMap((rpc): Row[] => [
  ['no kernel', rpc, {}, 'INVALID_REQUEST', 'kernel.source'],
  ['an unset oneof', rpc, { kernel: {} }, 'INVALID_REQUEST', 'kernel.source'],
  ['an unknown kernel', rpc, { kernel: { source: { case: 'kernelId', value: 'flashcore_v66' } } }, 'KERNEL_NOT_FOUND'],
  [
    'a kernel id that is a path',
    rpc,
    { kernel: { source: { case: 'kernelId', value: '../../etc/passwd' } } },
    'INVALID_REQUEST',
    'kernel.kernel_id',
  ],
  [
    'a kernel id of the prototype',
    rpc,
    { kernel: { source: { case: 'kernelId', value: '__proto__' } } },
    'KERNEL_NOT_FOUND',
  ],
  [
    'a kernel id of a megabyte',
    rpc,
    { kernel: { source: { case: 'kernelId', value: LARGE } } },
    'INVALID_REQUEST',
    'kernel.kernel_id',
  ],
  [
    'a kernel id with a control character',
    rpc,
    { kernel: { source: { case: 'kernelId', value: 'a\0b' } } },
    'INVALID_REQUEST',
    'kernel.kernel_id',
  ],
  [
    'a build_id that is none',
    rpc,
    { kernel: { source: { case: 'buildId', value: 'x' } } },
    'INVALID_REQUEST',
    'kernel.build_id',
  ],
  [
    'a request_id that is none',
    rpc,
    { ...V6, options: { requestId: 'x'.repeat(100) } },
    'INVALID_REQUEST',
    'options.request_id',
  ],
  [
    'limits of NaN and below zero',
    rpc,
    { ...V6, options: { maxRunSeconds: Number.NaN, maxQueueSeconds: -1 } },
    'INVALID_REQUEST',
    'options.max_queue_seconds',
    'options.max_run_seconds',
  ],
  [
    'an endless limit',
    rpc,
    { ...V6, options: { maxRunSeconds: Number.POSITIVE_INFINITY } },
    'INVALID_REQUEST',
    'options.max_run_seconds',
  ],
  ['an unknown device', rpc, { ...V6, options: { deviceId: 'gpu99' } }, 'INVALID_REQUEST', 'options.device_id'],
  [
    'a parameter that is no identifier',
    rpc,
    { ...V6, variant: { parameters: { '-o/x': 1n } } },
    'INVALID_REQUEST',
    'variant.parameters',
  ],
  [
    'a parameter that is a file of options',
    rpc,
    { ...V6, variant: { parameters: { '@/etc/passwd': 1n } } },
    'INVALID_REQUEST',
    'variant.parameters',
  ],
  [
    'a parameter that is an option',
    rpc,
    { ...V6, variant: { parameters: { '-Xcompiler': 1n } } },
    'INVALID_REQUEST',
    'variant.parameters',
  ],
  [
    'a parameter of the prototype',
    rpc,
    { ...V6, variant: { parameters: { constructor: 1n } } },
    'INVALID_VARIANT',
    'variant.parameters.constructor',
  ],
  [
    'a value that the manifest has not',
    rpc,
    { ...V6, variant: { parameters: { BLOCK_Q: -(2n ** 63n) } } },
    'INVALID_VARIANT',
    'variant.parameters.BLOCK_Q',
  ],
  [
    'a config that the manifest has not',
    rpc,
    { ...V6, variant: { config: '__proto__' } },
    'INVALID_VARIANT',
    'variant.config',
  ],
  [
    'an architecture with an option in it',
    rpc,
    { ...V6, variant: { arch: 'sm_89 -o /x' } },
    'INVALID_REQUEST',
    'variant.arch',
  ],
  ['registers below zero', rpc, { ...V6, variant: { maxRegisters: -1 } }, 'INVALID_REQUEST', 'variant.max_registers'],
  [
    'a tree with a file outside',
    rpc,
    tree(file('kernel.yaml'), file('../a.cu')),
    'INVALID_REQUEST',
    'kernel.tree.files[1].path',
  ],
  [
    'a tree with an absolute file',
    rpc,
    tree(file('kernel.yaml'), file('/etc/passwd')),
    'INVALID_REQUEST',
    'kernel.tree.files[1].path',
  ],
  [
    'a tree with a control character',
    rpc,
    tree(file('kernel.yaml'), file('a\nb.cu')),
    'INVALID_REQUEST',
    'kernel.tree.files[1].path',
  ],
  [
    'a tree with a name of 400 bytes',
    rpc,
    tree(file('kernel.yaml', 1n, sha256Of('x')), file('é'.repeat(200))),
    'INVALID_REQUEST',
    'kernel.tree.files[1].path',
  ],
  [
    'a tree of too many bytes',
    rpc,
    tree(file('kernel.yaml'), file('a.cu', 2n ** 62n)),
    'INVALID_REQUEST',
    'kernel.tree.files[1].size_bytes',
  ],
  [
    'a tree of negative size',
    rpc,
    tree(file('kernel.yaml', -1n)),
    'INVALID_REQUEST',
    'kernel.tree.files[0].size_bytes',
  ],
  ['a tree of no file', rpc, tree(), 'INVALID_REQUEST', 'kernel.tree.files'],
  [
    'a tree of 10,000 files',
    rpc,
    tree(...Array.from({ length: 10_000 }, (_, index) => file(`${index}`))),
    'INVALID_REQUEST',
    'kernel.tree.files',
  ],
  ['a tree whose files were not uploaded', rpc, tree(file('kernel.yaml')), 'SOURCES_MISSING'],
]);

export const rows: Row[] = [
  ...ofEveryJob,
  [
    'a shape that the kernel does not take',
    'verify',
    { ...V6, settings: { shapes: [{ ...shape, headDim: 128 }] } },
    'SHAPE_UNSUPPORTED',
  ],
  [
    'a negative shape',
    'verify',
    { ...V6, settings: { shapes: [{ ...shape, sequenceLength: -64 }] } },
    'INVALID_REQUEST',
    'settings.shapes[0].sequence_length',
  ],
  [
    'a shape whose tensors are too large for any index',
    'benchmark',
    { ...V6, settings: { shapes: [{ batch: 1, heads: 1, sequenceLength: 2 ** 31 - 1, headDim: 64 }] } },
    'INVALID_REQUEST',
    'settings.shapes[0]',
  ],
  [
    'a shape larger than the device',
    'benchmark',
    { ...V6, settings: { shapes: [shape, LARGER_THAN_DEVICE] } },
    'INVALID_REQUEST',
    'settings.shapes[1]',
  ],
  [
    'a shape larger than the device',
    'runExperiment',
    { ...V6, verify: { shapes: [shape] }, benchmark: { shapes: [LARGER_THAN_DEVICE] }, profile: { shape } },
    'INVALID_REQUEST',
    'benchmark.shapes[0]',
  ],
  [
    '10,000 shapes',
    'verify',
    { ...V6, settings: { shapes: Array.from({ length: 10_000 }, () => shape) } },
    'INVALID_REQUEST',
    'settings.shapes',
  ],
  [
    'tolerances of NaN',
    'verify',
    { ...V6, settings: { tolerance: { absolute: Number.NaN, relative: Number.NaN } } },
    'INVALID_REQUEST',
    'settings.tolerance.absolute',
    'settings.tolerance.relative',
  ],
  [
    'a tolerance below zero',
    'verify',
    { ...V6, settings: { tolerance: { absolute: -1, relative: 0 } } },
    'INVALID_REQUEST',
    'settings.tolerance.absolute',
  ],
  [
    'a profile of the prototype',
    'verify',
    { ...V6, settings: { tolerance: { profile: 'toString' } } },
    'INVALID_REQUEST',
    'tolerance.profile',
  ],
  [
    'seeds that are none',
    'verify',
    { ...V6, settings: { seeds: ['', 'g', 'f'.repeat(33)] } },
    'INVALID_REQUEST',
    'settings.seeds[0]',
    'settings.seeds[1]',
    'settings.seeds[2]',
  ],
  [
    'a seed count out of range',
    'verify',
    { ...V6, settings: { seedCount: 101 } },
    'INVALID_REQUEST',
    'settings.seed_count',
  ],
  [
    'a mode that is none',
    'benchmark',
    { ...V6, settings: { protocol: { modes: [77 as never] } } },
    'INVALID_REQUEST',
    'settings.protocol.modes[0]',
  ],
  [
    'samples below zero',
    'benchmark',
    { ...V6, settings: { protocol: { minSamples: -1, maxSamples: -1 } } },
    'INVALID_REQUEST',
    'settings.protocol.min_samples',
    'settings.protocol.max_samples',
  ],
  [
    'an endless benchmark',
    'benchmark',
    { ...V6, settings: { protocol: { maxSeconds: 1e300 } } },
    'INVALID_REQUEST',
    'settings.protocol.max_seconds',
  ],
  [
    'an unknown metric set',
    'profile',
    { ...V6, settings: { metricSet: 'everything' } },
    'INVALID_REQUEST',
    'settings.metric_set',
  ],
  [
    'a parameter that the kernel does not have',
    'tune',
    { ...V6, parameters: [{ name: 'NO_SUCH', values: [1n] }] },
    'INVALID_REQUEST',
    'parameters',
  ],
  ['a search without end', 'tune', { ...V6, maxTrials: 1_000_000 }, 'INVALID_REQUEST', 'max_trials'],
  ['an unknown job', 'getJob', { name: NO_JOB }, 'JOB_NOT_FOUND'],
  ['an empty name', 'getJob', {}, 'INVALID_REQUEST', 'name'],
  ['a name of a megabyte', 'getJob', { name: LARGE }, 'INVALID_REQUEST', 'name'],
  ['an unknown job', 'watchJob', { name: NO_JOB }, 'JOB_NOT_FOUND'],
  [
    'a number below zero',
    'watchJob',
    { name: NO_JOB, afterSequence: -(2n ** 63n) },
    'INVALID_REQUEST',
    'after_sequence',
  ],
  [
    'a number beyond 2^53',
    'watchJob',
    { name: NO_JOB, afterSequence: 2n ** 63n - 1n },
    'INVALID_REQUEST',
    'after_sequence',
  ],
  ['an unknown job', 'cancelJob', { name: NO_JOB }, 'JOB_NOT_FOUND'],
  ['SQL for a name', 'cancelJob', { name: "' OR 1=1 --" }, 'INVALID_REQUEST', 'name'],
  ['a state that is none', 'listJobs', { state: -1 as never }, 'INVALID_REQUEST', 'state'],
  ['a page below zero', 'listJobs', { pageSize: -(2 ** 31) }, 'INVALID_REQUEST', 'page_size'],
  ['a token of a megabyte', 'listJobs', { pageToken: LARGE }, 'INVALID_REQUEST', 'page_token'],
  ['a page too large', 'listExperiments', { pageSize: 2 ** 31 - 1 }, 'INVALID_REQUEST', 'page_size'],
  ['a kernel id of a megabyte', 'listExperiments', { kernelId: LARGE }, 'INVALID_REQUEST', 'kernel_id'],
  ['an unknown kernel', 'getKernel', { kernelId: 'nothing' }, 'KERNEL_NOT_FOUND'],
  ['no kernel', 'getKernel', {}, 'INVALID_REQUEST', 'kernel_id'],
  ['a kernel id of a megabyte', 'getKernel', { kernelId: LARGE }, 'INVALID_REQUEST', 'kernel_id'],
  [
    'a shape of zeros',
    'getLeaderboard',
    { shape: {} },
    'INVALID_REQUEST',
    'shape.batch',
    'shape.heads',
    'shape.sequence_length',
    'shape.head_dim',
  ],
  ['a device name of a megabyte', 'getLeaderboard', { deviceName: LARGE }, 'INVALID_REQUEST', 'device_name'],
  ['a digest that is none', 'readArtifact', { sha256: '../../../etc/passwd' }, 'INVALID_REQUEST', 'sha256'],
  ['an unknown digest', 'readArtifact', { sha256: '0'.repeat(64) }, 'ARTIFACT_NOT_FOUND'],
  ['an offset below zero', 'readArtifact', { sha256: '0'.repeat(64), offset: -1n }, 'ARTIFACT_NOT_FOUND'],
  [
    'files that are none',
    'findMissingSources',
    { files: [file('', -1n, 'x')] },
    'INVALID_REQUEST',
    'files[0].path',
    'files[0].sha256',
    'files[0].size_bytes',
  ],
  ['a digest that is none', 'uploadSources', { sha256: 'x', finish: true }, 'INVALID_REQUEST', 'sha256'],
  [
    'bytes of another digest',
    'uploadSources',
    { sha256: '0'.repeat(64), data: Buffer.from('x'), finish: true },
    'DIGEST_MISMATCH',
  ],
  [
    'a file that does not end',
    'uploadSources',
    { sha256: sha256Of('x'), data: Buffer.from('x') },
    'INVALID_REQUEST',
    'finish',
  ],
];

// Requests as bytes, because a typed client's encoder refuses to encode them.
export const wire: [what: string, rpc: RpcName, bytes: string, ...wanted: Wanted][] = [
  ['a page size of 2^64 - 1, which wraps to -1', 'listJobs', '08ffffffffffffffffff01', 'INVALID_REQUEST', 'page_size'],
  ['an enum of ten bytes', 'listJobs', '18ffffffffffffffff7f', 'INVALID_REQUEST', 'state'],
  ['a field that ends too soon', 'getJob', '0aff', 'INVALID_REQUEST'],
  ['a group that never ends', 'getJob', '0b', 'INVALID_REQUEST'],
  ['an end without a group', 'getJob', '0c', 'INVALID_REQUEST'],
  ['field number 0', 'getJob', '0001', 'INVALID_REQUEST'],
  ['wire type 7', 'getJob', '0f00', 'INVALID_REQUEST'],
  ['a varint without an end', 'getJob', '08ffffffffffffffffffffff', 'INVALID_REQUEST'],
  ['a length of 4 GB', 'getJob', '0affffffff0f41', 'INVALID_REQUEST'],
  ['messages within messages, 10,000 deep, in an unknown field', 'getJob', '1b'.repeat(10_000), 'INVALID_REQUEST'],
];
