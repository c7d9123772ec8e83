import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { HAND_WRITTEN_BYTES, makeFolder, readForeignFile, whyUnreadable } from '@flashcore/shared/files';
import { runSync } from '../sandbox/run-sync.ts';
import { UsageError } from '@flashcore/shared/contract';
import { requireClientName } from './caller.ts';
import { DEFAULT_ROLE, type Role } from './roles.ts';

const DAYS = 825;
/** Certificates are valid from a day ago, so that a machine whose clock is behind accepts a new one. */
const BACKDATED_DAYS = 1;
const HOST_NAME = /^[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/;

/**
 * Makes a private certificate authority with certificates for the runner, under these names and addresses, and for one
 * client. It uses openssl, because Node can make keys but not certificates. The runner needs ca.crt, server.crt and
 * server.key from the folder; a client needs ca.crt, client.crt and client.key. ca.key signs further certificates: keep
 * it elsewhere. Throws UsageError if there is no openssl, if a name is invalid, or if the folder already has
 * certificates.
 */
export function initTls(folder: string, hosts: readonly string[]): string[] {
  for (const host of hosts)
    if (!isIP(host) && !HOST_NAME.test(host)) throw new UsageError(`--host ${host}: must be a name or an address`);
  if (existsSync(join(folder, 'ca.crt')))
    throw new UsageError(
      `${folder} has certificates, and their users would be locked out: remove it first, or give another --out`,
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

/** Path of a client's certificate; the key is next to it. */
export const clientCertificatePath = (folder: string, name: string): string => join(folder, 'clients', `${name}.crt`);

/**
 * Makes a certificate for another client, with its name as the subject's CN and its role as OU. Needs ca.key. Throws
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
  sign(folder, {
    file: 'ca',
    subject: '/CN=flashcore private CA',
    extensions:
      'basicConstraints=critical,CA:TRUE,pathlen:0\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash\n',
  });
}

interface CertificateToSign {
  file: string;
  subject: string;
  extensions: string;
}

const LEAF = 'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n';

/**
 * Makes a key and a certificate; the certificate "ca" is self-signed. It uses `openssl ca`, because `req` and `x509` of
 * most versions can't set the start of a certificate's validity.
 */
function sign(folder: string, { file, subject, extensions }: CertificateToSign): void {
  const isAuthority = file === 'ca';
  const temporary = mkdtempSync(join(folder, 'new-'));
  const path = (name: string): string => join(temporary, name);
  try {
    makeKey(folder, file);
    writeFileSync(path('ext'), `${isAuthority ? '' : LEAF}${extensions}`);
    writeFileSync(path('index'), '');
    // A positive and unique serial number.
    writeFileSync(path('serial'), `0${randomBytes(16).toString('hex').slice(1)}\n`);
    writeFileSync(path('conf'), AUTHORITY_CONF);
    openssl(folder, ['req', '-new', '-key', `${file}.key`, '-subj', subject, '-out', path('csr')]);
    openssl(
      folder,
      [
        ...['ca', '-batch', '-notext', '-config', path('conf'), '-in', path('csr'), '-out', `${file}.crt`],
        ...['-extfile', path('ext'), '-keyfile', 'ca.key'],
        ...(isAuthority ? ['-selfsign'] : ['-cert', 'ca.crt']),
        ...['-startdate', utcTime(-BACKDATED_DAYS), '-enddate', utcTime(DAYS - BACKDATED_DAYS)],
      ],
      { FLASHCORE_CA: temporary },
    );
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

/**
 * Configuration of `openssl ca`, whose records are kept only until the certificate is signed. Paths are passed in the
 * environment, because a folder may have any name.
 */
const AUTHORITY_CONF = `
[ca]
default_ca = own
[own]
database = $ENV::FLASHCORE_CA/index
new_certs_dir = $ENV::FLASHCORE_CA
serial = $ENV::FLASHCORE_CA/serial
default_md = sha256
policy = any
preserve = yes
unique_subject = no
email_in_dn = no
[any]
organizationalUnitName = optional
commonName = supplied
`;

/** The time as UTCTime, which all versions accept; works until 2049. */
const utcTime = (days: number): string =>
  `${new Date(Date.now() + days * 86_400_000).toISOString().replaceAll(/\D/g, '').slice(2, 14)}Z`;

function makeKey(folder: string, file: string): void {
  const path = join(folder, `${file}.key`);
  writeFileSync(path, '', { mode: 0o600 }); // Created empty, so that the key is private from its first byte.
  openssl(folder, ['genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256', '-out', path]);
  chmodSync(path, 0o600);
}

/** Making a key takes milliseconds, and up to a minute only if the host runs out of random numbers. */
const OPENSSL_LIMIT_MS = 60_000;

/** Synchronous: only commands call it, a person waits for them, and no client is served meanwhile. */
function openssl(folder: string, args: readonly string[], extra: NodeJS.ProcessEnv = {}): void {
  const { exitCode, startError, timedOut, stderr } = runSync('openssl', args, {
    cwd: folder,
    limitMs: OPENSSL_LIMIT_MS,
    environment: { ...process.env, ...extra },
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
  /** The authority that signs accepted clients. */
  authority: Buffer;
  certificate: Buffer;
  key: Buffer;
}

/** Reads the files that a runner needs from a TLS folder. Throws UsageError with the remedy. */
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
