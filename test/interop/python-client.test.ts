/** The API from another language: Debian's Python gRPC client starts Build, drops the stream and watches again without gap or repeat. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Outcome } from '@flashcore/shared';
import { Home, ROOT } from '../support/home.ts';

interface Pieces {
  job: string;
  first: [number, string][];
  second: [number, string][];
  outcome: number;
}

const PYTHON = '/usr/bin/python3';
// On a laptop without the packages the test is shown as skipped; .ci/run installs them.
const hasGrpc = (() => {
  try {
    execFileSync(PYTHON, ['-c', 'import grpc, google.protobuf'], { stdio: 'ignore' });
    return true;
  } catch {
    if (process.env['CI']) throw new Error(`Wanted Debian's python3-grpcio and python3-protobuf for ${PYTHON}; .ci/run installs them`);
    return false;
  }
})();

test.skipIf(!hasGrpc).each([1, 2, 3, 5])('Build from Python, stream dropped after event %i, watched again', async (cutAfter) => {
  await using home = new Home();
  const { address } = await home.startDaemon();
  const descriptors = join(home.path, 'flashcore.binpb');
  execFileSync(join(ROOT, 'node_modules/.bin/buf'), ['build', '-o', descriptors], { cwd: ROOT });
  const output = execFileSync(PYTHON, [join(import.meta.dirname, 'watch_again.py'), address, descriptors, 'fa_v1_baseline', String(cutAfter)], { encoding: 'utf8' });
  const { first, second, outcome } = JSON.parse(output) as Pieces;
  const joined = [...first, ...second];
  expect(first).toHaveLength(cutAfter);
  expect(joined.map(([sequence]) => sequence)).toEqual(joined.map((_, index) => index + 1));
  expect([joined[0]![1], joined.at(-1)![1]]).toEqual(['created', 'finished']);
  expect(Outcome[outcome]).toBe('PASSED');
}, 60_000);
