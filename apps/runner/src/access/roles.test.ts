import { randomUUID } from 'node:crypto';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { toJsonString } from '@bufbuild/protobuf';
import { Client, Metadata, status, type ServiceError } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  RunnerClient,
  channelCredentials,
  tlsChannelOptions,
  type ClientSecurity,
  type RpcName,
} from '@flashcore/shared/client';
import { FlashcoreError, HostSchema, KernelRunnerService, type JobEvent } from '@flashcore/shared/contract';
import {
  REPOSITORY_ROOT,
  collect,
  firstEvent,
  kernel,
  startTestRunner,
  temporaryFolder,
} from '../testing/test-runner.ts';
import { startTokenRunner } from '../testing/token-runner.ts';
import { NO_CHAMPION } from '../store/decisions.ts';
import { addClient, clientCertificatePath, initTls } from './certificates.ts';
import { RevokedCertificates } from './credential-files.ts';
import { NEEDED, ROLES, ROLE_NAMES, type Role } from './roles.ts';
import { missing, until } from '@flashcore/shared/testing';

const LOOPBACK = { kind: 'tcp', host: '127.0.0.1', port: 0 } as const;

test('the table of roles names every RPC of the service and no others', () => {
  expect(Object.keys(NEEDED).sort()).toEqual(KernelRunnerService.methods.map(({ localName }) => localName).sort());
});

test("SECURITY.md's table of roles matches the code", () => {
  const rows = ROLE_NAMES.map((role) => {
    const allowed = (permission: string) => (ROLES[role] as readonly string[]).includes(permission);
    const rpcs = Object.entries(NEEDED)
      .filter(([, needed]) => allowed(needed))
      .map(([name]) => name[0]!.toUpperCase() + name.slice(1));
    return `| ${role} | ${ROLES[role].join(', ')} | ${rpcs.length === Object.keys(NEEDED).length ? `all${allowed('cancel-any') ? ', CancelJob and decisions also of others’ jobs' : ', CancelJob and decisions of its own jobs'}` : rpcs.join(', ')} |`;
  });
  const text = readFileSync(join(REPOSITORY_ROOT, 'SECURITY.md'), 'utf8').replace(/ +\|/g, ' |');
  expect(text).toContain(rows.join('\n'));
});

describe.skipIf(missing('openssl'))('over TLS', () => {
  let folder: ReturnType<typeof temporaryFolder>;
  let tls: string;
  let authority: Buffer;
  beforeAll(() => {
    folder = temporaryFolder();
    tls = join(folder.path, 'tls');
    initTls(tls, []);
    authority = readFileSync(join(tls, 'ca.crt'));
  });
  afterAll(() => folder[Symbol.dispose]());

  const tokenRunner = (options: Parameters<typeof startTokenRunner>[1] = {}) => startTokenRunner(tls, options);

  test('an RPC refuses exactly the roles that may not call it, before it reads the request, and names the needed role', async () => {
    await using runner = await tokenRunner();
    const { address } = runner.fixture.runner;
    for (const role of ROLE_NAMES) {
      const security = runner.securityOf(role);
      const raw = new Client(address, channelCredentials(address, security), tlsChannelOptions(address, security));
      const call = (path: string): Promise<string> =>
        new Promise((resolve) => {
          // No message type can parse these bytes, so a refusal must have come before parsing.
          raw.makeUnaryRequest(
            path,
            (bytes: Buffer) => bytes,
            (bytes) => bytes,
            Buffer.from([0xff]),
            new Metadata(),
            { deadline: Date.now() + 10_000 },
            (error: ServiceError | null) => resolve(status[error?.code ?? status.OK]),
          );
        });
      const answers = await Promise.all(
        KernelRunnerService.methods.map(
          async ({ name, localName }) => [localName, await call(`/${KernelRunnerService.typeName}/${name}`)] as const,
        ),
      );
      const refused = answers.filter(([, answer]) => answer === 'PERMISSION_DENIED').map(([name]) => name);
      expect(refused, role).toEqual(
        KernelRunnerService.methods
          .map(({ localName }) => localName)
          .filter((name) => !(ROLES[role] as readonly string[]).includes(NEEDED[name as RpcName])),
      );
      expect(
        answers.filter(([, answer]) => answer === 'UNAUTHENTICATED'),
        role,
      ).toEqual([]);
      raw.close();
    }
  });

  test("only a result's owner and admins may decide about it, and everybody sees who decided", async () => {
    await using runner = await tokenRunner();
    const [submitter, other, viewer, admin] = await Promise.all(
      ['submitter', 'other', 'viewer', 'admin'].map(runner.as),
    );
    const job = (await collect(submitter!.start('runExperiment', kernel('champion_7'))))[0]!.job;
    const refused = (client: RunnerClient) =>
      client.accept({ job, over: NO_CHAMPION }).then(
        () => undefined,
        (error: unknown) => (error as FlashcoreError).metadata,
      );
    expect(await refused(other!)).toEqual({ needed: 'decide-any', role: 'submitter' });
    expect(await refused(viewer!)).toEqual({ needed: 'decide-own', role: 'viewer' });
    await submitter!.accept({ job, over: NO_CHAMPION, note: 'first' });
    await admin!.reject({ job, note: 'not yet' });
    const { champions, decisions } = await viewer!.listChampions({ includeDecisions: true });
    expect(champions).toEqual([]);
    expect(decisions.map(({ client, note }) => [client, note])).toEqual([
      ['admin', 'not yet'],
      ['submitter', 'first'],
    ]);
  });

  test("only a job's owner and admins may cancel it, and everybody sees who owns it", async () => {
    await using runner = await tokenRunner();
    const [submitter, other, viewer, admin] = await Promise.all(
      ['submitter', 'other', 'viewer', 'admin'].map(runner.as),
    );
    const { job: name } = await firstEvent(submitter!.start('build', kernel('hang')));
    expect((await viewer!.getJob({ name })).job).toMatchObject({ owner: 'submitter' });
    const refused = (client: RunnerClient) =>
      client.cancelJob({ name }).then(
        () => 'cancelled',
        (error: FlashcoreError) => [error.reason, error.metadata, error.message],
      );
    expect(await refused(other!)).toEqual([
      'PERMISSION_DENIED',
      { needed: 'cancel-any', role: 'submitter' },
      "other is submitter and may not cancel a job of submitter (permission cancel-any): ask the runner's owner for the role admin",
    ]);
    expect(await refused(viewer!)).toMatchObject([
      'PERMISSION_DENIED',
      { needed: 'cancel-own', role: 'viewer' },
      expect.stringContaining('may not call CancelJob (permission cancel-own): ask'),
    ]);
    expect(await refused(submitter!)).toBe('cancelled');
    const { job: second } = await firstEvent(other!.start('build', kernel('hang')));
    await admin!.cancelJob({ name: second });
    expect([submitter!.caller, admin!.caller].map((caller) => `${caller!.name} ${caller!.role}`)).toEqual([
      'submitter submitter',
      'admin admin',
    ]);
    await expect(viewer!.start('build', kernel('ok')).next()).rejects.toMatchObject({
      reason: 'PERMISSION_DENIED',
      message: expect.stringContaining('submitter or admin') as string,
    });
  });

  test("a client's jobs and uploaded bytes are limited, without slowing others down", async () => {
    await using runner = await tokenRunner({
      quotas: { jobs: 2, callsPerSecond: 1000, uploadMibPerHour: 1, deviceHoursPerDay: 24 },
    });
    const [submitter, other] = await Promise.all(['submitter', 'other'].map(runner.as));
    const { job: first } = await firstEvent(submitter!.start('build', kernel('hang')));
    await firstEvent(submitter!.start('build', kernel('hang')));
    await expect(submitter!.start('build', kernel('ok')).next()).rejects.toMatchObject({
      reason: 'QUOTA_EXCEEDED',
      metadata: { quota: 'jobs', jobs: '2' },
      retryAfterSeconds: 5,
    });
    await firstEvent(other!.start('build', kernel('hang')));
    await submitter!.cancelJob({ name: first });
    await until(async () => (await submitter!.getJob({ name: first })).result !== undefined);
    await firstEvent(submitter!.start('build', kernel('hang')));

    await other!.uploadFolder(largeFolder('one'));
    await expect(other!.uploadFolder(largeFolder('two'))).rejects.toMatchObject({
      reason: 'QUOTA_EXCEEDED',
      metadata: { quota: 'upload' },
    });
  });

  test("a client's device time, used or promised, is limited, without slowing others down", async () => {
    await using runner = await tokenRunner({
      quotas: { jobs: 16, callsPerSecond: 1000, uploadMibPerHour: 1, deviceHoursPerDay: 24 },
    });
    const [submitter, other] = await Promise.all(['submitter', 'other'].map(runner.as));
    const hours = (count: number, kernelId = 'hang') => ({
      ...kernel(kernelId),
      options: { maxRunSeconds: count * 3600 },
    });
    const { job: first } = await firstEvent(submitter!.start('build', hours(20)));
    await expect(submitter!.start('build', hours(7 * 24)).next()).rejects.toMatchObject({
      reason: 'QUOTA_EXCEEDED',
      metadata: { quota: 'device', promised_seconds: '72000' },
      message: expect.stringContaining('may take 20.0 h more, and 24.0 h is the most') as string,
    });
    await firstEvent(submitter!.start('build', hours(4)));
    await firstEvent(other!.start('build', hours(24)));
    // Promised time that the job did not use is available again.
    await submitter!.cancelJob({ name: first });
    await until(async () => (await submitter!.getJob({ name: first })).result !== undefined);
    await firstEvent(submitter!.start('build', hours(19)));
    await expect(submitter!.start('build', hours(1)).next()).rejects.toMatchObject({ reason: 'QUOTA_EXCEEDED' });
  });

  test('request_ids are per client: two clients may use the same one and get separate jobs and decisions', async () => {
    await using runner = await tokenRunner({});
    const [submitter, other] = await Promise.all(['submitter', 'other'].map(runner.as));
    const options = { requestId: randomUUID() };
    const mine = finishedJob(await collect(submitter!.start('runExperiment', { ...kernel('champion_10'), options })));
    const theirs = finishedJob(await collect(other!.start('runExperiment', { ...kernel('champion_20'), options })));
    expect(theirs).not.toBe(mine);
    expect(finishedJob(await collect(submitter!.start('runExperiment', { ...kernel('champion_10'), options })))).toBe(
      mine,
    );
    const notes = [
      await submitter!.note({ job: mine, note: 'mine', ...options }),
      await other!.note({ job: theirs, note: 'theirs', ...options }),
      await submitter!.note({ job: mine, note: 'mine', ...options }),
    ];
    expect(notes.map(({ decision }) => `${decision!.number} ${decision!.note}`)).toEqual([
      '1 mine',
      '2 theirs',
      '1 mine',
    ]);
  });

  test("a client on another machine does not learn where the runner's files are", async () => {
    await using runner = await tokenRunner({});
    const admin = await runner.as('admin');
    expect(toJsonString(HostSchema, admin.host)).not.toContain(runner.fixture.dataDirectory);
  });

  test("a client's call rate is limited, without slowing others down", async () => {
    await using runner = await tokenRunner({
      quotas: { jobs: 2, callsPerSecond: 2, uploadMibPerHour: 1, deviceHoursPerDay: 24 },
    });
    const [submitter, other] = await Promise.all(['submitter', 'other'].map(runner.as));
    const calls = await Promise.all(
      Array.from({ length: 40 }, () =>
        submitter!.listJobs().then(
          () => 'ok',
          (error: FlashcoreError) => error,
        ),
      ),
    );
    const over = calls.filter((call) => call !== 'ok') as FlashcoreError[];
    expect(over.length).toBeGreaterThan(10);
    expect(over[0]).toMatchObject({
      reason: 'QUOTA_EXCEEDED',
      metadata: { quota: 'calls' },
      retryAfterSeconds: 1,
      message: expect.stringContaining('2 calls a second') as string,
    });
    await other!.listJobs();
  });

  /** The job of a stream that was read to its end. */
  const finishedJob = (events: readonly JobEvent[]): string => events.at(-1)!.job;

  /** A kernel folder of 0.7 MiB. */
  function largeFolder(name: string): string {
    const path = join(folder.path, name);
    cpSync(join(REPOSITORY_ROOT, 'kernels/fa_v1_baseline'), path, { recursive: true });
    writeFileSync(join(path, `${name}.cu`), `// ${name} ${'x'.repeat(0.7 * 1024 ** 2)}`);
    return path;
  }

  test('certificates carry name and role, and a revoked certificate is refused from the next call on', async () => {
    const clientOf = (name: string, role: Role) => {
      const { certificate, key } = addClient(tls, { name, role });
      return { authority, certificate: readFileSync(certificate), key: readFileSync(key) };
    };
    const first = {
      authority,
      certificate: readFileSync(join(tls, 'client.crt')),
      key: readFileSync(join(tls, 'client.key')),
    };
    const grace = clientOf('grace@gpu', 'admin');
    const vic = clientOf('vic', 'viewer');
    await using fixture = await startTestRunner(
      { address: LOOPBACK, security: { folder: tls, clients: 'certificate' } },
      first,
    );
    const { address } = fixture.runner;
    const connect = (security: ClientSecurity) => RunnerClient.connect({ address, security });
    using admin = await connect(grace);
    using viewer = await connect(vic);
    expect(
      [fixture.client.caller, admin.caller, viewer.caller].map((caller) => `${caller!.name} ${caller!.role}`),
    ).toEqual(['client submitter', 'grace@gpu admin', 'vic viewer']);
    await expect(viewer.findMissingSources({ files: [] })).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' });
    const { job: name } = await firstEvent(fixture.client.start('build', kernel('hang')));
    await admin.cancelJob({ name });

    const revoked = new RevokedCertificates(fixture.dataDirectory);
    expect(revoked.add(clientCertificatePath(tls, 'grace@gpu'))).toBe('OU=admin, CN=grace@gpu');
    await expect(admin.listJobs()).rejects.toMatchObject({
      reason: 'UNAUTHENTICATED',
      message: expect.stringContaining('this one was revoked') as string,
    });
    await viewer.listJobs();
    expect(() => revoked.add(join(tls, 'client.key'))).toThrow('is not a certificate');
    expect(() => addClient(tls, { name: 'vic', role: 'admin' })).toThrow('another name');
    expect(() => addClient(tls, { name: 'local', role: 'admin' })).toThrow('and not "local"');
    expect(() => addClient(join(tls, 'clients'), { name: 'x', role: 'admin' })).toThrow('no ca.key');
  });
});
