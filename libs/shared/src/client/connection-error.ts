/** Errors for a client that could not connect: what was found at the address, and what to do about it. */
import { type ServiceError, status } from '@grpc/grpc-js';
import { FlashcoreError } from '../contract/errors.ts';
import { API_VERSION } from './grpc.ts';
import { isServiceError } from './resume.ts';

/** How the client tried to connect. */
export interface Attempt {
  address: string;
  /** Whether TLS was used. */
  secured: boolean;
  /** Whether the client sent a certificate of its own. */
  withCertificate: boolean;
  /** When that certificate expires. */
  certificateEnds?: Date | undefined;
}

/** RUNNER_UNREACHABLE, or UNAUTHENTICATED if a secured connection was refused. */
export function connectionError(attempt: Attempt, cause: ServiceError): FlashcoreError {
  const refusal = attempt.secured ? tlsProblem(attempt, cause) : plainProblem(attempt, cause);
  if (refusal) return refusal;
  const { address } = attempt;
  if (NO_NAME.test(cause.details))
    return new FlashcoreError(
      'RUNNER_UNREACHABLE',
      { address },
      `No name server knows ${hostOf(address)} (${plainDetails(cause)}): correct the host's name, or use its IP address`,
      { cause },
    );
  const remedy = address.startsWith('unix:') ? 'start it again' : startRemedy(address);
  return new FlashcoreError(
    'RUNNER_UNREACHABLE',
    { address },
    `No runner at ${address}, ${whyNoRunner(cause)} (${plainDetails(cause)}): ${remedy}`,
    { cause },
  );
}

function whyNoRunner({ code, details }: ServiceError): string {
  if (code === status.UNAVAILABLE && !/protocol error/i.test(details)) return 'nothing answers there';
  if (code === status.DEADLINE_EXCEEDED) return 'what is there does not answer in time';
  return 'what answers there is not a runner';
}

/** True if something listened at the address but did not answer in time, as a runner that is starting. */
export const isSilence = ({ cause }: FlashcoreError): boolean =>
  isServiceError(cause) && cause.code === status.DEADLINE_EXCEEDED;

/** RUNNER_UNREACHABLE for an established connection that was lost. */
export function connectionLost(address: string, cause: ServiceError): FlashcoreError {
  if (!CUT.test(cause.details)) return connectionError({ address, secured: false, withCertificate: false }, cause);
  return new FlashcoreError(
    'RUNNER_UNREACHABLE',
    { address },
    `The connection to the runner at ${address} was lost (${plainDetails(cause)}): try again`,
    { cause },
  );
}

export const versionMismatch = (address: string, found: string): FlashcoreError =>
  new FlashcoreError(
    'VERSION_MISMATCH',
    { address, wanted: API_VERSION, found },
    `The runner at ${address} speaks API ${found}, and this program ${API_VERSION}: install the same version of flashcore on both sides`,
  );

/** A runner serves other machines only with TLS. */
const startRemedy = (address: string): string =>
  /^(127\.|localhost:|\[::1\])/.test(address)
    ? `start one with "flashcore-runner serve --address ${address}", or name another address`
    : `look on ${hostOf(address)} whether one serves (with TLS: "flashcore-runner serve --address 0.0.0.0:${address.split(':').at(-1)}") and no firewall is between, or name another address`;

const NO_NAME = /ENOTFOUND|EAI_AGAIN|Name resolution/;
// Nothing listens at the address, or the network does not reach it.
const NO_CONNECTION =
  /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|ENOENT|EACCES|Name resolution/;
// When an established connection is cut, grpc-js gives its callers either no cause or the socket's.
const CUT = /Failed to connect|ECONNRESET|socket hang up|EPIPE|Connection dropped|socket disconnected/;

/** Whether an established connection was cut, so that the next one may succeed. */
export const isCut = ({ code, details }: ServiceError): boolean =>
  code === status.UNAVAILABLE && CUT.test(details) && !NO_CONNECTION.test(details);

/** Texts of OpenSSL or Node, each with its meaning and a remedy. The first match applies. */
const TLS_PROBLEMS: readonly [found: RegExp, (attempt: Attempt) => string][] = [
  [
    /altnames/,
    ({ address }) =>
      `use a name that the runner's certificate has, or make one for this name on its host ("flashcore-runner tls init --host ${hostOf(address)}")`,
  ],
  [
    /certificate has expired|not yet valid/,
    () => 'renew the certificates on the runner\'s host ("flashcore-runner tls init"), or set this machine\'s clock',
  ],
  [
    /self-signed|unable to (?:verify|get)/,
    ({ address }) =>
      `another authority signed its certificate; give the ca.crt that "flashcore-runner tls init" made on the runner's host (fa-tui login ${address} --tls-ca ca.crt)`,
  ],
  [
    /wrong version number|packet length/,
    ({ address }) =>
      `what answers there speaks plain text; leave TLS out, a runner without TLS needs no login (fa-tui --runner ${address}; without --tls options, after fa-tui logout where it was logged in to)`,
  ],
  [
    /./,
    ({ address, withCertificate }) =>
      withCertificate
        ? `your certificate was refused; ask for one that the runner's authority signed (on its host: "flashcore-runner tls client <name>") and log in with it (fa-tui login ${address} --tls-cert <file> --tls-key <file>)`
        : `the runner lets in nobody without a client certificate; log in with one (fa-tui login ${address} --tls-ca ca.crt --tls-cert client.crt --tls-key client.key)`,
  ],
];

function tlsProblem(attempt: Attempt, cause: ServiceError): FlashcoreError | undefined {
  const { code, details } = cause;
  if (code !== status.UNAVAILABLE || NO_CONNECTION.test(details)) return undefined;
  if (attempt.certificateEnds && attempt.certificateEnds < new Date()) return expired(attempt, cause);
  const [, remedy] = TLS_PROBLEMS.find(([found]) => found.test(details))!;
  return new FlashcoreError(
    'UNAUTHENTICATED',
    { address: attempt.address },
    `The secured connection to ${attempt.address} failed (${plainDetails(cause)}): ${remedy(attempt)}`,
    { cause },
  );
}

/** A runner's answer to an expired certificate varies, so this machine reads the certificate's date itself. */
const expired = ({ address, certificateEnds }: Attempt, cause: ServiceError): FlashcoreError =>
  new FlashcoreError(
    'UNAUTHENTICATED',
    { address },
    `Your certificate for ${address} expired at ${certificateEnds!.toISOString().slice(0, 16)}Z: get another (on its host: "flashcore-runner tls client <name>") and log in with it (fa-tui login ${address} --tls-cert <file> --tls-key <file>); the secured connection failed (${plainDetails(cause)})`,
    { cause },
  );

function plainProblem({ address }: Attempt, cause: ServiceError): FlashcoreError | undefined {
  if (
    cause.code !== status.UNAVAILABLE ||
    !CUT.test(cause.details) ||
    NO_CONNECTION.test(cause.details) ||
    address.startsWith('unix:')
  )
    return undefined;
  return new FlashcoreError(
    'RUNNER_UNREACHABLE',
    { address },
    `What is at ${address} takes the connection and cuts it at the first plain text (${plainDetails(cause)}): if the runner serves TLS, log in first (fa-tui login ${address} --tls-ca ca.crt)`,
    { cause },
  );
}

const hostOf = (address: string): string => address.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');

// grpc-js wraps the system's text: "No connection established. Last error: Error: connect ECONNREFUSED … Resolution
// note: ". OpenSSL adds thread, file and line. Both are removed here.
const plainDetails = ({ details, message }: ServiceError): string =>
  (details || message)
    .replace(/^No connection established\. Last error: (Error(?: \[\w+\])?: )?/, '')
    .replace(/\.? Resolution note: *$/, '')
    .replace(/[0-9A-F]{12,}:error:[0-9A-F]+:SSL routines:\w*:([^:]+):.*/s, '$1')
    .replace(/ \(\d{4}-\d\d-\d\dT[^)]*\)/g, '')
    .trim();
