import path from 'node:path';
import { isSshAddress, parseSshAddress } from '../remote/ssh-address.ts';
import { UsageError } from '../usage-error.ts';

const HOST_AND_PORT = /^(?:\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?):(\d{1,5})$/i;

/**
 * A runner's address in the form of RunnerClient, "host:port" or "unix:" with an absolute path, or "ssh://…". Throws
 * UsageError, with `hint` at its end.
 */
export function parseAddress(text: string, hint = ''): string {
  if (text.startsWith('unix:') && text.length > 'unix:'.length)
    return `unix:${path.resolve(text.slice('unix:'.length).replace(/^\/\//, ''))}`;
  if (isSshAddress(text)) return parseSshAddress(text).text;
  const port = Number(HOST_AND_PORT.exec(text)?.[1] ?? 0);
  if (port >= 1 && port <= 65_535) return text;
  throw new UsageError(`Runner "${text}": must be host:port (127.0.0.1:50051), ssh://host or unix:/path${hint}`);
}
