import { expect, test } from 'vitest';
import { printedRows } from './printed.ts';

const PRINTED = `=== shapes
[  26.1 s] exit 0  ./fa-tui bench flashcore_v11 --json --max-seconds 2 --shape 1x8x512x64c
  flashcore_v11 SMS=132 fallback=False findings=[]
    COLD  p50 9.34 [8.90 9.38] n=2000 dropped=0 STOP_REASON_NOISE_FLOOR valid=True  empty=2.40 missing= check=right
      sdpa/cudnn 11.46 n=711 x1.226 [1.222 1.288]; sdpa/flash 14.40 n=877 x1.541 [1.536 1.619]
      {"smClockMhz": 1950.4}
    HOT   p50 5.53 [5.52 5.53] n=115 dropped=55 STOP_REASON_CONVERGED valid=False 55 of 170 samples were dropped, because the device slowed down empty=1.28 missing= check=right
      sdpa/cudnn 8.96 n=50 x1.619 [1.619 1.622]
=== kernels
[  10.7 s] exit 1  ./fa-tui run flashcore_v11 --json
    COLD  p50 9.90 [9.42 9.95] n=2000 dropped=0 STOP_REASON_NOISE_FLOOR valid=True  empty=1.28 missing= check=right
`;

test('printed measurements: cold then hot of every shape of the command, with baselines and why one is not valid', () => {
  expect(printedRows(PRINTED)).toEqual([
    {
      shape: '1x8x512x64c', kernel: 'flashcore_v11', mode: 'cold', p50Us: 9.34, interval: [8.9, 9.38], samples: 2000, dropped: 0, invalid: '',
      baselines: [{ name: 'sdpa/cudnn', speedup: 1.226, interval: [1.222, 1.288] }, { name: 'sdpa/flash', speedup: 1.541, interval: [1.536, 1.619] }],
    },
    {
      shape: '1x8x512x64c', kernel: 'flashcore_v11', mode: 'hot', p50Us: 5.53, interval: [5.52, 5.53], samples: 115, dropped: 55,
      invalid: '55 of 170 samples were dropped, because the device slowed down', baselines: [{ name: 'sdpa/cudnn', speedup: 1.619, interval: [1.619, 1.622] }],
    },
  ]);
});

test('a run that ended in the middle of a command is refused, and so is an order that is not the command\'s', () => {
  const [head] = PRINTED.split('    HOT ');
  expect(() => printedRows(`${head}=== kernels\n[ 1.0 s] exit 0  ./fa-tui host\n`)).toThrow(/Wanted 1 more measurements of flashcore_v11/);
  expect(() => printedRows(PRINTED.replace('    COLD ', '    HOT  '))).toThrow(/Wanted 1x8x512x64c cold, found line 4/);
});
