/**
 * The API from another language: Debian's Python gRPC client starts Build, drops the stream and resumes it without
 * missing or repeating an event.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Outcome } from '@flashcore/shared/contract';
import { Home } from '../support/home.ts';
import { runPython } from './python.ts';
import { missing } from '@flashcore/shared/testing';

interface Pieces {
  job: string;
  first: [number, string][];
  second: [number, string][];
  outcome: number;
}

const home = new Home();
let address: string;
beforeAll(async () => {
  if (!missing('python3-grpcio')) ({ address } = await home.startDaemon());
});
afterAll(() => home[Symbol.asyncDispose]());

test.skipIf(missing('python3-grpcio')).each([1, 2, 3, 4])(
  'Build from Python: the stream is dropped after event %i and resumed',
  async (cutAfter) => {
    const { first, second, outcome } = (await runPython('watch_again.py', ['fa_v1_baseline', String(cutAfter)], {
      folder: home.path,
      address,
    })) as Pieces;
    const joined = [...first, ...second];
    expect(first).toHaveLength(cutAfter);
    expect(joined.map(([sequence]) => sequence)).toEqual(joined.map((_, index) => index + 1));
    expect([joined[0]![1], joined.at(-1)![1]]).toEqual(['created', 'finished']);
    expect(Outcome[outcome]).toBe('PASSED');
  },
  60_000,
);
