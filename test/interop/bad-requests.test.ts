/** Python's gRPC sends the table of bad and duplicate requests, and must get the same answers as grpc-js. */
import { create, toBinary, toJson, type DescMessage } from '@bufbuild/protobuf';
import { createPlanner, startTestRunner } from '@flashcore/runner/testing-daemon';
import { KernelRunnerService } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { rows, wire } from '../support/bad-requests.ts';
import { runPython } from './python.ts';
import { missing } from '@flashcore/shared/testing';

interface Answer {
  code: string;
  reason: string;
  fields: string[];
  seconds: number;
  details: string;
  /** The job's name in the first event. */
  first: string;
}

test.skipIf(missing('python3-grpcio'))(
  'bad requests from Python get the same status, reason and fields, within a second',
  async () => {
    await using fixture = await startTestRunner({
      createPlanner,
      address: { kind: 'tcp', host: '127.0.0.1', port: 0 },
    });
    const sent = [
      ...rows.map(([what, rpc, request, ...wanted]) => ({
        what: `${what}: ${rpc}`,
        rpc,
        wanted,
        ...requestOf(rpc, request),
      })),
      ...wire.map(([what, rpc, bytes, ...wanted]) => ({ what: `on the wire: ${what}`, rpc, wanted, bytes })),
    ];
    const input = JSON.stringify(
      sent.map(({ rpc, what: _what, wanted: _wanted, ...row }) => ({
        rpc: KernelRunnerService.method[rpc].name,
        ...row,
      })),
    );
    const answers = (await runPython('bad_requests.py', [], {
      folder: fixture.dataDirectory,
      address: fixture.runner.address,
      input,
    })) as Answer[][];
    expect(sent.map(({ what }, index) => [what, answers[index]![0]!.reason, ...answers[index]![0]!.fields])).toEqual(
      sent.map(({ what, wanted }) => [what, ...wanted]),
    );
    const all = answers.flat();
    expect(all.filter(({ code }) => ['OK', 'UNKNOWN', 'INTERNAL', 'DEADLINE_EXCEEDED'].includes(code))).toEqual([]);
    expect(Math.max(...all.map(({ seconds }) => seconds))).toBeLessThan(1);
    expect(all.map(({ details }) => details).join('\n')).not.toMatch(/\n\s+at |file:\/\/|node_modules/);
  },
  60_000,
);

/**
 * The request in the proto's JSON mapping, or as bytes if Python's reader does not accept that JSON. It accepts a NaN
 * as a string, but not an unknown number of an enum.
 */
function requestOf(
  rpc: (typeof rows)[number][1],
  request: (typeof rows)[number][2],
): { bytes: string } | { request: unknown } {
  const schema: DescMessage = KernelRunnerService.method[rpc].input;
  const message = create(schema, request as never);
  try {
    return { request: toJson(schema, message) };
  } catch {
    return { bytes: Buffer.from(toBinary(schema, message)).toString('hex') };
  }
}

test.skipIf(missing('python3-grpcio'))(
  'sixteen copies of a request from Python, sent at once, are one job',
  async () => {
    await using fixture = await startTestRunner({ address: { kind: 'tcp', host: '127.0.0.1', port: 0 } });
    const request = {
      kernel: { kernelId: 'flood_20' },
      options: { requestId: '0f8fad5b-d9cb-469f-a165-70867728950e' },
    };
    const other = { ...request, kernel: { kernelId: 'ok' } };
    const input = JSON.stringify([
      { rpc: 'Build', request, copies: 16 },
      { rpc: 'Build', request: other },
    ]);
    const [copies, refused] = (await runPython('bad_requests.py', [], {
      folder: fixture.dataDirectory,
      address: fixture.runner.address,
      input,
    })) as [Answer[], Answer[]];
    expect([
      copies.length,
      new Set(copies.map(({ first }) => first)).size,
      new Set(copies.map(({ code }) => code)),
    ]).toEqual([16, 1, new Set(['OK'])]);
    expect(refused[0]).toMatchObject({ code: 'ALREADY_EXISTS', reason: 'REQUEST_ID_REUSED' });
  },
  60_000,
);
