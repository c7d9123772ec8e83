/** How a client authenticates itself to a runner on another machine, and verifies that runner. */
import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { checkServerIdentity } from 'node:tls';
import { type ChannelCredentials, type ChannelOptions, credentials, Metadata } from '@grpc/grpc-js';
import { FlashcoreError } from '../contract/errors.ts';

/** PEM texts and a token. The runner identifies the client by its certificate and key, or by the token. */
export interface ClientSecurity {
  /** Certificate of the authority that signed the runner's certificate; undefined: the system's authorities apply. */
  authority?: Buffer | undefined;
  certificate?: Buffer | undefined;
  key?: Buffer | undefined;
  token?: string | undefined;
}

/**
 * Credentials for a channel. Without security it uses plain text, on this machine or inside the user's own tunnel.
 * Errors: INVALID_REQUEST for text that is not PEM.
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
 * grpc-js sends the address as server name in the TLS handshake, where an IP address is not allowed (RFC 6066; Node
 * warns on stderr). A fixed name is sent instead, and the certificate is checked against the IP address.
 */
export const tlsChannelOptions = (address: string, security: ClientSecurity | undefined): ChannelOptions =>
  security && ipOf(address) !== undefined ? { 'grpc.ssl_target_name_override': 'flashcore-runner' } : {};

function ipOf(address: string): string | undefined {
  const host = address.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
  return isIP(host) ? host : undefined;
}

/** When a certificate expires; undefined if the text is not a certificate (the connection will then fail). */
export function endOfCertificate(pem: Buffer): Date | undefined {
  try {
    return new Date(new X509Certificate(pem).validTo);
  } catch {
    return undefined;
  }
}
