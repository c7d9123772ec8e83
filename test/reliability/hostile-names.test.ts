/**
 * Puts texts that would lead out of a folder if they were used as a path into every text field of every request of both
 * services. The contract lists the fields. Each request is refused, nothing on the disk is deleted or changed, and the
 * daemon keeps serving. A new field is covered as soon as the contract has it.
 */
import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { lstatSync, mkdirSync, readFileSync, readdirSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ScalarType, create, toBinary, type DescField, type DescMessage, type DescMethod } from '@bufbuild/protobuf';
import { reflect, type ReflectMessage } from '@bufbuild/protobuf/reflect';
import { Metadata, status } from '@grpc/grpc-js';
import { startChildGateway, temporaryFolder, type ChildRunner } from '@flashcore/runner/testing-daemon';
import { KernelRunnerService, SourceTreeSchema } from '@flashcore/shared/contract';
import { FleetService, RegisterSchema, AttachRequestSchema } from '@flashcore/shared/fleet';
import { sha256Of, treeDigest } from '@flashcore/shared/kernels';
import { until } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RawClient, type RawAnswer } from '../support/raw-call.ts';
import { inLanes } from './campaign.ts';

/**
 * Fields that are never used as a path, a name or a key. The length of their text is limited, but a value such as
 * "../x" is allowed.
 */
const FREE_TEXTS: readonly string[] = [
  'BenchmarkSettings.sdpa_backends',
  'GetLeaderboardRequest.device_name',
  'GetLeaderboardRequest.protocol',
  'GitState.branch',
  'GitState.repository',
  'JobOptions.labels',
  'ListChampionsRequest.device_name',
  'ListExperimentsRequest.labels',
  'ListJobsRequest.labels',
  ...['NoteRequest', 'AcceptRequest', 'RejectRequest', 'UndoRequest'].map((message) => `${message}.note`),
  'RunExperimentRequest.gates_yaml',
];
/** Statuses that must not occur: they mean a fault of the daemon or a hang. */
const FAULTS = [status.UNKNOWN, status.INTERNAL, status.DEADLINE_EXCEEDED, status.UNAVAILABLE];
const LANES = 16;
const BAIT = 'a private key\n';
const DIGEST = /sha256|digest|build_id/;

let folder: ReturnType<typeof temporaryFolder>;
let gateway: ChildRunner;
let clients: { runner: RawClient; fleet: RawClient };
let session: string;
/** Digests in whose place the data folder has something other than a file. */
let planted: Record<string, string>;

beforeAll(async () => {
  folder = temporaryFolder();
  const [file, submitted] = [join(folder.path, 'fleet.yaml'), join(folder.path, 'q')];
  const pilots = `unix:${folder.path}/p`;
  const partition = '{ partition: gpu, device: NVIDIA L4, min: 1, max: 1, idle_seconds: 86400 }';
  writeFileSync(
    file,
    `listen: ${pilots}\nreach: ${pilots}\nbundle: /opt/flashcore\nbuilds: { at: pilots }\npartitions: [${partition}]\n`,
  );
  mkdirSync(submitted);
  gateway = await startChildGateway(
    file,
    submitted,
    '--data',
    join(folder.path, 'data'),
    '--address',
    `unix:${folder.path}/s`,
  );
  planted = plant(join(folder.path, 'data'));
  for (const path of ['bait', 'data/bait', 'data/artifacts/bait', 'data/sources/bait'])
    writeFileSync(join(folder.path, path), BAIT);
  clients = { runner: new RawClient(gateway.address), fleet: new RawClient(pilots) };
  session = await registered(submitted);
});
afterAll(async () => {
  for (const client of Object.values(clients)) client[Symbol.dispose]();
  await gateway[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

const METHODS: DescMethod[] = [...KernelRunnerService.methods, ...FleetService.methods];
/**
 * Attach is tested only with the fields of `register`, because a gateway reads nothing else before a pilot has
 * registered. pilot-pool.test.ts tests a pilot's messages under a lease.
 */
const FIELDS = METHODS.flatMap((method) => textsOf(method.input).map((path) => ({ method, path }))).filter(
  ({ method, path }) => method.name !== 'Attach' || path[0]!.name === 'register',
);

test('the list of text fields covers both services, and every free text is still in some request', () => {
  const found = FIELDS.map(({ method, path }) => `${method.name} ${nameOf(path)}`);
  for (const wanted of ['ReadBuild sha256', 'Build kernel.tree.files.path', 'WatchJob name', 'Attach register.node'])
    expect(found).toContain(wanted);
  // FREE_TEXTS must not name a field that no request has any more.
  const named = FIELDS.map(({ path }) => path.at(-1)!).map(({ parent, name }) => `${parent.name}.${name}`);
  expect(FREE_TEXTS.filter((free) => !named.includes(free))).toEqual([]);
});

test.each(METHODS.map((method) => [`${method.parent.name}.${method.name}`, method] as const))(
  '%s refuses every text that is not a valid name, and the disk is unchanged',
  { timeout: 300_000 },
  async (_, method) => {
    const before = contentsOf(folder.path);
    const cases = FIELDS.filter((field) => field.method === method).flatMap(({ path }) =>
      hostileValues(path).map((value) => ({ path, value })),
    );
    await inLanes(LANES, cases, async ({ path, value }) => {
      const answer = await call(method, requestWith(method.input, path, value));
      const what = `${nameOf(path)} = ${JSON.stringify(value.slice(0, 80))}: ${status[answer.code]} ${answer.details}`;
      expect(FAULTS, what).not.toContain(answer.code);
      if (mustRefuse(method, path)) expect(answer.code, what).toBe(status.INVALID_ARGUMENT);
      expect(Buffer.concat(answer.messages).includes(BAIT.trim()), what).toBe(false);
    });
    expectKept(before);
    expect(await clients.runner.health()).toBeLessThan(5_000);
  },
);

test('a link, a pipe or a folder in the place of a file is set aside, not followed, read or deleted', async () => {
  const before = contentsOf(folder.path);
  for (const { method, path } of FIELDS.filter(({ path: found }) => DIGEST.test(found.at(-1)!.name))) {
    for (const [kind, sha256] of Object.entries(planted)) {
      const answer = await call(method, requestWith(method.input, path, sha256));
      const what = `${method.name} ${nameOf(path)}, ${kind}: ${status[answer.code]} ${answer.details}`;
      expect(FAULTS, what).not.toContain(answer.code);
      expect(Buffer.concat(answer.messages).includes(BAIT.trim()), what).toBe(false);
    }
  }
  expectKept(before);
  expect(await clients.runner.health()).toBeLessThan(5_000);
});

test('SIGTERM still ends the daemon after all hostile names', async () => {
  expect(await gateway.end('SIGTERM')).toBe(0);
});

/** Whether the field's invalid name must be the reason of the refusal. Attach may refuse a pilot for other reasons. */
const mustRefuse = (method: DescMethod, path: readonly DescField[]): boolean =>
  method.name !== 'Attach' && !FREE_TEXTS.includes(`${path.at(-1)!.parent.name}.${path.at(-1)!.name}`);

/** Values that are hostile as names, then values that are hostile as digests. */
function hostileValues(path: readonly DescField[]): string[] {
  const outside = [
    ...['../flashcore.db', '../../bait', '../bait', '..', 'x/../../../bait', '..\\..\\bait', './../../bait'],
    ...[join(folder.path, 'bait'), '/etc/passwd', '/', 'a\0b', '\0', '../bait\0', `../../${'a'.repeat(60)}`],
    ...['a'.repeat(300), 'a'.repeat(100_000), '../'.repeat(1_000), 'é'.repeat(200), '\u001b[2J', 'a\nb'],
  ];
  const valid = 'a'.repeat(64);
  const noDigests = [
    `${valid}a`,
    valid.slice(1),
    valid.toUpperCase(),
    `${valid}\n`,
    ` ${valid}`,
    'ａ'.repeat(64),
    'g'.repeat(64),
  ];
  return DIGEST.test(path.at(-1)!.name) ? [...outside, ...noDigests] : outside;
}

/** Field paths to every text of a message; texts in lists and maps have the path of the list or map. */
function textsOf(desc: DescMessage, above: readonly DescField[] = []): DescField[][] {
  return desc.fields.flatMap((field) => {
    const path = [...above, field];
    if (field.message) return path.length > 6 ? [] : textsOf(field.message, path);
    if (field.fieldKind === 'map') return [path];
    return field.scalar === ScalarType.STRING ? [path] : [];
  });
}

const nameOf = (path: readonly DescField[]): string => path.map(({ name }) => name).join('.');

/** A request that is valid except for one text. */
function requestWith(desc: DescMessage, path: readonly DescField[], value: string): Buffer {
  const message = reflect(desc, create(desc), false);
  const kernel = desc.field['kernel'];
  if (kernel?.message) message.set(kernel, filled(kernel.message, [kernel.message.field['kernelId']!], 'flashcore_v6'));
  for (const field of desc.fields.filter(({ name }) => name === 'job' || name === 'name'))
    message.set(field, 'jobs/00000000-0000-4000-8000-000000000000');
  const note = desc.field['note'];
  if (note) message.set(note, 'a note');
  set(message, path, value);
  return Buffer.from(toBinary(desc, message.message));
}

function filled(desc: DescMessage, path: readonly DescField[], value: string): ReflectMessage {
  const message = reflect(desc, create(desc), false);
  if (desc.name === 'SourceFile') {
    message.set(desc.field['path']!, 'kernel.yaml');
    message.set(desc.field['sha256']!, 'a'.repeat(64));
    message.set(desc.field['sizeBytes']!, 1n);
  }
  if (desc.name === 'GitState') message.set(desc.field['commit']!, 'a'.repeat(40));
  set(message, path, value);
  return message;
}

function set(message: ReflectMessage, [field, ...below]: readonly DescField[], value: string): void {
  if (!field) return;
  const inner = field.message && field.fieldKind !== 'map' ? filled(field.message, below, value) : value;
  if (field.fieldKind === 'list') message.get(field).add(inner);
  else if (field.fieldKind === 'map') message.get(field).set(value, valueOfMap(field.scalar, value));
  else message.set(field, inner);
}

function valueOfMap(scalar: ScalarType | undefined, text: string): string | number | bigint {
  if (scalar === ScalarType.STRING) return text;
  return scalar === ScalarType.DOUBLE ? 1 : 1n;
}

function call(method: DescMethod, request: Buffer): Promise<RawAnswer> {
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${session}`);
  const client = method.parent.typeName === FleetService.typeName ? clients.fleet : clients.runner;
  return client.callMethod(method, [request], { metadata });
}

/** The session of a pilot that the gateway has registered. */
async function registered(submitted: string): Promise<string> {
  await until(() => readdirSync(submitted).length > 0);
  const token = readFileSync(join(submitted, readdirSync(submitted)[0]!), 'utf8');
  const own = randomBytes(32).toString('base64url');
  const device = { name: 'NVIDIA L4', arch: 'sm_89' };
  const register = create(RegisterSchema, { token, session: own, buildId: 'test', node: 'n', device });
  const message = create(AttachRequestSchema, { message: { case: 'register', value: register } });
  const { code, details } = await clients.fleet.callMethod(FleetService.method.attach, [
    Buffer.from(toBinary(AttachRequestSchema, message)),
  ]);
  expect(code, details).toBe(status.OK);
  return own;
}

/** Puts links, pipes and folders in the place of files, in every store of a data folder. */
function plant(data: string): Record<string, string> {
  const digests = Object.fromEntries(
    ['a link', 'a pipe', 'a folder', 'a link for its folder', 'a damaged file'].map((kind) => [kind, sha256Of(kind)]),
  );
  const outside = join(data, 'outside');
  mkdirSync(outside, { recursive: true });
  writeFileSync(join(outside, 'key'), BAIT);
  for (const store of ['artifacts', 'sources/files']) {
    const place = (kind: string): string => {
      const path = join(data, store, digests[kind]!.slice(0, 2), digests[kind]!.slice(2));
      mkdirSync(dirname(path), { recursive: true });
      return path;
    };
    symlinkSync(join(outside, 'key'), place('a link'));
    expect(spawnSync('mkfifo', [place('a pipe')]).status).toBe(0);
    mkdirSync(place('a folder'));
    writeFileSync(join(place('a folder'), 'key'), BAIT);
    writeFileSync(place('a damaged file'), BAIT);
    const shard = digests['a link for its folder']!;
    writeFileSync(join(outside, shard.slice(2)), BAIT);
    symlinkSync(outside, join(data, store, shard.slice(0, 2)));
  }
  const tree = create(SourceTreeSchema, { files: [{ path: 'kernel.yaml', sha256: 'a'.repeat(64), sizeBytes: 1n }] });
  mkdirSync(join(data, 'sources/trees'), { recursive: true });
  symlinkSync(outside, join(data, 'sources/trees', treeDigest(tree)));
  return digests;
}

/**
 * The contents of the disk: links with their targets, pipes, and files. Files are listed by digest, so that moving a
 * file within the store makes no difference.
 */
function contentsOf(root: string): string[] {
  return readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((path) => !/flashcore\.db|lock|\.sock$|incoming/.test(path))
    .flatMap((path) => {
      const found = lstatSync(join(root, path));
      if (found.isSymbolicLink()) return [`link to ${readlinkSync(join(root, path))}`];
      if (found.isFIFO()) return ['pipe'];
      return found.isFile()
        ? [
            createHash('sha256')
              .update(readFileSync(join(root, path)))
              .digest('hex'),
          ]
        : [];
    })
    .sort();
}

function expectKept(before: readonly string[]): void {
  const after = contentsOf(folder.path);
  const lost = before.filter((one) => before.filter((x) => x === one).length > after.filter((x) => x === one).length);
  expect(lost).toEqual([]);
  expect(lstatSync(join(folder.path, 'data', 'flashcore.db')).isFile()).toBe(true);
}
