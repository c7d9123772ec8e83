/**
 * `npm run ladder`: writes tables from docs/results, which has the programs' original JSON, into the documents that
 * quote them, between marks such as `<!-- results -->`, and writes the page of every results folder. No figure in them
 * is typed by hand; write.test.ts checks that they are current.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { formatShape } from '@flashcore/shared/kernels';
import { formatMarkdown } from '../format-markdown.ts';
import { editRounds, torchExtension } from './edit-times.ts';
import { emulatorPage, emulatorSentence } from './emulator-page.ts';
import { estimateMarkdown } from './l4-table.ts';
import { resultsMarkdown } from './ladder-tables.ts';
import { graphRows, overlapRows } from './launch-cost.ts';
import { markdownTable } from './markdown.ts';
import { exportTimesMarkdown } from './export-times.ts';
import { timeEstimatesMarkdown, engineTimesMarkdown } from './time-estimates.ts';
import { frontEndsMarkdown } from './front-ends-table.ts';
import { countersMarkdown } from './measured-counters.ts';
import { resultsPage } from './results-page.ts';
import { sanitizerMarkdown } from './sanitizer-table.ts';
import { newestSweepMarkdown, sweepPage, sweepSentence } from './sweep-page.ts';
import { triedPage } from './tried-page.ts';
import { secondsPage } from './seconds-page.ts';
import { tunePage } from './tune-page.ts';
import { wallsMarkdown } from './walls.ts';
import { experimentsOf, foldersWith, jsonOf, laddersMeasured, RESULTS, rowsOf } from './results.ts';
import { ladderSteps } from './steps.ts';

const ROOT = join(import.meta.dirname, '../..');
/**
 * docs/measuring.md: the amount by which SDPA's hot figures may be too high before its process worked in one stream.
 */
const SLOW_STATE_US = 0.2;
const ONE_STREAM_SINCE = Date.parse('2026-11-22T23:15:00Z') / 1000;

export interface Document {
  path: string;
  current: string;
  wanted: string;
}

/** Documents with marked places, and pages of results folders: their current text and the wanted one. */
export async function documents(): Promise<Document[]> {
  const steps = await ladderSteps();
  const texts: Record<string, string> = {
    results: resultsMarkdown(steps),
    'results-summary': summaryMarkdown(),
    overlap: overlapMarkdown(),
    'l4-estimate': estimateMarkdown(steps),
    'ladder-verified': emulatorSentence(),
    sanitizer: sanitizerMarkdown(),
    counters: countersMarkdown(),
    engines: engineTimesMarkdown(),
    walls: wallsMarkdown(),
    exported: exportTimesMarkdown(),
    estimates: timeEstimatesMarkdown(),
    'front-ends': frontEndsMarkdown(),
    sweep: newestSweepMarkdown(),
    'sweep-summary': `${sweepSentence()}\n`,
  };
  const marked = ['kernels/README.md', 'README.md', 'docs/measuring.md', 'docs/emulator.md', 'docs/exports.md'].map(
    (path) => {
      const current = readFileSync(join(ROOT, path), 'utf8');
      const wanted = current.replace(
        /(<!-- ([\w-]+) -->\n)[^]*?(<!-- \/\2 -->)/g,
        (whole, start: string, place: string, end: string) =>
          texts[place] === undefined ? whole : `${start}${texts[place]}${end}`,
      );
      return { path, current, wanted };
    },
  );
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
 * Depends on the folder's contents: a run on the emulator, copies of kernels tried, or a GPU host's measurements.
 * undefined if the folder answers another question; its page is then written by hand.
 */
function pageOf(folder: string): string | undefined {
  if (jsonOf(folder, 'ladder.json')) return emulatorPage(folder);
  if (foldersWith(/^(run|several)\..*\.json$/).includes(folder)) return resultsPage(folder);
  const sweep = sweepPage(folder);
  if (sweep !== undefined) return sweep;
  const tune = tunePage(folder);
  if (tune !== undefined) return tune;
  const seconds = secondsPage(folder);
  if (seconds !== undefined) return seconds;
  return folder.includes('-tried-') ? triedPage(folder) : undefined;
}

/** From the newest folder that has overlap.json. */
function overlapMarkdown(): string {
  const folder = laddersMeasured().findLast((name) => existsSync(join(RESULTS, name, 'overlap.json')));
  if (folder === undefined) return 'Nothing measured yet.\n';
  const tables = [overlapRows(folder), graphRows(folder)].map((rows) => markdownTable(rows![0]!, rows!.slice(1)));
  const { shape, device } = jsonOf<{ shape: string; device: { name: string } }>(folder, 'overlap.json')!;
  return `${tables.join('\n')}\nMicroseconds a launch at ${shape} on one ${device.name}; docs/results/${folder}.\n`;
}

/** The newest folder's statements on the fastest kernel, and on the time from an edit to a build. */
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
    `95 % interval ${fastest.speedupLow.toFixed(3)} to ${fastest.speedupHigh.toFixed(3)}; back-to-back launches in graphs, ${fastest.reused ? 'SDPA as an earlier job measured it, checked in this one' : 'in turns'}). ${caveat}\n${edits}[All tables](kernels/README.md#measured), [raw results](docs/results/${folder}).\n`
  );
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  for (const { path, current, wanted } of await documents()) {
    if (current !== wanted) writeFileSync(join(ROOT, path), wanted);
    console.log(`${path}: ${current === wanted ? 'current' : 'written'}`);
  }
}
