import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { RunnerClient, type ClientSecurity } from '@flashcore/shared/client';
import { ROLE_NAMES } from '../access/roles.ts';
import { TokenFile } from '../access/credential-files.ts';
import { startTestRunner, temporaryFolder, type TestRunner } from './test-runner.ts';

export interface TokenRunner extends AsyncDisposable {
  fixture: TestRunner;
  /** Connects as the client with a name: a role, or "other". */
  as: (name: string) => Promise<RunnerClient>;
  securityOf: (name: string) => ClientSecurity;
}

/**
 * A runner over TLS with a token for one client of each role, and one more submitter. `tls`: the result of initTls().
 */
export async function startTokenRunner(
  tls: string,
  options: Parameters<typeof startTestRunner>[0] = {},
): Promise<TokenRunner> {
  const data = temporaryFolder();
  const file = new TokenFile(data.path);
  const tokens = new Map<string, string>([
    ...ROLE_NAMES.map((role) => [role, file.add(role, { role })] as const),
    ['other', file.add('other')],
  ]);
  const authority = readFileSync(join(tls, 'ca.crt'));
  const securityOf = (name: string): ClientSecurity => ({ authority, token: tokens.get(name) });
  const fixture = await startTestRunner(
    {
      dataDirectory: data.path,
      address: { kind: 'tcp', host: '127.0.0.1', port: 0 },
      security: { folder: tls, clients: 'token' },
      ...options,
    },
    securityOf('admin'),
  );
  const clients: RunnerClient[] = [];
  const as = async (name: string): Promise<RunnerClient> => {
    const client = await RunnerClient.connect({ address: fixture.runner.address, security: securityOf(name) });
    clients.push(client);
    return client;
  };
  return {
    fixture,
    as,
    securityOf,
    async [Symbol.asyncDispose]() {
      clients.forEach((client) => client.close());
      await fixture[Symbol.asyncDispose]();
      data[Symbol.dispose]();
    },
  };
}
