import { isIPv4, isIPv6 } from 'node:net';
import { UsageError } from '@flashcore/shared/contract';

/** An address to listen on. */
export type ListenAddress = { kind: 'tcp'; host: string; port: number } | { kind: 'unix'; path: string };

// sun_path has 104 bytes on macOS and 108 on Linux, with a zero at the end.
const MAX_SOCKET_PATH_BYTES = 100;

/** Reads "host:port", "[::1]:port" or "unix:/path". Throws UsageError. */
export function parseListenAddress(text: string): ListenAddress {
  if (text.startsWith('unix:')) return unixAddress(text.slice('unix:'.length).replace(/^\/\/(?=\/)/, ''));
  const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? [];
  const name = bracketed ?? plain;
  const port = Number(digits);
  if (name === undefined || port > 65_535)
    throw new UsageError(`Address "${text}": must be host:port, [::1]:port or unix:/path`);
  const host = name === 'localhost' ? '127.0.0.1' : name;
  return { kind: 'tcp', host, port };
}

function unixAddress(path: string): ListenAddress {
  if (!path.startsWith('/'))
    throw new UsageError(`Unix socket "${path}": must be an absolute path, as in unix:/run/flashcore.sock`);
  const bytes = Buffer.byteLength(path);
  if (bytes > MAX_SOCKET_PATH_BYTES)
    throw new UsageError(`Unix socket ${path}: has ${bytes} bytes, must have at most ${MAX_SOCKET_PATH_BYTES}`);
  return { kind: 'unix', path };
}

/** Whether other machines may reach the address. */
export const isExposed = (address: ListenAddress): boolean => address.kind === 'tcp' && !isLoopback(address.host);

const isLoopback = (host: string): boolean =>
  (isIPv4(host) && host.startsWith('127.')) || (isIPv6(host) && /^(0*:)*:?0*1$/.test(host));

/** Formats an address as clients write it. */
export function formatAddress(address: ListenAddress): string {
  if (address.kind === 'unix') return `unix:${address.path}`;
  return `${isIPv6(address.host) ? `[${address.host}]` : address.host}:${address.port}`;
}
