/** SDPA measured without a kernel: one row per backend, with the same figures as for a kernel. */
import type { SdpaBenchmark, SdpaResult } from '@flashcore/shared/contract';
import { heading, notice, tableOf, type Block, type Column } from '../blocks.ts';
import { formatCount, formatMicroseconds, formatNumber, formatPercent } from '../numbers.ts';
import { p50IntervalText } from './timings.ts';
import { MODE_WORDS, notMeasured, caseText } from '../words.ts';

const time =
  (of: 'p50Us' | 'p90Us' | 'p99Us') =>
  ({ latency }: SdpaResult): string =>
    latency === undefined ? '-' : formatMicroseconds(latency[of], latency.p50Us);

const COLUMNS: readonly Column<SdpaResult>[] = [
  { title: 'backend', cell: ({ name }) => name },
  { title: 'p50', align: 'right', cell: time('p50Us') },
  {
    title: '95 % interval',
    align: 'right',
    drop: 3,
    cell: ({ latency }) => (latency === undefined ? '-' : p50IntervalText(latency)),
  },
  { title: 'p90', align: 'right', cell: time('p90Us') },
  {
    title: 'n',
    align: 'right',
    drop: 2,
    cell: ({ latency }) => (latency === undefined ? '-' : formatCount(latency.samples)),
  },
  { title: 'TFLOP/s', align: 'right', cell: ({ tflops }) => (tflops === undefined ? '-' : formatNumber(tflops)) },
  {
    title: 'of the roofline',
    align: 'right',
    drop: 1,
    cell: ({ rooflinePercent }) => (rooflinePercent === undefined ? '-' : formatPercent(rooflinePercent)),
  },
];

export const sdpaAloneBlocks = (benchmarks: readonly SdpaBenchmark[]): Block[] =>
  benchmarks.flatMap(({ shape, mode, backends, missing }) => [
    heading(`SDPA ${caseText(shape)} ${MODE_WORDS[mode]}`, backends[0]?.version ?? ''),
    ...(backends.length === 0 ? [] : [tableOf(COLUMNS, backends)]),
    ...(missing === '' ? [] : [notice(notMeasured(missing), 'dim')]),
  ]);

/** A line such as "2x8x512x64 hot: sdpa/cudnn p50 11.30 us, sdpa/flash p50 21.00 us". */
export function sdpaLine({ shape, mode, backends, missing }: SdpaBenchmark): string {
  const each = backends.map((backend) => `${backend.name} p50 ${time('p50Us')(backend)}`);
  return `${caseText(shape)} ${MODE_WORDS[mode]}: ${each.length === 0 ? notMeasured(missing) : each.join(', ')}`;
}
