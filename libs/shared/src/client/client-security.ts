/** How a client proves who it is to a runner beyond this machine, and knows the runner. */
import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { checkServerIdentity } from 'node:tls';
import { type ChannelCredentials, type ChannelOptions, credentials, Metadata } from '@grpc/grpc-js';
import { FlashcoreError } from '../contract/errors.ts';

/** PEM texts, and a token. With a certificate and its key the client is known by them, with a token by that. */
export interface ClientSecurity {
  /** Certificate of the authority that signed the runner's; undefined: one of the system's. */
  authority?: Buffer | undefined;
  certificate?: Buffer | undefined;
  key?: Buffer | undefined;
  token?: string | undefined;
}

/**
 * Plain text without security: on this machine, or within the user's own tunnel. Errors: INVALID_REQUEST for what is no
 * PEM.
 */
export function channelCredentials(address: string, security: ClientSecurity | undefined): ChannelCredentials {
  if (!security) return credentials.createInsecure();
  const tls = secureCredentials(address, security);
  const { token } = security;
  if (token === undefined) return tls;
  const withToken = credentials.createFromMetadataGenerator((_context, done) => {
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${token}`);
    done(null, metadata);
  });
  return credentials.combineChannelCredentials(tls, withToken);
}

function secureCredentials(address: string, { authority, key, certificate }: ClientSecurity): ChannelCredentials {
  const ip = ipOf(address);
  try {
    return credentials.createSsl(
      authority ?? null,
      key ?? null,
      certificate ?? null,
      ip === undefined ? {} : { checkServerIdentity: (_name, found) => checkServerIdentity(ip, found) },
    );
  } catch (cause) {
    throw new FlashcoreError(
      'INVALID_REQUEST',
      {},
      `${(cause as Error).message}: certificates and their key must be PEM files that belong together`,
      { cause },
    );
  }
}

/**
 * grpc-js names the address in the TLS handshake. An IP address may not stand there (RFC 6066; Node warns on stderr): a
 * name does, and the certificate is checked against the address.
 */
export const tlsChannelOptions = (address: string, security: ClientSecurity | undefined): ChannelOptions =>
  security && ipOf(address) !== undefined ? { 'grpc.ssl_target_name_override': 'flashcore-runner' } : {};

function ipOf(address: string): string | undefined {
  const host = address.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
  return isIP(host) ? host : undefined;
}

/** When a certificate ends; undefined for what is none, which the connection refuses. */
export function endOfCertificate(pem: Buffer): Date | undefined {
  try {
    return new Date(new X509Certificate(pem).validTo);
  } catch {
    return undefined;
  }
}
