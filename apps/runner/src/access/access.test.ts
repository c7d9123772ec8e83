import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, credentials, Metadata, status, type ServiceError } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { RunnerClient, type ClientSecurity } from '@flashcore/shared/client';
import { Outcome } from '@flashcore/shared/contract';
import { parseOptions } from '../options.ts';
import { collect, finished, kernel, startTestRunner, temporaryFolder } from '../testing/test-runner.ts';
import { addClient, initTls } from './certificates.ts';
import { TokenFile } from './credential-files.ts';
import { missing } from '@flashcore/shared/testing';

const LOOPBACK = { kind: 'tcp', host: '127.0.0.1', port: 0 } as const;
let folder: ReturnType<typeof temporaryFolder>;
let tls: string;
let mine: ClientSecurity & { authority: Buffer };
let foreign: ClientSecurity;

describe.skipIf(missing('openssl'))('access', () => {
  beforeAll(() => {
    folder = temporaryFolder();
    tls = join(folder.path, 'tls');
    initTls(tls, ['gpu-box', '10.1.2.3']);
    mine = clientOf(tls);
    initTls(join(folder.path, 'other'), []);
    foreign = clientOf(join(folder.path, 'other'));
  });
  afterAll(() => folder[Symbol.dispose]());

  const clientOf = (from: string) => ({
    authority: readFileSync(join(from, 'ca.crt')),
    certificate: readFileSync(join(from, 'client.crt')),
    key: readFileSync(join(from, 'client.key')),
  });
  const greet = (address: string, security?: ClientSecurity): Promise<unknown> =>
    RunnerClient.connect({ address, security }).then(
      (client) => {
        client.close();
        return 'let in';
      },
      ({ reason }: { reason: string }) => reason,
    );

  test('tls init makes keys that only their owner can read, and never overwrites existing ones', () => {
    expect(['ca.key', 'server.key', 'client.key', '.'].map((name) => statSync(join(tls, name)).mode & 0o777)).toEqual([
      0o600, 0o600, 0o600, 0o700,
    ]);
    expect(() => initTls(tls, [])).toThrow(/has certificates, .*: remove it first/);
    expect(() => initTls(join(folder.path, 'x'), ['a,DNS:evil'])).toThrow(
      '--host a,DNS:evil: must be a name or an address',
    );
  });

  test('a machine whose clock is hours behind accepts certificates that were just made', () => {
    const { certificate } = addClient(tls, { name: 'behind', role: 'submitter' });
    const hoursAgo = String(Math.round(Date.now() / 1000) - 12 * 3600);
    for (const path of [join(tls, 'server.crt'), join(tls, 'client.crt'), certificate]) {
      const asked = ['verify', '-attime', hoursAgo, '-CAfile', join(tls, 'ca.crt'), path];
      expect(execFileSync('openssl', asked, { encoding: 'utf8' })).toBe(`${path}: OK\n`);
    }
    const { subject, validTo, serialNumber } = new X509Certificate(readFileSync(certificate));
    expect(subject).toBe('OU=submitter\nCN=behind');
    expect((new Date(validTo).getTime() - Date.now()) / 86_400_000).toBeCloseTo(824, 0);
    expect(serialNumber).not.toBe(new X509Certificate(readFileSync(join(tls, 'client.crt'))).serialNumber);
  });

  test('with certificates, the runner accepts only clients of its own authority, and their streams work', async () => {
    await using fixture = await startTestRunner(
      { address: LOOPBACK, security: { folder: tls, clients: 'certificate' } },
      mine,
    );
    const { address } = fixture.runner;
    expect(finished(await collect(fixture.client.start('build', kernel('flood_5')))).outcome).toBe(Outcome.PASSED);
    const { certificate, key } = foreign;
    expect({
      noCertificate: await greet(address, { authority: mine.authority }),
      foreignCertificate: await greet(address, { authority: mine.authority, certificate, key }),
      foreignAuthority: await greet(address, foreign),
      serverAsClient: await greet(address, {
        authority: mine.authority,
        certificate: readFileSync(join(tls, 'server.crt')),
        key: readFileSync(join(tls, 'server.key')),
      }),
      plainText: await greet(address),
      again: await greet(address, mine),
    }).toEqual({
      noCertificate: 'UNAUTHENTICATED',
      foreignCertificate: 'UNAUTHENTICATED',
      foreignAuthority: 'UNAUTHENTICATED',
      serverAsClient: 'UNAUTHENTICATED',
      plainText: 'RUNNER_UNREACHABLE',
      again: 'let in',
    });
  });

  test('a refused client is told what to do', async () => {
    await using fixture = await startTestRunner(
      { address: LOOPBACK, security: { folder: tls, clients: 'certificate' } },
      mine,
    );
    await using plain = await startTestRunner({ address: LOOPBACK });
    const told = async (address: string, security?: ClientSecurity) =>
      (await RunnerClient.connect({ address, security }).catch((error: Error) => error)) as Error;
    const { address } = fixture.runner;
    expect((await told(address)).message).toContain(`fa-tui login ${address} --tls-ca ca.crt`);
    expect((await told(address, { authority: mine.authority })).message).toContain(
      '--tls-cert client.crt --tls-key client.key',
    );
    expect(
      (await told(address, { authority: mine.authority, certificate: foreign.certificate, key: foreign.key })).message,
    ).toContain('your certificate was refused');
    expect((await told(address, {})).message).toContain('another authority signed its certificate');
    expect((await told(address, foreign)).message).toContain('another authority signed its certificate');
    expect((await told(plain.runner.address, mine)).message).toContain('speaks plain text');
    expect((await told(address, { ...mine, key: foreign.key })).message).toContain('belong together');
    initTls(join(folder.path, 'unnamed'), []);
    await using open = await startTestRunner(
      {
        address: { ...LOOPBACK, host: '127.0.0.2' },
        security: { folder: join(folder.path, 'unnamed'), clients: 'certificate' },
      },
      clientOf(join(folder.path, 'unnamed')),
    ).catch((error: Error) => ({ error, [Symbol.asyncDispose]: () => Promise.resolve() }));
    expect((open as { error: Error }).error.message).toContain('tls init --host 127.0.0.2');
  });

  describe('by token', () => {
    test('an expired token is refused, and a token stored without an expiry date still works', () => {
      using data = temporaryFolder();
      const DAY_MS = 86_400_000;
      let nowMs = Date.parse('2026-01-01T00:00:00Z');
      const file = new TokenFile(data.path, () => nowMs);
      const [ada, bob] = [file.add('ada', { hours: 720 }), file.add('bob')];
      const opens = (afterDays: number): boolean[] => {
        nowMs = Date.parse('2026-01-01T00:00:00Z') + afterDays * DAY_MS;
        return [ada, bob].map((token) => file.find(token) !== undefined);
      };
      expect([opens(0), opens(29.99), opens(30), opens(364.99), opens(365)]).toEqual([
        [true, true],
        [true, true],
        [false, true],
        [false, true],
        [false, false],
      ]);
      expect(file.list().map(({ expires }) => expires)).toEqual([
        '2026-01-31T00:00:00.000Z',
        '2027-01-01T00:00:00.000Z',
      ]);
      const stored = JSON.parse(readFileSync(join(data.path, 'tokens.json'), 'utf8')) as { expires?: string }[];
      stored.forEach((each) => delete each.expires);
      writeFileSync(join(data.path, 'tokens.json'), JSON.stringify(stored));
      expect(opens(10_000)).toEqual([true, true]);
    });

    test('a name can get a new token only after its previous token has expired', () => {
      using data = temporaryFolder();
      let nowMs = Date.parse('2026-01-01T00:00:00Z');
      const file = new TokenFile(data.path, () => nowMs);
      const first = file.add('ci', { hours: 1 });
      nowMs += 3_599_999;
      expect(() => file.add('ci', { hours: 1 })).toThrow('ci has a token');
      nowMs += 1;
      const second = file.add('ci', { hours: 1, role: 'viewer' });
      expect([file.find(first), file.find(second), file.list().length]).toEqual([
        undefined,
        { name: 'ci', role: 'viewer' },
        1,
      ]);
    });

    test('every call needs a known token, a revoked token is refused, and tokens.json does not contain the tokens', async () => {
      using data = temporaryFolder();
      const tokens = new TokenFile(data.path);
      const token = tokens.add('ada');
      await using fixture = await startTestRunner(
        { dataDirectory: data.path, address: LOOPBACK, security: { folder: tls, clients: 'token' } },
        { authority: mine.authority, token },
      );
      const { address } = fixture.runner;
      const { authority } = mine;
      expect([
        await greet(address, { authority, token }),
        await greet(address, { authority, token: `${token}x` }),
        await greet(address, { authority }),
        await greet(address, { authority, token: token.toUpperCase() }),
      ]).toEqual(['let in', 'UNAUTHENTICATED', 'UNAUTHENTICATED', 'UNAUTHENTICATED']);
      expect(readFileSync(join(data.path, 'tokens.json'), 'utf8')).not.toContain(token.slice(4));
      expect(statSync(join(data.path, 'tokens.json')).mode & 0o777).toBe(0o600);
      const other = tokens.add('bob');
      tokens.revoke('ada');
      expect([await greet(address, { authority, token }), await greet(address, { authority, token: other })]).toEqual([
        'UNAUTHENTICATED',
        'let in',
      ]);
      await expect(fixture.client.listJobs()).rejects.toMatchObject({
        reason: 'UNAUTHENTICATED',
        message: expect.stringContaining('flashcore-runner token add') as string,
      });
    });

    test('without a token, health checks, reflection, unknown methods and malformed requests get no answer', async () => {
      using data = temporaryFolder();
      const token = new TokenFile(data.path).add('ada');
      await using fixture = await startTestRunner(
        { dataDirectory: data.path, address: LOOPBACK, security: { folder: tls, clients: 'token' } },
        { authority: mine.authority, token },
      );
      const raw = new Client(fixture.runner.address, credentials.createSsl(mine.authority));
      const call = (path: string, bytes = Buffer.alloc(0)) =>
        new Promise((resolve) => {
          raw.makeUnaryRequest(
            path,
            (value: Buffer) => value,
            (value) => value,
            bytes,
            new Metadata(),
            { deadline: Date.now() + 5_000 },
            (error: ServiceError | null) => resolve(status[error?.code ?? status.OK]),
          );
        });
      const service = '/flashcore.runner.v1.KernelRunnerService';
      expect(
        await Promise.all([
          call('/grpc.health.v1.Health/Check'),
          call(`${service}/GetHost`),
          call(`${service}/GetJob`, Buffer.from([0xff])),
          call(`${service}/Build`, Buffer.from([0xff])),
          call('/grpc.reflection.v1.ServerReflection/ServerReflectionInfo'),
        ]),
      ).toEqual(Array.from({ length: 5 }, () => 'UNAUTHENTICATED'));
      raw.close();
    });
  });

  test('addresses that other machines can reach require certificates, and serve reflection only on request', () => {
    const parse = (...flags: string[]) =>
      parseOptions(['serve', '--data', join(folder.path, 'd'), ...flags], {
        version: '1',
        repositoryRoot: '/r',
        environment: {},
      });
    expect(() => parse('--address', '0.0.0.0:1')).toThrow(/tls init/);
    expect(parse('--address', '0.0.0.0:1', '--tls', tls)).toMatchObject({
      security: { folder: tls, clients: 'certificate' },
      reflection: false,
    });
    expect(parse('--address', 'gpu-box:1', '--tls', tls, '--reflection')).toMatchObject({ reflection: true });
    expect(parse('--address', '127.0.0.1:1')).toMatchObject({ security: undefined, reflection: true });
    expect(() => parse('--address', '0.0.0.0:1', '--tls', tls, '--clients', 'token')).toThrow(/token add/);
  });
});
