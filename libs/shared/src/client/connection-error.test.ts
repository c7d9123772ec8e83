import { status, type ServiceError } from '@grpc/grpc-js';
import { expect, test } from 'vitest';
import { connectionError } from './connection-error.ts';

/** The error text for a connection that failed with these details. */
function textFor(address: string, details: string, { secured = false } = {}): string {
  const cause = Object.assign(new Error(details), { code: status.UNAVAILABLE, details }) as unknown as ServiceError;
  return connectionError({ address, secured, withCertificate: false }, cause).message;
}

test.each([
  ['127.0.0.1:50051', 'start one with "flashcore-runner serve --address 127.0.0.1:50051", or name another address'],
  // Without TLS, serve refuses a host's address, so the text must not suggest it.
  [
    'gpu-box:50051',
    'look on gpu-box whether one serves (with TLS: "flashcore-runner serve --address 0.0.0.0:50051") and no firewall is between, or name another address',
  ],
])('the error says that nothing answers at %s, and how to start a runner there', (address, remedy) => {
  expect(textFor(address, `connect ECONNREFUSED ${address}`)).toBe(
    `No runner at ${address}, nothing answers there (connect ECONNREFUSED ${address}): ${remedy}`,
  );
});

test('a name that no name server knows gets no advice to start a runner', () => {
  expect(textFor('nohost:50051', 'Name resolution failed for target dns:nohost:50051')).toBe(
    "No name server knows nohost (Name resolution failed for target dns:nohost:50051): correct the host's name, or use its IP address",
  );
});

test('a client with a login learns that a runner without TLS needs no login', () => {
  expect(textFor('127.0.0.1:50051', 'SSL routines:wrong version number', { secured: true })).toContain(
    'a runner without TLS needs no login (fa-tui --runner 127.0.0.1:50051;',
  );
});

test('the error names an expired certificate, whatever the runner answers', () => {
  const cause = Object.assign(new Error('reset'), {
    code: status.UNAVAILABLE,
    details: 'read ECONNRESET',
  }) as unknown as ServiceError;
  const attempt = { address: 'gpu:1', secured: true, withCertificate: true };
  const textOf = (certificateEnds: Date): string => connectionError({ ...attempt, certificateEnds }, cause).message;
  expect(textOf(new Date('2026-01-02T03:04:05Z'))).toMatch(
    /^Your certificate for gpu:1 expired at 2026-01-02T03:04Z: get another .*tls client <name>.*fa-tui login gpu:1/,
  );
  expect(textOf(new Date(Date.now() + 60_000))).not.toContain('expired');
});
