/**
 * Bad input for each RPC, against the real pipeline. The right status must come within a second, without a hang,
 * UNKNOWN, a stack trace or a path of the host.
 */
import { status, type ServiceError } from '@grpc/grpc-js';
import { create, toBinary } from '@bufbuild/protobuf';
import { createPlanner, startTestRunner, type TestRunner } from '@flashcore/runner/testing-daemon';
import { errorFromStatus, hasErrorDetails, KernelRunnerService } from '@flashcore/shared/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { rows, wire } from '../support/bad-requests.ts';
import { RawClient, type RawAnswer } from '../support/raw-call.ts';

let fixture: TestRunner;
let raw: RawClient;
beforeAll(async () => {
  fixture = await startTestRunner({ createPlanner });
  raw = new RawClient(fixture.runner.address);
});
afterAll(async () => {
  raw[Symbol.dispose]();
  await fixture[Symbol.asyncDispose]();
});

test.each(rows)('%s: %s', async (_what, rpc, request, ...wanted) => {
  const { input } = KernelRunnerService.method[rpc];
  const answer = await raw.call(rpc, [Buffer.from(toBinary(input, create(input, request as never)))]);
  expect(summary(answer)).toEqual(wanted);
  expectHarmless(answer);
});

test.each(wire)('a request that only bytes can express is refused: %s', async (_what, rpc, hex, ...wanted) => {
  const answer = await raw.call(rpc, [Buffer.from(hex, 'hex')]);
  expect(summary(answer)).toEqual(wanted);
  expectHarmless(answer);
});

test('a request of more than 16 MiB is RESOURCE_EXHAUSTED, and the connection still works', async () => {
  expect((await raw.call('getJob', [Buffer.alloc(17 * 1024 * 1024)])).code).toBe(status.RESOURCE_EXHAUSTED);
  expect(await raw.health()).toBeLessThan(5_000);
});

test('no bad input started a job', async () => {
  expect((await fixture.client.listJobs()).jobs).toEqual([]);
});

/** The reason and then the fields, in the status's order. A status with many fields names only the first few. */
function summary({ code, details, metadata }: RawAnswer): string[] {
  const error = Object.assign(new Error(details), { code, details, metadata }) as ServiceError;
  if (code === status.OK || !hasErrorDetails(error)) return [status[code], details];
  const { reason, violations } = errorFromStatus(error);
  return [reason, ...violations.map(({ field }) => field)];
}

function expectHarmless({ code, details, cpuSeconds, metadata }: RawAnswer): void {
  expect([status.UNKNOWN, status.INTERNAL, status.DEADLINE_EXCEEDED], details).not.toContain(code);
  expect(cpuSeconds).toBeLessThan(1);
  expect(details).not.toMatch(/\n\s+at |file:\/\//);
  const whole = details + JSON.stringify(metadata?.getMap());
  for (const path of [fixture.dataDirectory, import.meta.dirname, '/node_modules/']) expect(whole).not.toContain(path);
}
