import type { PeerCertificate } from 'node:tls';
import { ServerInterceptingCall, ServerListenerBuilder, type Metadata, type ServerInterceptor } from '@grpc/grpc-js';
import { FlashcoreError, asFlashcoreError, statusFromError } from '@flashcore/shared/contract';
import type { Logger } from '../log.ts';
import { isClientName, LOCAL_CALLER, setChecked, type Caller } from './caller.ts';
import type { Quotas } from './quotas.ts';
import type { RevokedCertificates, TokenFile } from './credential-files.ts';
import { DEFAULT_ROLE, isRole, neededFor, requirePermission, ROLE_NAMES } from './roles.ts';

/** The credentials that come with a call. */
export interface Credential {
  metadata: Metadata;
  /** Signed by the runner's authority; undefined if no certificate was requested. */
  certificate: PeerCertificate | undefined;
}

/** Identifies the caller. Throws UNAUTHENTICATED. */
export type Identify = (credential: Credential) => Caller;

export interface AccessOptions {
  identify: Identify;
  quotas: Quotas;
  logger: Logger;
}

/** Checks every call before its request is read: the caller must be known, have the needed role and have calls left. */
export function guardCalls({ identify, quotas, logger }: AccessOptions): ServerInterceptor {
  const check = (path: string, credential: Credential): Caller => {
    const caller = identify(credential);
    requirePermission(caller, neededFor(path), `call ${path.split('/').at(-1)}`);
    return caller;
  };
  return (method, call) => {
    const listener = new ServerListenerBuilder()
      .withOnReceiveMetadata((metadata, next) => {
        try {
          const credential = { metadata, certificate: call.getAuthContext().sslPeerCertificate };
          const caller = check(method.path, credential);
          quotas.takeCall(caller);
          setChecked(metadata, { caller, recheck: () => void check(method.path, credential) });
        } catch (thrown) {
          const error = asFlashcoreError(thrown);
          if (error.reason === 'INTERNAL')
            logger.error({ rpc: method.path, ...error.metadata, err: thrown }, 'access could not be checked');
          else
            logger.debug({ rpc: method.path, reason: error.reason, message: error.message }, 'a call was not let in');
          call.sendStatus(statusFromError(error));
          return;
        }
        next(metadata);
      })
      .build();
    return new ServerInterceptingCall(call, { start: (next) => next(listener) });
  };
}

/**
 * Identifies every caller as `local`, because only a Unix socket of one user or the loopback address is served this
 * way.
 */
export const identifyLocal: Identify = () => LOCAL_CALLER;

export const identifyByToken =
  (tokens: TokenFile): Identify =>
  ({ metadata }) => {
    const token = /^Bearer ([\x21-\x7e]{1,256})$/.exec(String(metadata.get('authorization')[0] ?? ''))?.[1];
    const found = token === undefined ? undefined : tokens.find(token);
    if (found) return { ...found, authenticated: true };
    const what =
      token === undefined
        ? 'No token was sent'
        : "The token sent is not, or no longer, one of this runner's (token list says which have expired)";
    throw new FlashcoreError(
      'UNAUTHENTICATED',
      {},
      `${what}: send a token as "authorization: Bearer <token>" (fa-tui login), made on the runner's host with "flashcore-runner token add <name>"`,
    );
  };

/**
 * Takes the name from the subject's CN and the role from its OU, as "flashcore-runner tls client" writes them. Without
 * an OU the role is submitter.
 */
export const identifyByCertificate =
  (revoked: RevokedCertificates): Identify =>
  ({ certificate }) => {
    const remedy = 'Use a certificate that "flashcore-runner tls client <name>" made on the runner\'s host';
    if (!certificate) throw new FlashcoreError('UNAUTHENTICATED', {}, `${remedy}: none was sent`);
    if (revoked.has(certificate.fingerprint256))
      throw new FlashcoreError('UNAUTHENTICATED', {}, `${remedy}: this one was revoked`);
    const { CN: name, OU: role = DEFAULT_ROLE } = certificate.subject as { CN?: unknown; OU?: unknown };
    if (!isClientName(name))
      throw new FlashcoreError(
        'UNAUTHENTICATED',
        {},
        `${remedy}: the subject of this one names no client (CN: 1 to 64 letters, digits, ".", "_", "@", "-" and spaces)`,
      );
    if (!isRole(role))
      throw new FlashcoreError(
        'UNAUTHENTICATED',
        {},
        `${remedy}: the subject of this one names no role (OU: ${ROLE_NAMES.join(', ')})`,
      );
    return { name, role, authenticated: true };
  };
