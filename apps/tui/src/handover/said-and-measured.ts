/** Claims and projections in the notes of these jobs' kernels, next to the measurements. */
import type { Expectation, GetJobResponse } from '@flashcore/shared/contract';
import { chapter, notice, tableOf, type Block, type Column } from '../present/blocks.ts';
import { formatNumber } from '../present/numbers.ts';
import { isOfDevice, saidRange } from '../present/sections/plan.ts';
import { shapeShort, shortName } from '../present/words.ts';

interface Row {
  readonly job: string;
  readonly kernel: string;
  readonly said: Expectation;
}

/** One row for each job that measured the claimed figure; if no job measured it, one row that says so. */
export function saidAndMeasured(jobs: readonly GetJobResponse[]): Block[] {
  const rows = jobs.flatMap(({ job, result }) =>
    (result?.expectations ?? []).map((said): Row => ({ job: job!.name, kernel: job!.kernelId, said })),
  );
  const groups = Object.values(Object.groupBy(rows, keyOf)).map((group) => group!);
  const shown = groups.flatMap((group) => {
    const measured = group.filter(({ said }) => said.measured !== undefined);
    return measured.length > 0 ? measured : group.slice(0, 1);
  });
  if (shown.length === 0) return [];
  const isElsewhere = shown.some(({ said }) => said.measured !== undefined && !isOfDevice(said));
  return [
    chapter('What notes said'),
    ...(isElsewhere ? [notice('What is said of another device is not judged by this one.')] : []),
    tableOf(COLUMNS, shown),
  ];
}

const keyOf = ({ kernel, said: { device, shape, metric, low, high, kind, source } }: Row): string =>
  JSON.stringify([kernel, device, shapeShort(shape), metric, low, high, kind, source]);

const COLUMNS: readonly Column<Row>[] = [
  { title: 'kernel', cell: ({ kernel }) => kernel },
  { title: 'of', cell: ({ said: { metric, shape } }) => `${metric} ${shapeShort(shape)}` },
  { title: 'device', cell: ({ said }) => said.device },
  {
    title: 'said',
    align: 'right',
    cell: ({ said }) => `${saidRange(said)}${said.note === '' ? '' : ` (${said.note})`}`,
  },
  {
    title: 'by',
    cell: ({ said: { kind, source, neverMeasured } }) => `${source}, ${kind}${neverMeasured ? ', never measured' : ''}`,
  },
  {
    title: 'measured',
    align: 'right',
    cell: ({ said: { measured, unit, measuredOn } }) =>
      measured === undefined ? 'not measured' : `${formatNumber(measured)} ${unit} on ${measuredOn}`,
  },
  { title: 'judged', cell: ({ said }) => judged(said) },
  { title: 'job', cell: ({ job, said }) => (said.measured === undefined ? '' : shortName(job)) },
];

/**
 * A projected latency is met if the measured one is at most the upper end of the projection. For other claims and
 * metrics only the ratio is given.
 */
function judged(said: Expectation): string {
  const { measured, kind, low, high, metric } = said;
  if (measured === undefined) return 'not measured';
  if (!isOfDevice(said)) return 'not judged: another device';
  if (kind !== 'projected' || metric !== LATENCY)
    return low === high ? `${(measured / low).toFixed(2)} times what was said` : 'not judged';
  return measured <= high ? 'met' : `missed: ${(measured / high).toFixed(2)} times`;
}

/** The metric for which notes set goals; smaller is better. */
const LATENCY = 'latency_us';
