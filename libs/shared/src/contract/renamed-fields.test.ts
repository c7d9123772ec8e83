import { expect, test } from 'vitest';
import { withCurrentNames } from './renamed-fields.ts';

test('withCurrentNames() gives the fields of an old document their present names, at every depth', () => {
  const old = { benchmarks: [{ baselines: [{ name: 'sdpa/flash' }], baselinesMissing: '', p50: 1 }], job: null };
  expect(withCurrentNames(old)).toEqual({
    benchmarks: [{ sdpa: [{ name: 'sdpa/flash' }], sdpaMissing: '', p50: 1 }],
    job: null,
  });
});
