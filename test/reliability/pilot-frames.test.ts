/**
 * Sends mutated frames as a pilot: over a socket to a gateway in a separate process, and in larger numbers to the
 * handlers of a gateway in this process, whose pilot has jobs. The gateway answers or refuses each frame and keeps
 * serving.
 */
import { EventEmitter, once } from 'node:events';
import http2 from 'node:http2';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { create, toBinary, type DescMessage, type DescMethod, type Message } from '@bufbuild/protobuf';
import { Metadata, Server, status, type MethodDefinition } from '@grpc/grpc-js';
import {
  createGateway,
  createLogger,
  kernel,
  parseFleet,
  startChildGateway,
  startTestRunner,
  temporaryFolder,
  type Scheduler,
} from '@flashcore/runner/testing-daemon';
import { JobEventSchema, DeviceSchema, sha256Of } from '@flashcore/shared/contract';
import {
  AttachRequestSchema,
  FleetService,
  RegisterSchema,
  fleetServiceDefinition,
  type AttachRequest,
  type AttachResponse,
  type StoreArtifactRequest,
} from '@flashcore/shared/fleet';
import type { Random } from '@flashcore/shared/statistics';
import { entryOf } from '@flashcore/shared/text';
import { until } from '@flashcore/shared/testing';
import { expect, vi } from 'vitest';
import { RawClient } from '../support/raw-call.ts';
import { besideData, campaign, inLanes, integer, pick } from './campaign.ts';
import { randomMessage } from './random-messages.ts';

/** Statuses that must not occur: they mean a fault of the reader or a hang. */
const FAULTS = [status.UNKNOWN, status.INTERNAL, status.DEADLINE_EXCEEDED, status.CANCELLED];
const LANES = 32;
/**
 * How many frames are sent on one link of a pilot. The gateway ends the link at the first invalid frame, so the whole
 * link counts as one frame.
 */
const OF_A_LINK = 50;
/**
 * How many frames are sent on a link of a pilot with a job. OF_CALLS is the share of these that are calls. The others
 * are events of the job.
 */
const OF_A_JOB = 200;
const OF_CALLS = 0.85;
/** Share of the calls that name a file that the pilot may access. Each of them writes or reads the disk. */
const OF_FILES = 0.1;
/** How many turns of the event loop a waiting job may take to reach a free pilot. */
const TURNS = 500;
/** Far more than a machine that is busy with other work needs, and less than a hang takes. */
const MOST_HEALTH_MS = 15_000;
/**
 * Allowed growth of the gateway's resident memory over all frames. The 256 MiB that a job may store are on the disk.
 */
const MOST_GROWTH_MIB = 400;
const fleetFile = (pilots: string, partition: string): string =>
  `listen: ${pilots}\nreach: ${pilots}\nbundle: /opt/flashcore\nbuilds: { at: pilots }\npartitions: [{ partition: gpu, device: NVIDIA L4, idle_seconds: 86400, ${partition} }]\n`;

/** Counts the statuses, and fails the test on a status that means a fault. */
class Statuses {
  readonly #codes = new Map<string, number>();

  count(code: status, details: string): void {
    if (FAULTS.includes(code)) expect.fail(`${status[code]}: ${details}`);
    this.#codes.set(status[code], (this.#codes.get(status[code]) ?? 0) + 1);
  }

  toString(): string {
    return [...this.#codes]
      .toSorted(([, a], [, b]) => b - a)
      .map(([code, found]) => `${found} ${code}`)
      .join(', ');
  }
}

campaign(
  'mutated frames to the service of pilots',
  { promise: 'protocols', rounds: { ci: 2_000, soak: 100_000 } },
  async ({ random, rounds, figure }) => {
    using folder = temporaryFolder();
    const [file, queue, pilots] = [join(folder.path, 'f.yaml'), join(folder.path, 'q'), `unix:${folder.path}/p`];
    writeFileSync(file, fleetFile(pilots, 'min: 1, max: 1'));
    mkdirSync(queue);
    const address = ['--data', join(folder.path, 'data'), '--address', `unix:${folder.path}/s`];
    await using gateway = await startChildGateway(file, queue, ...address);
    using fleet = new RawClient(pilots);
    using runner = new RawClient(gateway.address);
    const statuses = new Statuses();
    const link = async (frames: readonly Buffer[], session: string): Promise<status> => {
      const { code, details } = await fleet.callMethod(ATTACH, [registration(session, tokenIn(queue)), ...frames]);
      statuses.count(code, details);
      return code;
    };
    let session = secret(random);
    await until(() => readdirSync(queue).length > 0);
    expect(await link([], session)).toBe(status.OK);
    let sent = 0;
    while (sent < rounds) {
      const calls = Array.from({ length: 16 * LANES }, () => pick(random, UNARY));
      await inLanes(LANES, calls, async (method) => {
        const metadata = new Metadata();
        metadata.set('authorization', `Bearer ${session}`);
        const { code, details } = await fleet.callMethod(method, [mutatedMessage(random, method)], { metadata });
        statuses.count(code, details);
      });
      const frames = Array.from({ length: OF_A_LINK }, () => mutatedMessage(random, ATTACH));
      sent += calls.length + 1;
      await link(frames, session);
      if ((await link([], session)) === status.OK) continue;
      // The gateway has dropped the pilot. It submits another pilot when the scheduler has ended the dropped pilot.
      for (const name of readdirSync(queue)) rmSync(join(queue, name));
      await until(() => readdirSync(queue).length > 0);
      session = secret(random);
      expect(await link([], session)).toBe(status.OK);
    }
    const residentMib = gateway.rssMiB();
    const bytes = await callAsSent(session);
    const connections = Math.ceil(rounds / 4);
    const health = [await runner.health()];
    for (let made = 0; made < connections; made += LANES) {
      await Promise.all(Array.from({ length: LANES }, () => delivered(join(folder.path, 'p'), garbled(random, bytes))));
      health.push(await runner.health());
    }
    expect([gateway.child.exitCode, gateway.child.signalCode], gateway.stderr).toEqual([null, null]);
    expect(Math.max(...health)).toBeLessThan(MOST_HEALTH_MS);
    expect(gateway.rssMiB() - residentMib).toBeLessThan(MOST_GROWTH_MIB);
    figure('mutated frames to FleetService', `${sent}: ${String(statuses)}; the gateway serves on`);
    figure(
      'connections to FleetService with mutated HTTP/2',
      `${connections}; health within ${Math.max(...health).toFixed(0)} ms meanwhile, the gateway serves on`,
    );
    expect(await gateway.end('SIGTERM')).toBe(0);
  },
);

campaign(
  'mutated frames to the handlers of a gateway whose pilot has jobs',
  { promise: 'protocols', rounds: { ci: 40_000, soak: 1_000_000 } },
  async ({ random, rounds, figure }) => {
    using folder = temporaryFolder();
    mkdirSync(join(folder.path, 'beside'));
    writeFileSync(join(folder.path, 'beside/key'), 'a private key');
    await using gateway = await startOpenGateway(folder.path, random);
    using runner = new RawClient(gateway.address);
    const before = besideData([folder.path]);
    const statuses = new Statuses();
    const health: number[] = [];
    let [sent, links, residentMib] = [0, 0, 0];
    let pilot = await gateway.nextPilot();
    while (sent < rounds) {
      const link = new Link(gateway.handlers, statuses);
      if (random.uniform() < 0.1) link.send(mutatedMessage(random, ATTACH));
      link.send(registration(pilot.session, pilot.token));
      sent += 1;
      if (!(await link.hears('registered'))) {
        pilot = await gateway.nextPilot(pilot);
        continue;
      }
      // A returning pilot keeps its job, or gets a job that another pilot has lost.
      await gateway.ensureJob();
      if (link.lease === 0n) await link.hears('assignment', TURNS);
      for (let left = OF_A_JOB; left > 0 && !link.isOver; left -= 1) {
        sent += 1;
        if (random.uniform() < OF_CALLS) {
          const method = pick(random, UNARY);
          gateway.call(method, unaryFrame(random, method, link.files), { session: pilot.session, statuses });
        } else link.send(leasedFrame(random, link));
      }
      link.leave(random.uniform() < 0.5 ? 'end' : 'cancelled');
      if ((links += 1) % 100 === 0) health.push(await runner.health());
      if (links === 200) residentMib = process.memoryUsage.rss() / 1024 ** 2;
    }
    health.push(await runner.health());
    expect(Math.max(...health)).toBeLessThan(MOST_HEALTH_MS);
    expect(besideData([folder.path])).toEqual(before);
    const grownMib = residentMib && process.memoryUsage.rss() / 1024 ** 2 - residentMib;
    expect(grownMib).toBeLessThan(MOST_GROWTH_MIB);
    figure(
      'mutated frames to a gateway with jobs',
      `${sent} on ${links} links, ${gateway.jobs.started} jobs: ${String(statuses)}; health within ${Math.max(...health).toFixed(0)} ms, resident memory grew by ${grownMib.toFixed(0)} MiB, nothing beside the data folder changed`,
    );
  },
);

/** The bytes that a client sends on a connection to call ReadBuild. */
async function callAsSent(session: string): Promise<Buffer> {
  const sent: Buffer[] = [];
  const socket = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _, done) => {
      sent.push(chunk);
      done();
    },
  });
  const client = http2.connect('http://gateway', { createConnection: () => socket });
  const { input } = OTHERS.readBuild;
  const message = bytesOf(input, create(input, { sha256: 'a'.repeat(64) }));
  const call = client.request({
    ':method': 'POST',
    ':path': definitionOf(OTHERS.readBuild).path,
    'content-type': 'application/grpc',
    authorization: `Bearer ${session}`,
    te: 'trailers',
  });
  call.on('error', () => undefined); // Nobody answers.
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  call.end(Buffer.concat([prefix, message]));
  await until(() => Buffer.concat(sent).includes(message));
  client.destroy();
  return Buffer.concat(sent);
}

/**
 * A copy of the bytes with parts changed, cut off, left out, doubled or replaced. The HTTP/2 preface mostly stays
 * intact.
 */
function garbled(random: Random, bytes: Buffer): Buffer {
  const least = random.uniform() < 0.9 ? http2Preface.length : 0;
  const at = integer(random, least, bytes.length - 1);
  const end = Math.min(bytes.length, at + integer(random, 1, 40));
  switch (pick(random, ['change', 'cut', 'leave out', 'double', 'replace'])) {
    case 'cut':
      return bytes.subarray(0, at);
    case 'leave out':
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(end)]);
    case 'double':
      return Buffer.concat([bytes.subarray(0, end), bytes.subarray(at)]);
    case 'replace':
      return Buffer.concat([bytes.subarray(0, at), noise(random, integer(random, 1, 300))]);
    default:
      return Buffer.concat([bytes.subarray(0, at), noise(random, end - at), bytes.subarray(end)]);
  }
}
const http2Preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';
const noise = (random: Random, length: number): Buffer =>
  Buffer.from(Array.from({ length }, () => integer(random, 0, 255)));

/** Sends bytes on a separate connection and closes it. */
async function delivered(path: string, bytes: Buffer): Promise<void> {
  let queueIsFull: boolean;
  do {
    queueIsFull = false;
    const socket = connect(path);
    // The gateway may reset a connection.
    socket.on('error', ({ code }: NodeJS.ErrnoException) => (queueIsFull = code === 'EAGAIN'));
    socket.end(bytes, () => socket.destroy());
    await new Promise((resolve) => socket.once('close', resolve));
  } while (queueIsFull);
}

type Handlers = Readonly<Record<string, (call: unknown, done?: unknown) => void>>;
interface OpenPilot {
  job: string;
  token: string;
  session: string;
}

/**
 * Starts a gateway in this process, with access to its handlers. Its scheduler starts no processes: a submitted pilot
 * is a token in a map.
 */
async function startOpenGateway(folder: string, random: Random) {
  const tokens = new Map<string, string>();
  const taken = new Set<string>();
  let submitted = 0;
  const scheduler: Scheduler = {
    submit: (_, token) => {
      const job = String((submitted += 1));
      tokens.set(job, token);
      return Promise.resolve(job);
    },
    pilots: () => Promise.resolve(new Set(tokens.keys())),
    whyEnded: () => Promise.resolve(undefined),
    cancel: (ids) => {
      for (const id of ids) tokens.delete(id);
      return Promise.resolve();
    },
  };
  const file = parseFleet(fleetFile(`unix:${folder}/p`, 'min: 16, max: 16'), 'fleet.yaml');
  const served = vi.spyOn(Server.prototype, 'addService');
  const runner = await startTestRunner({
    fleet: file,
    // The log prints a fault of the gateway with its cause.
    logger: createLogger('error'),
    dataDirectory: join(folder, 'data'),
    createPlanner: (planner) =>
      createGateway(planner, { file, scheduler: () => scheduler, tls: undefined, roundMs: 5 }),
  });
  const handlers = served.mock.calls.find(([definition]) => definition === fleetServiceDefinition)![1] as Handlers;
  served.mockRestore();
  const jobs = { started: 0, isOpen: false, watched: Promise.resolve() };
  return {
    handlers,
    address: runner.runner.address,
    /** Ends the previous pilot as the scheduler would, and returns the next pilot that the gateway submits. */
    nextPilot: async (before?: OpenPilot): Promise<OpenPilot> => {
      if (before) tokens.delete(before.job);
      const free = (): string | undefined => [...tokens.keys()].find((job) => !taken.has(job));
      await until(() => free() !== undefined);
      const job = free()!;
      taken.add(job);
      return { job, token: tokens.get(job)!, session: secret(random) };
    },
    /** Starts a job if there is none. A client watches it to its end. */
    ensureJob: async (): Promise<void> => {
      if (jobs.isOpen) return;
      await jobs.watched;
      jobs.started += 1;
      jobs.isOpen = true;
      const events = runner.client.start('runExperiment', kernel('fa_v1_baseline'))[Symbol.asyncIterator]();
      await events.next();
      jobs.watched = drained(events).finally(() => (jobs.isOpen = false));
    },
    jobs,
    /** Hands a frame to the handler of an RPC, as gRPC would. */
    call: (method: DescMethod, frame: Buffer, { session, statuses }: { session: string; statuses: Statuses }): void => {
      const { requestDeserialize, responseSerialize } = definitionOf(method);
      const request = requestDeserialize(frame);
      if (!isMessage(request)) return statuses.count(status.INVALID_ARGUMENT, 'malformed');
      const metadata = new Metadata();
      metadata.set('authorization', `Bearer ${session}`);
      const done = (error: { code: status; details: string } | null, response: unknown): void => {
        if (!error) responseSerialize(response);
        statuses.count(error?.code ?? status.OK, error?.details ?? '');
      };
      handlers[method.localName]!({ request, metadata, getPeer: () => 'a pilot' }, done);
    },
    [Symbol.asyncDispose]: () => runner[Symbol.asyncDispose](),
  };
}

async function drained(events: AsyncIterator<unknown>): Promise<void> {
  while (!(await events.next()).done);
}

const definitionOf = ({ localName }: DescMethod): MethodDefinition<unknown, unknown> =>
  entryOf(fleetServiceDefinition, localName) as MethodDefinition<unknown, unknown>;
const { attach: ATTACH, ...OTHERS } = FleetService.method;
const UNARY: readonly DescMethod[] = Object.values(OTHERS);
const isMessage = (value: unknown): value is Message =>
  typeof value === 'object' && value !== null && '$typeName' in value;

/** A pilot's stream from the point of view of the handler of Attach. */
class Link extends EventEmitter {
  readonly destroyed = false;
  lease = 0n;
  heard = 0;
  /** Digests of the files that the pilot may read. */
  files: string[] = [];
  isOver = false;
  readonly #statuses: Statuses;
  readonly #told = new Set<string | undefined>();

  constructor(handlers: Handlers, statuses: Statuses) {
    super();
    this.#statuses = statuses;
    this.on('error', ({ code, details }: { code: status; details: string }) => this.#end(code, details));
    handlers[ATTACH.localName]!(this);
  }

  getPeer(): string {
    return 'a pilot';
  }

  /** Called by the gateway. */
  write(response: AttachResponse): void {
    definitionOf(ATTACH).responseSerialize(response);
    const { message } = response;
    this.#told.add(message.case);
    if (message.case === 'registered') {
      this.lease = message.value.lease;
      this.heard = Number(message.value.afterSequence);
    }
    if (message.case === 'assignment') {
      this.lease = message.value.lease;
      this.files = message.value.files.map(({ sha256 }) => sha256);
    }
    this.emit('told');
  }

  /** Called by the gateway. */
  end(): void {
    this.#end(status.OK, '');
  }

  #end(code: status, details: string): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#statuses.count(code, details);
    this.emit('told');
  }

  send(frame: Buffer): void {
    const message = definitionOf(ATTACH).requestDeserialize(frame) as AttachRequest;
    if (isMessage(message)) this.emit('data', message);
    else {
      this.#end(status.INVALID_ARGUMENT, 'malformed');
      this.emit('cancelled');
    }
  }

  /**
   * Waits for a message of the gateway. Resolves with true when the message comes, and with false if the link ends
   * first or this many turns of the event loop have passed.
   */
  async hears(said: AttachResponse['message']['case'], turns = Infinity): Promise<boolean> {
    for (let turn = 0; turn < turns && !this.#told.has(said) && !this.isOver; turn += 1)
      await (turns === Infinity ? once(this, 'told') : nextTurn());
    return this.#told.has(said) && !this.isOver;
  }

  leave(how: 'end' | 'cancelled'): void {
    if (!this.isOver) this.emit(how);
  }
}

/** An event or another message under the pilot's lease: mostly valid, sometimes damaged. */
function leasedFrame(random: Random, link: Link): Buffer {
  if (random.uniform() < 0.1) return mutatedMessage(random, ATTACH);
  const event = randomMessage(random, JobEventSchema, ['jobs/none'], pick(random, [2, 4, 4, 4])) as Message & {
    sequence: bigint;
  };
  if (random.uniform() < 0.95) makeCredible(event);
  event.sequence = BigInt(
    random.uniform() < 0.99 ? (link.heard += 1) : pick(random, [0, 1, link.heard, link.heard + 2]),
  );
  const lease = random.uniform() < 0.95 ? link.lease : pick(random, [0n, -1n, link.lease + 1n]);
  const value = { lease, ...(random.uniform() < 0.99 && { event: event as never }) };
  return damaged(
    random,
    bytesOf(AttachRequestSchema, create(AttachRequestSchema, { message: { case: 'event', value } })),
    0.02,
  );
}

/** Makes a message agree with the pilot's registration, so that the gateway reads more of it. */
function makeCredible(value: unknown): void {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return;
  for (const [name, inner] of Object.entries(value)) {
    if (typeof inner === 'number' && !Number.isFinite(inner)) Reflect.set(value, name, 1);
    else makeCredible(inner);
  }
  const said = value as { $typeName?: string };
  const known = { simulated: false, runnerBuildId: 'test', sha256: 'a'.repeat(64), deviceSeconds: 1 };
  for (const [name, right] of Object.entries(known)) if (name in said) Reflect.set(said, name, right);
  if (said.$typeName === 'flashcore.runner.v1.Device') Object.assign(said, DEVICE);
}

/** A request of a pilot, sometimes for a file that the pilot may access. */
function unaryFrame(random: Random, method: DescMethod, files: readonly string[]): Buffer {
  if (random.uniform() > OF_FILES) return mutatedMessage(random, method);
  const message = randomMessage(random, method.input, ['jobs/none'], 2) as StoreArtifactRequest;
  message.sha256 = method === OTHERS.storeArtifact ? sha256Of(message.data) : pick(random, [...files, 'a'.repeat(64)]);
  return damaged(random, bytesOf(method.input, message), 0.1);
}

/** Returns the bytes, with this probability with some of them changed. */
function damaged(random: Random, bytes: Buffer, probability: number): Buffer {
  if (random.uniform() < probability)
    for (let left = bytes.length && integer(random, 1, 4); left > 0; left -= 1)
      bytes[integer(random, 0, bytes.length - 1)] = integer(random, 0, 255);
  return bytes;
}

/** A session like those of pilots, made from a seed. */
const secret = (random: Random): string => noise(random, 32).toString('base64url');

/** The token of the submitted pilot; "" if there is none. */
function tokenIn(queue: string): string {
  const [name] = readdirSync(queue);
  return name === undefined ? '' : readFileSync(join(queue, name), 'utf8');
}

const DEVICE = create(DeviceSchema, { name: 'NVIDIA L4', arch: 'sm_89' });

function registration(session: string, token: string): Buffer {
  const value = create(RegisterSchema, { token, session, buildId: 'test', node: 'n', device: DEVICE });
  return bytesOf(AttachRequestSchema, create(AttachRequestSchema, { message: { case: 'register', value } }));
}

const bytesOf = (desc: DescMessage, message: Parameters<typeof toBinary>[1]): Buffer =>
  Buffer.from(toBinary(desc, message));

/** A message with extreme values, often with flipped, missing or random bytes. */
function mutatedMessage(random: Random, { input }: DescMethod): Buffer {
  const way = random.uniform();
  if (way < 0.1) return noise(random, integer(random, 0, 300));
  const bytes = damaged(random, bytesOf(input, randomMessage(random, input, ['jobs/none'], 2)), 0.5);
  return way > 0.9 ? bytes.subarray(0, integer(random, 0, bytes.length)) : bytes;
}
