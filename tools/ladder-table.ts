/**
 * `npm run ladder`: tables from docs/results, where the program's own JSON lies as it wrote it (`fa-tui run … --json`), into the documents that quote them,
 * between `<!-- results -->` and `<!-- /results -->` (all tables) `<!-- results-summary -->` (the newest in two sentences) or `<!-- overlap -->` (launches in graphs and by ncu). No figure in them is typed by hand; ladder-table.test.ts shows that they are current.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { fromJson, type JsonValue } from '@bufbuild/protobuf';
import { formatShape, GetJobResponseSchema, TimingMode, type BenchmarkResult, type GetJobResponse, type VariantResult } from '@flashcore/shared';
import { graphRows, overlapRows } from './launch-tables.mjs';

const ROOT = join(import.meta.dirname, '..');
const RESULTS = join(ROOT, 'docs/results');

/** Documents with marked places, and what stands in them now and what should. */
export function documents(): { path: string; current: string; wanted: string }[] {
  const texts: Record<string, string> = { results: resultsMarkdown(), 'results-summary': summaryMarkdown(), overlap: overlapMarkdown() };
  return ['kernels/README.md', 'README.md', 'docs/measuring.md'].map((name) => {
    const path = join(ROOT, name);
    const current = readFileSync(path, 'utf8');
    const wanted = current.replace(/(<!-- (results|results-summary|overlap) -->\n)[^]*?(<!-- \/\2 -->)/g, (_, start: string, place: string, end: string) => `${start}${texts[place]}${end}`);
    return { path, current, wanted };
  });
}

/** One table a folder of docs/results and shape. */
export function resultsMarkdown(): string {
  if (!existsSync(RESULTS)) return 'Nothing measured yet.\n';
  return laddersMeasured().reverse().map((folder) => folderMarkdown(folder)).filter((text) => text !== '').join('\n');
}

/** Folders with experiments of the ladder, oldest first; others hold one question's answer. */
function laddersMeasured(): string[] {
  const folders = readdirSync(RESULTS, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map(({ name }) => name);
  return folders.filter((name) => readdirSync(join(RESULTS, name)).some((file) => /^run\..*\.json$/.test(file))).sort();
}

/** Of the newest folder that has them. */
function overlapMarkdown(): string {
  const folder = laddersMeasured().findLast((name) => existsSync(join(RESULTS, name, 'overlap.json')));
  if (folder === undefined) return 'Nothing measured yet.\n';
  const tables = [overlapRows(join(RESULTS, folder)), graphRows(join(RESULTS, folder))].map((rows) => markdownTable(rows![0]!, rows!.slice(1)));
  return `${tables.join('\n')}\nMicroseconds a launch at 2x8x512x64 on one H200; docs/results/${folder}.\n`;
}

interface Row {
  kernel: string;
  variant: VariantResult;
  benchmark: BenchmarkResult;
}

/** What the newest folder says of the fastest kernel, and of the way from an edit to a build. */
function summaryMarkdown(): string {
  const folder = laddersMeasured().at(-1)!;
  const rows = rowsOf(folder, /^run\..*\.json$/).filter(({ benchmark }) => benchmark.valid && benchmark.baselines.length > 0).toSorted((a, b) => a.benchmark.latency!.p50Us - b.benchmark.latency!.p50Us);
  const { kernel, benchmark } = rows[0]!;
  const fastest = benchmark.baselines.toSorted((a, b) => a.speedup - b.speedup)[0]!;
  const device = experimentsOf(folder, /^run\..*\.json$/)[0]!.result!.provenance!.device!.name;
  const json = (name: string) => JSON.parse(readFileSync(join(RESULTS, folder, name), 'utf8')) as unknown;
  const builds = (json('edit-to-gates.json') as { phases: { build: number } }[]).map(({ phases }) => phases.build).sort((a, b) => a - b);
  const { build_seconds: extensionSeconds } = json('torch-extension.json') as { build_seconds: number };
  return `On one ${device}, ${kernel} takes ${benchmark.latency!.p50Us.toFixed(2)} us at ${formatShape(benchmark.shape!)}, ${fastest.speedup.toFixed(2)} times as fast as the fastest SDPA backend of ${fastest.version.split('+')[0]} (${fastest.name}, `
    + `95 % interval ${fastest.speedupLow.toFixed(3)} to ${fastest.speedupHigh.toFixed(3)}; back-to-back launches in graphs, in turns).\nAn edited flashcore_v6 is built in ${builds[Math.floor(builds.length / 2)]!.toFixed(2)} s (median of ${builds.length}); `
    + `torch.utils.cpp_extension.load_inline takes ${extensionSeconds.toFixed(1)} s to build the same kernel behind a PyTorch binding, in the same run. [All tables](kernels/README.md#measured), [raw results](docs/results/${folder}).\n`;
}

/** `run.*`: experiments, the ladder on one shape with what each build needs. `bench.*`: the fastest kernels on many shapes. */
function folderMarkdown(folder: string): string {
  const ladder = rowsOf(folder, /^run\..*\.json$/);
  const shapes = rowsOf(folder, /^bench\..*\.json$/);
  const device = experimentsOf(folder, /^(run|bench)\..*\.json$/)[0]?.result?.provenance;
  const origin = `${device?.device?.name}, driver ${device?.device?.kernelDriverVersion || device?.device?.driverVersion}, ${device?.protocol}; docs/results/${folder}.`;
  const byShape = [...Map.groupBy(ladder, ({ benchmark }) => formatShape(benchmark.shape!))];
  return [
    `Hot: back-to-back launches in a graph, every SDPA backend in turns with the kernel in the same job; x: times as fast as the backend. ${origin}\n`,
    ...byShape.map(([shape, rows]) => `**The ladder at ${shape}** (B x H x S x D)\n\n${ladderTable(rows)}`),
    ...(shapes.length > 0 ? [`**The fastest, shape by shape**\n\n${shapesTable(shapes)}`] : []),
  ].join('\n');
}

function experimentsOf(folder: string, names: RegExp): GetJobResponse[] {
  return readdirSync(join(RESULTS, folder)).filter((name) => names.test(name)).flatMap((name) => readExperiment(join(RESULTS, folder, name)) ?? []);
}

function rowsOf(folder: string, names: RegExp): Row[] {
  return experimentsOf(folder, names).flatMap(({ job, result }) =>
    result!.variants.flatMap((variant) => variant.benchmarks.filter(({ mode, simulated }) => mode === TimingMode.HOT && !simulated)
      .map((benchmark): Row => ({ kernel: `${job!.kernelId}${variant.fallback ? ' USE_WMMA=0' : ''}`, variant, benchmark }))));
}

/** undefined for a file of another kind. */
function readExperiment(path: string): GetJobResponse | undefined {
  const json = JSON.parse(readFileSync(path, 'utf8')) as JsonValue;
  const isJob = typeof json === 'object' && json !== null && !Array.isArray(json) && 'job' in json && 'result' in json;
  return isJob ? fromJson(GetJobResponseSchema, json, { ignoreUnknownFields: true }) : undefined;
}

/** Slowest first; registers and the like are those of the build for the device. */
function ladderTable(rows: Row[]): string {
  const ordered = rows.toSorted((a, b) => b.benchmark.latency!.p50Us - a.benchmark.latency!.p50Us);
  const backends = backendsOf(ordered);
  const head = ['kernel', 'p50 us', '95 % interval', 'TFLOP/s', '% of roofline', ...backends.map((name) => `x ${name}`), 'registers', 'SMEM B', 'spills B', 'CTAs/SM', 'max error'];
  return markdownTable(head, ordered.map(({ kernel, variant, benchmark }) => [kernel, ...latencyCells(benchmark), ...backends.map((name) => speedup(benchmark, name)), ...buildCells(variant)]));
}

function shapesTable(rows: Row[]): string {
  const backends = backendsOf(rows);
  const head = ['shape', 'kernel', 'p50 us', '95 % interval', 'TFLOP/s', '% of roofline', ...backends.map((name) => `x ${name}`), 'note'];
  const order = [...new Set(rows.map(({ benchmark }) => formatShape(benchmark.shape!)))];
  const ordered = rows.toSorted((a, b) => order.indexOf(formatShape(a.benchmark.shape!)) - order.indexOf(formatShape(b.benchmark.shape!)));
  return markdownTable(head, ordered.map(({ kernel, benchmark }) => [
    formatShape(benchmark.shape!), kernel, ...latencyCells(benchmark), ...backends.map((name) => speedup(benchmark, name)), benchmark.valid ? '' : `not valid: ${benchmark.invalidReason}`,
  ]));
}

// math is left out: it is an order of magnitude behind and nobody's baseline.
function backendsOf(rows: Row[]): string[] {
  return [...new Set(rows.flatMap(({ benchmark }) => benchmark.baselines.map(({ name }) => name)))].filter((name) => !name.endsWith('/math')).sort();
}

function speedup(benchmark: BenchmarkResult, backend: string): string {
  return benchmark.baselines.find(({ name }) => name === backend)?.speedup.toFixed(2) ?? '-';
}

function latencyCells({ latency, tflops, rooflinePercent }: BenchmarkResult): string[] {
  return [latency!.p50Us.toFixed(2), `${latency!.p50LowUs.toFixed(2)} to ${latency!.p50HighUs.toFixed(2)}`, tflops?.toFixed(1) ?? '-', rooflinePercent?.toFixed(1) ?? '-'];
}

function buildCells({ build, verify }: VariantResult): string[] {
  const entries = build?.entries ?? [];
  const cases = verify?.cases ?? [];
  const most = (valueOf: (entry: (typeof entries)[number]) => number) => (entries.length === 0 ? '-' : String(Math.max(...entries.map(valueOf))));
  return [
    most(({ registersPerThread }) => registersPerThread),
    most(({ staticSmemBytes, dynamicSmemBytes }) => staticSmemBytes + dynamicSmemBytes),
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
