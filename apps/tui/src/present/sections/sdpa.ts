/**
 * The kernel's output against that of PyTorch's SDPA on the same inputs: their difference, and the errors of both
 * against the fp64 reference.
 */
import type { CaseResult, SdpaComparison } from '@flashcore/shared/contract';
import { notice, tableOf, type Block, type Column } from '../blocks.ts';
import { counted, formatError, formatNumber } from '../numbers.ts';
import { notMeasured, shapeShort } from '../words.ts';

/**
 * The case's row shows the first backend of this list that computed the case. The list starts with the backend most
 * similar to these kernels.
 */
const SHOWN_FIRST = ['sdpa/flash', 'sdpa/cudnn', 'sdpa/efficient', 'sdpa/math'];

interface Compared {
  readonly result: CaseResult;
  readonly backend: SdpaComparison;
}

const COLUMNS: readonly Column<Compared>[] = [
  { title: 'next to SDPA', cell: ({ result }) => shapeShort(result.shape) },
  { title: 'backend', cell: ({ backend }) => backend.backend.replace('sdpa/', '') },
  { title: 'max diff', align: 'right', cell: ({ backend }) => formatError(backend.maxAbsDifference) },
  { title: 'mean diff', align: 'right', cell: ({ backend }) => formatError(backend.meanAbsDifference) },
  { title: 'max err', align: 'right', cell: ({ backend }) => formatError(backend.sdpaMaxAbsError) },
  { title: 'ours', align: 'right', cell: ({ backend }) => ratioText(backend.maxAbsError, backend.sdpaMaxAbsError) },
  { title: 'mean err', align: 'right', cell: ({ backend }) => formatError(backend.sdpaMeanAbsError) },
  { title: 'ours', align: 'right', cell: ({ backend }) => ratioText(backend.meanAbsError, backend.sdpaMeanAbsError) },
];

const ratioText = (ours: number, its: number): string => (its > 0 ? `x${formatNumber(ours / its, 3)}` : '-');

export function sdpaBlocks(cases: readonly CaseResult[]): Block[] {
  const compared = cases.filter(({ sdpa }) => measured(sdpa).length > 0);
  if (compared.length === 0) {
    const missing = cases.find(({ sdpaMissing }) => sdpaMissing)?.sdpaMissing;
    return missing === undefined ? [] : [notice(`next to SDPA: ${notMeasured(missing)}`, 'dim')];
  }
  const shown = compared.map((result): Compared => ({ result, backend: nearest(result) }));
  const inputs = Math.max(...shown.map(({ backend }) => backend.inputs));
  const legend = `diff: ours to SDPA's, on the same ${counted(inputs, 'input')} a case; err: SDPA's to the fp64 reference; ours: the kernel's error over SDPA's, below 1 is nearer; ${shown[0]!.backend.version}`;
  return [tableOf(COLUMNS, shown), notice(legend, 'dim'), ...summaries(compared).map((text) => notice(text, 'dim'))];
}

/**
 * One line per backend: the cases that it handled, and the kernel's mean error relative to the backend's in those
 * cases.
 */
function summaries(cases: readonly CaseResult[]): string[] {
  return SHOWN_FIRST.flatMap((name) => {
    const of = cases.flatMap(({ sdpa }) => measured(sdpa).filter(({ backend }) => backend === name));
    if (of.length === 0) return [];
    const ratios = of
      .filter(({ sdpaMeanAbsError }) => sdpaMeanAbsError > 0)
      .map(({ meanAbsError, sdpaMeanAbsError }) => meanAbsError / sdpaMeanAbsError);
    const range =
      ratios.length === 0
        ? ''
        : `; mean error x${formatNumber(Math.min(...ratios), 3)} to x${formatNumber(Math.max(...ratios), 3)}`;
    const largest = formatError(Math.max(...of.map(({ maxAbsDifference }) => maxAbsDifference)));
    return [`${name}, ${counted(of.length, 'case')}: largest difference ${largest}${range}`];
  });
}

const measured = (sdpa: readonly SdpaComparison[]): SdpaComparison[] =>
  sdpa.filter(({ missing }) => missing === undefined);

const nearest = ({ sdpa }: CaseResult): SdpaComparison =>
  measured(sdpa).toSorted((a, b) => SHOWN_FIRST.indexOf(a.backend) - SHOWN_FIRST.indexOf(b.backend))[0]!;

/** A backend's result for one case, in a line. */
export const backendText = (backend: SdpaComparison): string =>
  backend.missing === undefined
    ? `${backend.backend} off by at most ${formatError(backend.maxAbsDifference)}; errors max ${formatError(backend.maxAbsError)} (its ${formatError(backend.sdpaMaxAbsError)}), mean ${formatError(backend.meanAbsError)} (its ${formatError(backend.sdpaMeanAbsError)})`
    : `${backend.backend} ${notMeasured(backend.missing)}`;
