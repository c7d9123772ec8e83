/** The final report of chosen jobs as Markdown: figures, parity, gates, cost; each row names its job. */
import { Verdict, type GetJobResponse, type VariantResult } from '@flashcore/shared/contract';
import { figuresOf, type Figure } from './figures.ts';

/** A table for each protocol and device: figures of two are never in one. */
export function finalReport(jobs: readonly GetJobResponse[]): string {
  const figures = figuresOf(jobs);
  const groups = [...Map.groupBy(figures, placeOf)].map(([place, rows]) => `## ${place}\n\n${latencyTable(rows)}`);
  return [
    '# Final report',
    ...(groups.length > 0 ? groups : ['Nothing was measured in these jobs.']),
    `## What each job found\n\n${jobTable(jobs)}`,
    '',
  ].join('\n\n');
}

function placeOf({ provenance, benchmark }: Figure): string {
  const device = provenance?.device?.name ?? 'unknown device';
  return benchmark.simulated ? `${device}, simulated: no GPU times` : `${device}, ${provenance?.protocol ?? ''}`;
}

function latencyTable(figures: readonly Figure[]): string {
  const head = ['kernel', 'shape', 'mode', 'p50 us', '95 % interval', 'p90 us', 'TFLOP/s', 'SDPA', 'speed-up', 'job'];
  const rows = figures.flatMap((figure) => {
    const { benchmark } = figure;
    const { p50Us, p50LowUs, p50HighUs, p90Us } = benchmark.latency!;
    const valid = benchmark.valid ? '' : ` (**not valid**: ${benchmark.invalidReason ?? ''})`;
    const cells = [
      figure.kernel,
      figure.shape,
      figure.mode,
      `${digits(p50Us)}${valid}`,
      `${digits(p50LowUs)} to ${digits(p50HighUs)}`,
      digits(p90Us),
      benchmark.tflops === undefined ? 'not measured' : digits(benchmark.tflops),
    ];
    const sdpa = benchmark.sdpa.map(({ name, speedup, speedupLow, speedupHigh }) => [
      name,
      `${digits(speedup)} (${digits(speedupLow)} to ${digits(speedupHigh)})`,
    ]);
    const beside = sdpa.length > 0 ? sdpa : [['not measured', benchmark.sdpaMissing ?? '']];
    return beside.map((each, index) => [
      ...(index === 0 ? cells : cells.map(() => '')),
      ...each,
      shortName(figure.job),
    ]);
  });
  return table(head, rows);
}

function jobTable(jobs: readonly GetJobResponse[]): string {
  const head = ['job', 'kernel', 'parity', 'largest error', 'gates', 'findings', 'device s', 'US dollars'];
  const rows = jobs.flatMap(({ job, result }) =>
    (result?.variants ?? []).map((variant) => [
      shortName(job?.name ?? ''),
      `${job?.kernelId ?? ''} ${variant.label}`.trim(),
      parityText(variant),
      errorText(variant),
      gatesText(variant),
      String(variant.findings.length),
      digits(result!.deviceSeconds),
      result!.costUsd === undefined ? (result!.costMissing ?? 'not known') : digits(result!.costUsd),
    ]),
  );
  return table(head, rows);
}

const parityText = ({ verify }: VariantResult): string =>
  verify ? `${verify.passedCases} of ${verify.cases.length} cases` : 'not checked';
const errorText = ({ verify }: VariantResult): string =>
  verify && verify.cases.length > 0
    ? Math.max(...verify.cases.map(({ maxAbsError }) => maxAbsError)).toExponential(1)
    : 'not measured';

function gatesText({ gates }: VariantResult): string {
  const judged = gates.filter(({ level }) => level !== 'off');
  const failed = judged.filter(({ verdict }) => verdict === Verdict.FAIL).map(({ gateId }) => gateId);
  const passed = judged.filter(({ verdict }) => verdict === Verdict.PASS).length;
  const open = judged.length - passed - failed.length;
  const parts = [`${passed} of ${judged.length} passed`, failed.length > 0 && `failed: ${failed.join(', ')}`];
  return [...parts, open > 0 && `${open} not measured`].filter(Boolean).join('; ');
}

const digits = (value: number): string => String(Number(value.toPrecision(4)));
const shortName = (name: string): string => name.replace(/^jobs\//, '').slice(0, 8);
const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((row) => `| ${row.map(cell).join(' | ')} |`).join('\n');
const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll(/\s+/g, ' ');
