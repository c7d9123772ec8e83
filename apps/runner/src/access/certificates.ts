import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { HAND_WRITTEN_BYTES, makeFolder, readForeignFile, whyUnreadable } from '@flashcore/shared/files';
import { runSync } from '../sandbox/run-sync.ts';
import { UsageError } from '../usage-error.ts';
import { requireClientName } from './caller.ts';
import { DEFAULT_ROLE, type Role } from './roles.ts';

const DAYS = '825';
const HOST_NAME = /^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/;

/**
 * Makes a private certificate authority with certificates for the runner, under these names and addresses, and for one
 * client. By openssl, for Node makes keys but no certificates.
 * The runner needs ca.crt, server.crt and server.key of the folder; a client ca.crt, client.crt and client.key. ca.key
 * signs more of them: keep it elsewhere.
 * Throws UsageError where there is no openssl, a name is none, or the folder has certificates already.
 */
export function initTls(folder: string, hosts: readonly string[]): string[] {
  for (const host of hosts)
    if (!isIP(host) && !HOST_NAME.test(host)) throw new UsageError(`--host ${host}: must be a name or an address`);
  if (existsSync(join(folder, 'ca.crt')))
    throw new UsageError(
      `${folder} has certificates, and whoever uses them would be locked out: remove it first, or give another --out`,
    );
  makeFolder(folder);
  chmodSync(folder, 0o700);
  const names = [...new Set([...hosts, 'localhost', '127.0.0.1', '::1'])]
    .map((host) => `${isIP(host) ? 'IP' : 'DNS'}:${host}`)
    .join(',');
  makeAuthority(folder);
  sign(folder, {
    file: 'server',
    subject: '/CN=flashcore runner',
    extensions: `subjectAltName=${names}\nextendedKeyUsage=serverAuth\n`,
  });
  signClient(folder, { file: 'client', name: 'client', role: DEFAULT_ROLE });
  return ['ca.crt', 'ca.key', 'server.crt', 'server.key', 'client.crt', 'client.key'];
}

/** Where a client's certificate is put, and its key beside it. */
export const clientCertificatePath = (folder: string, name: string): string => join(folder, 'clients', `${name}.crt`);

/**
 * Makes a certificate for one more client, named by its subject's CN, with its role as OU. Needs ca.key. Throws
 * UsageError.
 */
export function addClient(
  folder: string,
  { name, role }: { name: string; role: Role },
): { certificate: string; key: string } {
  requireClientName(name);
  if (!existsSync(join(folder, 'ca.key')))
    throw new UsageError(`${folder} has no ca.key: give --tls a folder with ca.crt and ca.key, as "tls init" makes it`);
  const certificate = clientCertificatePath(folder, name);
  if (existsSync(certificate))
    throw new UsageError(`${certificate} exists: revoke and remove it first, or give this client another name`);
  makeFolder(join(folder, 'clients'));
  signClient(folder, { file: join('clients', name), name, role });
  return { certificate, key: certificate.replace(/crt$/, 'key') };
}

interface ClientToSign {
  file: string;
  name: string;
  role: Role;
}

const signClient = (folder: string, { file, name, role }: ClientToSign): void =>
  sign(folder, { file, subject: `/OU=${role}/CN=${name}`, extensions: 'extendedKeyUsage=clientAuth\n' });

function makeAuthority(folder: string): void {
  makeKey(folder, 'ca');
  openssl(folder, [
    'req',
    '-x509',
    '-new',
    '-key',
    'ca.key',
    '-sha256',
    '-days',
    DAYS,
    '-subj',
    '/CN=flashcore private CA',
    '-addext',
    'basicConstraints=critical,CA:TRUE,pathlen:0',
    '-addext',
    'keyUsage=critical,keyCertSign',
    '-out',
    'ca.crt',
  ]);
}

interface CertificateToSign {
  file: string;
  subject: string;
  extensions: string;
}

function sign(folder: string, { file, subject, extensions }: CertificateToSign): void {
  const temporary = mkdtempSync(join(folder, 'new-'));
  try {
    makeKey(folder, file);
    const [request, extensionFile] = [join(temporary, 'csr'), join(temporary, 'ext')];
    writeFileSync(
      extensionFile,
      `basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n${extensions}`,
    );
    openssl(folder, ['req', '-new', '-key', `${file}.key`, '-subj', subject, '-out', request]);
    openssl(folder, [
      'x509',
      '-req',
      '-in',
      request,
      '-CA',
      'ca.crt',
      '-CAkey',
      'ca.key',
      '-CAserial',
      join(temporary, 'serial'),
      '-CAcreateserial',
      '-sha256',
      '-days',
      DAYS,
      '-extfile',
      extensionFile,
      '-out',
      `${file}.crt`,
    ]);
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

function makeKey(folder: string, file: string): void {
  const path = join(folder, `${file}.key`);
  writeFileSync(path, '', { mode: 0o600 }); // Nobody else's from its first byte.
  openssl(folder, ['genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256', '-out', path]);
  chmodSync(path, 0o600);
}

/** Making a key takes milliseconds; a minute passes only where the host has no random numbers to give. */
const OPENSSL_LIMIT_MS = 60_000;

/** Synchronous: of commands that a person waits for, while nothing is served. */
function openssl(folder: string, args: readonly string[]): void {
  const { exitCode, startError, timedOut, stderr } = runSync('openssl', args, {
    cwd: folder,
    limitMs: OPENSSL_LIMIT_MS,
    environment: process.env,
  });
  if (exitCode === 0) return;
  if (startError?.code === 'ENOENT')
    throw new UsageError(
      'There is no openssl on this host: install it, or make ca.crt, server.crt and server.key by other means',
    );
  const why = timedOut ? `it did not end within ${OPENSSL_LIMIT_MS / 1000} s` : stderr.trim().split('\n').at(-1);
  throw new UsageError(`openssl ${args[0]} failed: ${startError?.message ?? why}`);
}

export interface ServerTls {
  /** Signs the clients that are let in. */
  authority: Buffer;
  certificate: Buffer;
  key: Buffer;
}

/** Reads what a runner needs of a TLS folder. Throws UsageError with the remedy. */
export function readServerTls(folder: string): ServerTls {
  const read = (name: string): Buffer => {
    try {
      return readForeignFile(join(folder, name), HAND_WRITTEN_BYTES);
    } catch (error) {
      throw new UsageError(
        `${join(folder, name)} can't be read (${whyUnreadable(error)}): make certificates with "flashcore-runner tls init --host <name of this machine>", or give --tls <folder>`,
      );
    }
  };
  return { authority: read('ca.crt'), certificate: read('server.crt'), key: read('server.key') };
}
