/**
 * `npm run ladder`: makes tables from lab/results, which has the programs' original JSON, and the table of fa-tui's
 * keys. It writes the tables into documents, between marks such as `<!-- results -->`, and writes the pages of the
 * usual campaigns. No figure in them is typed by hand. write.test.ts checks that they are current.
 */
import { createHash } from 'node:crypto';
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { COMMANDS } from '@flashcore/fa-tui/commands';
import { formatShape } from '@flashcore/shared/kernels';
import { quantile } from '@flashcore/shared/statistics';
import { formatMarkdown } from '@flashcore/tools/format-markdown';
import { editRounds, torchExtension } from './edit-times.ts';
import { emulatorPage, emulatorSentence } from './emulator-page.ts';
import { resultsMarkdown } from './ladder-tables.ts';
import { graphRows, overlapRows } from './launch-cost.ts';
import { markdownTable } from './markdown.ts';
import { engineTimesMarkdown, timeEstimatesMarkdown, watchingTimesMarkdown } from './time-estimates.ts';
import { frontEndsMarkdown } from './front-ends-table.ts';
import { countersMarkdown } from './measured-counters.ts';
import { resultsPage } from './results-page.ts';
import { sanitizerMarkdown } from './sanitizer-table.ts';
import { secondsPage } from './seconds-page.ts';
import { wallsMarkdown } from './walls.ts';
import { experimentsOf, filesOf, foldersWith, jsonOf, laddersMeasured, RESULTS, rowsOf } from './results.ts';
import { ladderSteps } from '@flashcore/tools/ladder-steps';

const ROOT = join(import.meta.dirname, '../..');
/**
 * By how much SDPA's older hot figures may be too high: those from before its process used only one stream
 * (docs/measuring.md).
 */
const SLOW_STATE_US = 0.2;
const ONE_STREAM_SINCE = Date.parse('2026-11-22T23:15:00Z') / 1000;

export interface Document {
  path: string;
  current: string;
  wanted: string;
}

/**
 * The documents that have marks, and the pages of results folders, each with its current text and its expected text.
 */
export async function documents(): Promise<Document[]> {
  const steps = await ladderSteps();
  const texts: Record<string, string> = {
    results: resultsMarkdown(steps),
    'results-summary': summaryMarkdown(),
    overlap: overlapMarkdown(),
    'ladder-verified': emulatorSentence(),
    sanitizer: sanitizerMarkdown(),
    counters: countersMarkdown(),
    engines: engineTimesMarkdown(),
    walls: wallsMarkdown(),
    watching: watchingTimesMarkdown(),
    exported: exportTimesMarkdown(),
    estimates: timeEstimatesMarkdown(),
    'front-ends': frontEndsMarkdown(),
    archives: archivesMarkdown(),
    keys: keysMarkdown(),
  };
  const marked = [
    'kernels/README.md',
    'README.md',
    'docs/measuring.md',
    'docs/emulator.md',
    'docs/exports.md',
    'docs/keys.md',
    'lab/results/README.md',
  ].map((path) => {
    const current = readFileSync(join(ROOT, path), 'utf8');
    const wanted = current.replace(
      /(<!-- ([\w-]+) -->\n)[^]*?(<!-- \/\2 -->)/g,
      (whole, start: string, place: string, end: string) =>
        texts[place] === undefined ? whole : `${start}${texts[place]}${end}`,
    );
    return { path, current, wanted };
  });
  const pages = foldersWith(/\.json$/).flatMap((folder) => {
    const path = join(RESULTS, folder, 'README.md');
    const wanted = pageOf(folder);
    return wanted === undefined
      ? []
      : [{ path: relative(ROOT, path), current: existsSync(path) ? readFileSync(path, 'utf8') : '', wanted }];
  });
  return Promise.all(
    [...marked, ...pages].map(async ({ path, current, wanted }) => ({
      path,
      current,
      wanted: await formatMarkdown(wanted, join(ROOT, path)),
    })),
  );
}

/**
 * The page of a results folder, by the folder's contents: a run on the emulator, a GPU host's measurements, or the
 * seconds of edits. Undefined for all other folders, whose pages no longer change.
 */
function pageOf(folder: string): string | undefined {
  if (jsonOf(folder, 'ladder.json')) return emulatorPage(folder);
  if (foldersWith(/^(run|several)\..*\.json$/).includes(folder)) return resultsPage(folder);
  return secondsPage(folder);
}

/** A list of the archives of all campaigns, with their digests. */
function archivesMarkdown(): string {
  const rows = globSync('*/*.tar.*', { cwd: RESULTS })
    .sort()
    .map((path) => {
      const [folder, name] = path.split('/') as [string, string];
      const bytes = readFileSync(join(RESULTS, path));
      return [folder, name, String(bytes.length), `\`${createHash('sha256').update(bytes).digest('hex')}\``];
    });
  return markdownTable(['campaign', 'archive', 'bytes', 'SHA-256'], rows);
}

/** The keys and commands of fa-tui. */
function keysMarkdown(): string {
  const rows = COMMANDS.map(({ id, keys, help }) => [
    keys.map((key) => `\`${key}\``).join(' '),
    help.replaceAll('|', '\\|'),
    `\`${id}\``,
  ]);
  return markdownTable(['Keys', 'What they do', 'Command'], rows);
}

/** The tables of the newest folder that has overlap.json. */
function overlapMarkdown(): string {
  const folder = laddersMeasured().findLast((name) => filesOf(name, /^overlap\.json$/).length > 0);
  if (folder === undefined) return 'Nothing measured yet.\n';
  const tables = [overlapRows(folder), graphRows(folder)].map((rows) => markdownTable(rows![0]!, rows!.slice(1)));
  const { shape, device } = jsonOf<{ shape: string; device: { name: string } }>(folder, 'overlap.json')!;
  return `${tables.join('\n')}\nMicroseconds a launch at ${shape} on one ${device.name}; lab/results/${folder}.\n`;
}

/** The newest folder's figures of the fastest kernel, and of the time from an edit to a build. */
function summaryMarkdown(): string {
  const folder = laddersMeasured().at(-1)!;
  const rows = rowsOf(folder, /^run\..*\.json$/)
    .filter(({ benchmark }) => benchmark.valid && benchmark.sdpa.length > 0)
    .toSorted((a, b) => a.benchmark.latency!.p50Us - b.benchmark.latency!.p50Us);
  const { kernel, benchmark } = rows[0]!;
  const fastest = benchmark.sdpa.toSorted((a, b) => a.speedup - b.speedup)[0]!;
  const device = experimentsOf(folder, /^run\..*\.json$/)[0]!.result!.provenance!.device!.name;
  const builds = (editRounds(folder) ?? []).map(({ phases }) => phases.build).sort((a, b) => a - b);
  const extension = torchExtension(folder);
  const edits =
    builds.length > 0 && extension
      ? `An edited flashcore_v6 is built in ${builds[Math.floor(builds.length / 2)]!.toFixed(2)} s (median of ${builds.length}); torch.utils.cpp_extension.load_inline takes ${extension.build_seconds.toFixed(1)} s to build the same kernel behind a PyTorch binding, in the same run. `
      : '';
  const time = Number(experimentsOf(folder, /^run\..*\.json$/)[0]!.result!.provenance!.time?.seconds ?? 0);
  const leastSpeedup = (fastest.latency!.p50Us - SLOW_STATE_US) / benchmark.latency!.p50Us;
  const caveat =
    time < ONE_STREAM_SINCE
      ? `PyTorch's process may have been in a state then that costs it up to ${SLOW_STATE_US} us a launch ([measuring](docs/measuring.md#hot)); without it the figure is ${leastSpeedup.toFixed(2)} at least. `
      : 'A new cuDNN graph takes up to 2 % more or less ([measuring](docs/measuring.md#hot)), which is not in that interval. ';
  return (
    `On one ${device}, ${kernel} takes ${benchmark.latency!.p50Us.toFixed(2)} us at ${formatShape(benchmark.shape!)}, ${fastest.speedup.toFixed(2)} times as fast as the fastest SDPA backend of ${fastest.version.split('+')[0]} (${fastest.name}, ` +
    `95 % interval ${fastest.speedupLow.toFixed(3)} to ${fastest.speedupHigh.toFixed(3)}; back-to-back launches in graphs, ${fastest.reused ? 'SDPA as an earlier job measured it, checked in this one' : 'in turns'}). ${caveat}\n${edits}[All tables](kernels/README.md#measured), [raw results](lab/results/${folder}).\n`
  );
}

/**
 * PyTorch's times in one state of its process. Each process gives one figure; the ratio is their median divided by the
 * runner's.
 */
interface State {
  us: number[];
  ratio: number;
  /** The bounds of the ratio's 95 % interval. */
  low: number;
  high: number;
}

/** The file that `lab/gpu_host --sections processes` writes. */
interface Report {
  shape: string;
  rounds: unknown[];
  kernels: Record<string, { runner_us: number[]; one_stream: State; second_stream: State; second_context: State }>;
}

/** The tables for docs/exports.md, from the newest run. */
function exportTimesMarkdown(): string {
  const folder = foldersWith(/^processes\.json$/).at(-1);
  if (folder === undefined) return 'Not measured yet.\n';
  const { shape, rounds, kernels } = jsonOf<Report>(folder, 'processes.json')!;
  const rows = Object.entries(kernels).map(([kernel, times]) => [
    kernel,
    microseconds(times.runner_us),
    microseconds(times.one_stream.us),
    `${times.one_stream.ratio.toFixed(3)} (${times.one_stream.low.toFixed(3)} to ${times.one_stream.high.toFixed(3)})`,
    times.second_stream.ratio.toFixed(3),
    times.second_context.ratio.toFixed(3),
  ]);
  const columns = ['kernel', 'runner, us', 'PyTorch, us', 'ratio', 'second stream', 'second context'];
  return [
    `One NVIDIA H200 at ${shape}, medians over ${rounds.length} new processes of each, in turns (lab/results/${folder}/processes.json):\n`,
    markdownTable(columns, rows),
  ].join('\n');
}

const microseconds = (values: readonly number[]): string => quantile(values, 0.5).toFixed(2);

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  for (const { path, current, wanted } of await documents()) {
    if (current !== wanted) writeFileSync(join(ROOT, path), wanted);
    console.log(`${path}: ${current === wanted ? 'current' : 'written'}`);
  }
}
