/** `rbk_report.json`, `.md` and `.csv` for a benchmark requested by rbk_config.yaml. */
import type { GetJobResponse } from '@flashcore/shared/contract';
import { recordedDtype } from '@flashcore/shared/kernels';
import { chapter, notice, tableOf, type Column } from '../present/blocks.ts';
import { formatMicroseconds } from '../present/numbers.ts';
import { markdownOf } from '../present/plain/markdown-painter.ts';
import { SIMULATED_TEXT } from '../present/words.ts';
import { fastestSdpa, figuresOf, type Figure } from './figures.ts';
import { isRight, largestError, correctText } from './job-facts.ts';
import type { RbkConfig } from './rbk-config.ts';

/** Texts by file name. The files are those that the configuration requests. */
export function rbkReports(config: RbkConfig, response: GetJobResponse): Record<string, string> {
  const rows = rowsOf(config, response);
  const files = {
    json: ['rbk_report.json', `${JSON.stringify(reportData(config, response, rows), null, 2)}\n`],
    csv: ['rbk_report.csv', csvOf(response, rows)],
    markdown: ['rbk_report.md', markdownReport(config, response, rows)],
  } as const;
  const wanted = (['json', 'csv', 'markdown'] as const).filter((kind) => config.saves[kind]);
  return Object.fromEntries(wanted.map((kind) => files[kind]));
}

interface Row {
  readonly name: string;
  readonly shape: string;
  readonly mode: string;
  readonly dtype: string;
  readonly iterations: number;
  readonly mean_us: number;
  readonly p50_us: number;
  readonly p90_us: number;
  readonly stddev_us: number;
  readonly tflops: number | null;
  readonly baseline: string | null;
  readonly baseline_mean_us: number | null;
  readonly speedup: number | null;
  readonly valid: boolean;
}

function rowsOf({ shapes }: RbkConfig, response: GetJobResponse): Row[] {
  const names = new Map(shapes.map(({ name, shape }) => [shape, name]));
  return figuresOf([response])
    .filter(({ variant }) => !variant.fallback)
    .map((figure) => rowOf(names.get(figure.shape) ?? figure.shape, figure));
}

function rowOf(name: string, { shape, mode, benchmark, provenance }: Figure): Row {
  const { samples, meanUs, p50Us, p90Us, stddevUs } = benchmark.latency!;
  const sdpa = fastestSdpa(benchmark);
  return {
    name,
    shape,
    mode,
    dtype: recordedDtype(provenance?.dtype),
    iterations: samples,
    mean_us: meanUs,
    p50_us: p50Us,
    p90_us: p90Us,
    stddev_us: stddevUs,
    tflops: benchmark.tflops ?? null,
    baseline: sdpa?.name ?? null,
    baseline_mean_us: sdpa?.latency?.meanUs ?? null,
    speedup: sdpa?.speedup ?? null,
    valid: benchmark.valid,
  };
}

/** The runner warms up until clocks and times are steady, so the requested number would be misleading as a result. */
const warmupsText = ({ warmups }: RbkConfig): string =>
  warmups === undefined
    ? 'as the protocol has it'
    : `${warmups} asked for; the runner warms up until times are steady, whatever their number`;

function reportData(config: RbkConfig, { job, result }: GetJobResponse, rows: readonly Row[]): unknown {
  const [variant] = result?.variants ?? [];
  const device = result?.provenance?.device;
  return {
    version: 1,
    job: job?.name,
    kernel: job?.label || job?.kernelId,
    device: device?.name ?? null,
    simulated: device?.simulated ?? false,
    protocol: result?.provenance?.protocol ?? null,
    warmups: warmupsText(config),
    iterations: config.iterations ?? null,
    correct: variant?.verify ? isRight(variant) : null,
    max_abs_error: (variant && largestError(variant)) ?? null,
    results: rows,
  };
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'name', cell: ({ name }) => name },
  { title: 'shape', cell: ({ shape }) => shape },
  { title: 'mode', cell: ({ mode }) => mode },
  { title: 'mean', align: 'right', cell: ({ mean_us: us }) => formatMicroseconds(us) },
  { title: 'p50', align: 'right', cell: ({ p50_us: us }) => formatMicroseconds(us) },
  { title: 'p90', align: 'right', cell: ({ p90_us: us, p50_us: like }) => formatMicroseconds(us, like) },
  { title: 'iterations', align: 'right', cell: ({ iterations }) => String(iterations) },
  { title: 'baseline', cell: ({ baseline }) => baseline ?? 'not measured' },
  {
    title: 'speedup',
    align: 'right',
    cell: ({ speedup }) => (speedup === null ? 'not measured' : speedup.toFixed(3)),
  },
];

function markdownReport(config: RbkConfig, { job, result }: GetJobResponse, rows: readonly Row[]): string {
  const [variant] = result?.variants ?? [];
  const device = result?.provenance?.device;
  return markdownOf([
    chapter(`Benchmark of ${job?.label || job?.kernelId}`, 1),
    notice(`${device?.name ?? 'unknown device'}, ${result?.provenance?.protocol ?? 'unknown protocol'}, ${job?.name}`),
    ...(device?.simulated ? [notice(SIMULATED_TEXT, 'warn')] : []),
    notice(`Correct: ${variant ? correctText(variant) : 'not checked'}. Warm-up: ${warmupsText(config)}.`),
    rows.length === 0 ? notice('Nothing was measured.') : tableOf(COLUMNS, rows),
  ]);
}

/** Every row names its origin, because it may be copied out of the file. */
function csvOf({ result }: GetJobResponse, rows: readonly Row[]): string {
  const { device, protocol = '' } = result?.provenance ?? {};
  const place = { device: device?.name ?? '', protocol, simulated: device?.simulated ?? false };
  const columns = [
    ...([
      'name',
      'shape',
      'mode',
      'dtype',
      'iterations',
      'mean_us',
      'p50_us',
      'p90_us',
      'stddev_us',
      'tflops',
    ] as const),
    ...(['baseline', 'baseline_mean_us', 'speedup', 'valid', 'device', 'protocol', 'simulated'] as const),
  ];
  const lineOf = (row: Row): string => {
    const cells = { ...row, ...place };
    return columns.map((column) => csvCell(cells[column])).join(',');
  };
  return [columns.join(','), ...rows.map(lineOf)].map((line) => `${line}\n`).join('');
}

/** RFC 4180. A value that a spreadsheet would interpret as a formula becomes text. */
function csvCell(value: string | number | boolean | null): string {
  if (typeof value !== 'string') return value === null ? '' : String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
