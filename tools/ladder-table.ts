/**
 * `npm run ladder`: tables from docs/results, where the program's own JSON lies as it wrote it (`fa-tui run … --json`), into the documents that quote them,
 * between `<!-- results -->` and `<!-- /results -->`. No figure in them is typed by hand; ladder-table.test.ts shows that they are current.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { fromJson, type JsonValue } from '@bufbuild/protobuf';
import { formatShape, GetJobResponseSchema, TimingMode, type BenchmarkResult, type GetJobResponse, type VariantResult } from '@flashcore/shared';

const ROOT = join(import.meta.dirname, '..');
const RESULTS = join(ROOT, 'docs/results');
const MARKED = /(<!-- results -->\n)[^]*?(<!-- \/results -->)/;

/** Documents with tables, and what stands in them now and what should. */
export function documents(): { path: string; current: string; wanted: string }[] {
  const table = resultsMarkdown();
  return [join(ROOT, 'kernels/README.md'), join(ROOT, 'README.md')]
    .map((path) => ({ path, current: readFileSync(path, 'utf8') }))
    .filter(({ current }) => MARKED.test(current))
    .map(({ path, current }) => ({ path, current, wanted: current.replace(MARKED, (_, start: string, end: string) => `${start}${table}${end}`) }));
}

/** One table a folder of docs/results and shape. */
export function resultsMarkdown(): string {
  if (!existsSync(RESULTS)) return 'Nothing measured yet.\n';
  const folders = readdirSync(RESULTS, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map(({ name }) => name).sort().reverse();
  return folders.map((folder) => folderMarkdown(folder)).filter((text) => text !== '').join('\n');
}

interface Row {
  kernel: string;
  variant: VariantResult;
  benchmark: BenchmarkResult;
}

function folderMarkdown(folder: string): string {
  const experiments = readdirSync(join(RESULTS, folder)).filter((name) => /^(run|bench)\..*\.json$/.test(name)).map((name) => readExperiment(join(RESULTS, folder, name))).filter((each) => each !== undefined);
  const rows = experiments.flatMap(({ job, result }) =>
    result!.variants.flatMap((variant) => variant.benchmarks.filter(({ mode, simulated }) => mode === TimingMode.HOT && !simulated).map((benchmark): Row => ({ kernel: `${job!.kernelId}${variant.fallback ? ' USE_WMMA=0' : ''}`, variant, benchmark }))));
  const byShape = Map.groupBy(rows, ({ benchmark }) => formatShape(benchmark.shape!));
  const device = experiments.find(({ result }) => result?.provenance?.device)?.result?.provenance;
  return [...byShape].map(([shape, of]) => shapeMarkdown(shape, of, `${device?.device?.name ?? ''}, driver ${device?.device?.kernelDriverVersion || device?.device?.driverVersion}, ${device?.protocol}; docs/results/${folder}`)).join('\n');
}

/** undefined for a file of another kind. */
function readExperiment(path: string): GetJobResponse | undefined {
  const json = JSON.parse(readFileSync(path, 'utf8')) as JsonValue;
  const isJob = typeof json === 'object' && json !== null && !Array.isArray(json) && 'job' in json && 'result' in json;
  return isJob ? fromJson(GetJobResponseSchema, json, { ignoreUnknownFields: true }) : undefined;
}

function shapeMarkdown(shape: string, rows: Row[], origin: string): string {
  const ordered = rows.toSorted((a, b) => b.benchmark.latency!.p50Us - a.benchmark.latency!.p50Us);
  const backends = [...new Set(ordered.flatMap(({ benchmark }) => benchmark.baselines.map(({ name }) => name)))].filter((name) => !name.endsWith('/math'));
  const head = ['kernel', 'p50 us', '95 % interval', 'TFLOP/s', '% of roofline', ...backends.map((name) => `x ${name}`), 'registers', 'SMEM B', 'spills B', 'CTAs/SM', 'max error'];
  return `\n**${shape}** (B x H x S x D), hot: back-to-back launches in a graph. ${origin}\n\n${markdownTable(head, ordered.map((row) => cells(row, backends)))}`;
}

function cells({ kernel, variant, benchmark }: Row, backends: string[]): string[] {
  const latency = benchmark.latency!;
  const entries = variant.build?.entries ?? [];
  const most = (valueOf: (entry: (typeof entries)[number]) => number) => (entries.length === 0 ? '-' : String(Math.max(...entries.map(valueOf))));
  const cases = variant.verify?.cases ?? [];
  const speedup = (name: string) => benchmark.baselines.find((baseline) => baseline.name === name)?.speedup.toFixed(2) ?? '-';
  return [
    kernel + (benchmark.valid ? '' : ` (not valid: ${benchmark.invalidReason})`), latency.p50Us.toFixed(2), `${latency.p50LowUs.toFixed(2)} to ${latency.p50HighUs.toFixed(2)}`,
    benchmark.tflops?.toFixed(1) ?? '-', benchmark.rooflinePercent?.toFixed(1) ?? '-', ...backends.map(speedup),
    most(({ registersPerThread }) => registersPerThread), most(({ staticSmemBytes, dynamicSmemBytes }) => staticSmemBytes + dynamicSmemBytes),
    most(({ spillStoreBytes, spillLoadBytes }) => spillStoreBytes + spillLoadBytes),
    entries.length === 0 ? '-' : String(Math.min(...entries.map(({ ctasPerSm }) => ctasPerSm))),
    cases.length === 0 ? '-' : Math.max(...cases.map(({ maxAbsError }) => maxAbsError)).toExponential(1),
  ];
}

function markdownTable(head: string[], rows: string[][]): string {
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |\n`).join('');
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  for (const { path, current, wanted } of documents()) {
    if (current !== wanted) writeFileSync(path, wanted);
    console.log(`${basename(join(path, '..'))}/${basename(path)}: ${current === wanted ? 'current' : 'written'}`);
  }
}
