import { expect, test } from 'vitest';
import { withCurrentNames } from './names.ts';

test("withCurrentNames() gives an old document's fields their current names and removes the prefixes of reasons, at every depth", () => {
  const old = {
    benchmarks: [{ baselines: [{ name: 'sdpa/flash' }], baselinesMissing: 'not measured: no PyTorch', p50: 1 }],
    text: 'not measured: said by a kernel',
    labels: { baselines: '' },
    reason: '',
    job: null,
  };
  expect(withCurrentNames(old)).toEqual({
    benchmarks: [{ sdpa: [{ name: 'sdpa/flash' }], sdpaMissing: 'no PyTorch', p50: 1 }],
    text: 'not measured: said by a kernel',
    labels: { baselines: '' },
    job: null,
  });
});
