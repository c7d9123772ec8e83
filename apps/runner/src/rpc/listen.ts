import { existsSync, lstatSync, mkdirSync, readFileSync, unlinkSync } from 'node:fs';
import { createServer, connect, type AddressInfo, type Server as NetServer, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { ServerCredentials, type Server } from '@grpc/grpc-js';
import { UsageError } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import type { ServerTls } from '../access/certificates.ts';
import { endsWithin } from '../async.ts';
import { formatAddress, type ListenAddress } from './address.ts';

/** Another program uses the address. */
export class AddressInUse extends Error {
  override readonly name = 'AddressInUse';

  constructor(address: string, option: '--address' | '--metrics' = '--address') {
    super(`Give another ${option}, or stop the program that uses this one: ${address} is in use`);
  }
}

export interface ListenSecurity {
  tls: ServerTls;
  /** Accepts only clients with a certificate of the authority. */
  clientCertificates: boolean;
}

export interface ListenOptions {
  /** Undefined: plain text. */
  security: ListenSecurity | undefined;
  /** Called when a connection was refused because the process serves as many as it can. */
  onRefused: () => void;
  /** Clients that have made a call: "address:port". */
  callers: Set<string>;
  /** Time limit for a connection's first data, milliseconds. */
  beginWithinMs: number;
}

export interface Listener {
  /** In the form that clients use; port 0 is replaced by the actual port. */
  address: string;
  /** Number of connected clients. */
  readonly connections: number;
  /** Accepts no new connection, lets calls finish for some time, then cuts them. */
  close(graceMs: number): Promise<void>;
}

/**
 * Listens for a gRPC server. We create the sockets and hand them to grpc-js, so that the number of clients is known and
 * errors are the system's own.
 * Throws AddressInUse.
 */
export async function listen(
  server: Server,
  address: ListenAddress,
  { security, onRefused, callers, beginWithinMs }: ListenOptions,
): Promise<Listener> {
  if (address.kind === 'unix') await prepareSocketPath(address.path);
  const injector = server.createConnectionInjector(serverCredentials(security));
  const sockets = new Set<Socket>();
  const net = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    const peer = `${socket.remoteAddress}:${socket.remotePort}`;
    const begun = (): boolean => (security ? callers.has(peer) : socket.bytesRead >= PREFACE_BYTES);
    const waiting = setTimeout(() => {
      if (!begun()) socket.destroy();
    }, beginWithinMs).unref();
    socket.once('close', () => {
      clearTimeout(waiting);
      callers.delete(peer);
      sockets.delete(socket);
      connectionEnded();
    });
    injector.injectConnection(socket);
  });
  // Anyone who reaches the port can open connections before giving credentials, so descriptors must remain for the
  // database, compilers and workers.
  net.maxConnections = mostConnections();
  net.on('drop', onRefused);
  await bind(net, address);
  return {
    address: boundAddress(net, address),
    get connections() {
      return sockets.size;
    },
    async close(graceMs) {
      net.close();
      // The callback does not mean that calls have ended (Node's http2 marks sessions as closed at once), so wait for
      // the sockets to close.
      server.tryShutdown(() => undefined);
      await allClosed(sockets, graceMs);
      server.forceShutdown();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/**
 * Minimum length of a client's first data: the fixed 24-byte preface and the head of a SETTINGS frame (RFC 9113,
 * section 3.4).
 */
const PREFACE_BYTES = 24 + 9;
/** Limit for the preface; with TLS, which hides the preface, for the first call. */
export const BEGIN_WITHIN_MS = 10_000;

const MAX_CONNECTIONS = 1_024;
/** Assumed if the limit can't be read, as on macOS. */
const USUAL_DESCRIPTORS = 1_024;

/** Half of the process's descriptors, up to MAX_CONNECTIONS: each connection costs some 100 KB. */
const mostConnections = (): number => Math.min(MAX_CONNECTIONS, Math.floor(mostDescriptors() / 2));

/** Limit of files and sockets that the process may have open. */
export function mostDescriptors(): number {
  const limits = existsSync('/proc/self/limits') ? readFileSync('/proc/self/limits', 'utf8') : '';
  return Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? USUAL_DESCRIPTORS);
}

function serverCredentials(security: ListenSecurity | undefined): ServerCredentials {
  if (!security) return ServerCredentials.createInsecure();
  const {
    tls: { authority, certificate, key },
    clientCertificates,
  } = security;
  return ServerCredentials.createSsl(
    clientCertificates ? authority : null,
    [{ private_key: key, cert_chain: certificate }],
    clientCertificates,
  );
}

async function allClosed(sockets: ReadonlySet<Socket>, withinMs: number): Promise<void> {
  // once() would throw for a connection that its client resets now.
  const closed = [...sockets].map((socket) => new Promise<void>((resolve) => socket.once('close', () => resolve())));
  await endsWithin(Promise.all(closed), withinMs);
}

async function bind(net: NetServer, address: ListenAddress): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  net.once('error', reject);
  // The socket file is private from its first moment.
  const mask = process.umask(0o177);
  try {
    if (address.kind === 'unix') net.listen(address.path, resolve);
    else net.listen(address.port, address.host, resolve);
  } finally {
    process.umask(mask);
  }
  try {
    await promise;
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code === 'EADDRINUSE') throw new AddressInUse(formatAddress(address));
    const remedy = entryOf(REMEDIES, code);
    throw remedy === undefined
      ? error
      : new UsageError(`${remedy}: can't listen on ${formatAddress(address)} (${code})`);
  }
}

const REMEDIES = {
  EADDRNOTAVAIL: 'Give an address of this machine, or 0.0.0.0 for all of them',
  ENOTFOUND: 'Give an address of this machine, or 0.0.0.0 for all of them',
  EAI_AGAIN: 'Give an address of this machine, or 0.0.0.0 for all of them',
  EACCES: 'Give a port from 1024 on, or a folder that this user can write',
};

/**
 * Makes the socket's folder, private to its owner, and removes a socket left by a killed runner, which would block the
 * address forever.
 */
async function prepareSocketPath(path: string): Promise<void> {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return;
  if (!found.isSocket() || (await answers(path))) throw new AddressInUse(`unix:${path}`);
  unlinkSync(path);
}

function answers(path: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(path, () => resolve(true));
  socket.once('error', () => resolve(false));
  return promise.finally(() => socket.destroy());
}

function boundAddress(net: NetServer, address: ListenAddress): string {
  return address.kind === 'unix'
    ? formatAddress(address)
    : formatAddress({ ...address, port: (net.address() as AddressInfo).port });
}

/**
 * This many ended connections hold about 10 MB of Node's HTTP/2 memory, which is outside the heap and unknown to V8.
 */
const CONNECTIONS = 16;
const SOON_MS = 100;

type Collect = (options: { type: 'major'; execution: 'async' }) => Promise<void>;

let collect: Collect | undefined;
let ended = 0;
let timer: NodeJS.Timeout | undefined;

/**
 * Collects garbage after every few ended connections. A connection's native memory is freed only with the small objects
 * that own it, and V8 by itself would not collect those soon. Takes about 20 ms.
 */
function connectionEnded(): void {
  ended += 1;
  if (ended < CONNECTIONS) return;
  timer ??= setTimeout(() => {
    ended = 0;
    timer = undefined;
    void garbageCollector()({ type: 'major', execution: 'async' });
  }, SOON_MS).unref();
}

function garbageCollector(): Collect {
  if (!collect) {
    setFlagsFromString('--expose-gc');
    collect = runInNewContext('gc') as Collect;
    setFlagsFromString('--no-expose-gc');
  }
  return collect;
}
