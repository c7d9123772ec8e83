import type { CaseResult, SdpaComparison, VerifyResult } from '@flashcore/shared/contract';
import type { ReportFormat } from './format.ts';
import { count, figure, shapeText, small } from './numbers.ts';
import { table, type Cell } from './table.ts';
import { paragraph } from './text.ts';
import { notMeasured } from '../present/words.ts';

/** A case's table row shows the first of these that took it: the backend that is nearest to these kernels in kind. */
const SHOWN_FIRST = ['sdpa/flash', 'sdpa/cudnn', 'sdpa/efficient', 'sdpa/math'];

const COLUMNS = [
  { title: 'beside SDPA', shrinks: true },
  { title: 'backend' },
  { title: 'max diff', align: 'right' as const },
  { title: 'mean diff', align: 'right' as const },
  { title: 'max err', align: 'right' as const },
  { title: 'ours', align: 'right' as const },
  { title: 'mean err', align: 'right' as const },
  { title: 'ours', align: 'right' as const },
];

/**
 * The output beside that of PyTorch's SDPA on the same inputs: their difference, and the errors of both against the
 * fp64 reference.
 */
export function sdpaSection({ cases }: VerifyResult, format: ReportFormat): string[] {
  const compared = cases.filter(({ sdpa }) => measured(sdpa).length > 0);
  if (compared.length === 0) {
    const missing = cases.find(({ sdpaMissing }) => sdpaMissing)?.sdpaMissing;
    return missing === undefined ? [] : paragraph(`beside SDPA: ${notMeasured(missing)}`, format, 2, 'dim');
  }
  const shown = compared.map((result) => ({ result, backend: nearest(result) }));
  const inputs = Math.max(...shown.map(({ backend }) => backend.inputs));
  return [
    ...table(
      COLUMNS,
      shown.map(({ result, backend }) => row(result, backend)),
      format,
    ),
    ...paragraph(
      `diff: ours to SDPA's, on the same ${count(inputs, 'input')} a case; err: SDPA's to the fp64 reference; ours: the kernel's error over SDPA's, below 1 is nearer; ${shown[0]!.backend.version}`,
      format,
      2,
      'dim',
    ),
    ...summaries(compared).flatMap((line) => paragraph(line, format, 2, 'dim')),
  ];
}

function row(result: CaseResult, backend: SdpaComparison): Cell[] {
  return [
    shapeText(result.shape),
    backend.backend.replace('sdpa/', ''),
    small(backend.maxAbsDifference),
    small(backend.meanAbsDifference),
    small(backend.sdpaMaxAbsError),
    ratio(backend.maxAbsError, backend.sdpaMaxAbsError),
    small(backend.sdpaMeanAbsError),
    ratio(backend.meanAbsError, backend.sdpaMeanAbsError),
  ];
}

/** A line each backend: the cases it took, and the kernel's mean error over its own in them. */
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
        : `; mean error x${figure(Math.min(...ratios), 3)} to x${figure(Math.max(...ratios), 3)}`;
    return [
      `${name}, ${count(of.length, 'case')}: largest difference ${small(Math.max(...of.map(({ maxAbsDifference }) => maxAbsDifference)))}${range}`,
    ];
  });
}

const measured = (sdpa: readonly SdpaComparison[]): SdpaComparison[] =>
  sdpa.filter(({ missing }) => missing === undefined);

function nearest({ sdpa }: CaseResult): SdpaComparison {
  const candidates = measured(sdpa);
  return candidates.toSorted((a, b) => SHOWN_FIRST.indexOf(a.backend) - SHOWN_FIRST.indexOf(b.backend))[0]!;
}

const ratio = (ours: number, its: number): string => (its > 0 ? `x${figure(ours / its, 3)}` : '-');
