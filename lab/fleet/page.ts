import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { circle, COLORS, label, linear, line, logarithmic, polyline, rect } from '@flashcore/fa-tui/svg';
import type { Simulation } from '@flashcore/runner/testing-daemon';
import { repositoryRoot } from '@flashcore/test/support/repository-root';

/** Path of the simulation's results in the repository. */
export const SIMULATED = 'lab/results/fleet-2026-11-22/simulated.json';

export interface SimulatedPoint extends Simulation {
  nodes: number;
  gpus: number;
  jobs: number;
  whole: boolean;
  /** Seconds that an ideal list scheduler needs for the same jobs. */
  listSeconds: number;
}

export const OVERHEAD = 'lab/results/fleet-2026-11-22/overhead.json';

export interface Overhead {
  machine: string;
  /** With an idle pilot: the time from a request to the event that names the node. */
  startMs: Quantiles;
  /** The time from a request to the pilot's first event. */
  firstEventMs: Quantiles;
  queued: number;
  submitsPerSecond: number;
  /** The gateway's CPU time per submission. */
  submitCpuMs: number;
  rssBeforeMib: number;
  rssQueuedMib: number;
  watchers: number;
  rssWatchedMib: number;
  /** Percent of one core. */
  idleCpuPercent: number;
}

export interface Quantiles {
  p50: number;
  p90: number;
}

const PAGE = 'docs/fleet.md';
const PLOT = 'docs/fleet-cost.svg';
const BEGIN = '<!-- figures: npx nx fleet-sim lab -->';
const END = '<!-- end of figures -->';

interface Simulated {
  machine: string;
  seed: number;
  points: SimulatedPoint[];
}

/** Writes the figures of docs/fleet.md, and its plot, from the results that the programs stored. */
export function writePage(): void {
  const root = repositoryRoot();
  const simulated = JSON.parse(readFileSync(join(root, SIMULATED), 'utf8')) as Simulated;
  const overhead = join(root, OVERHEAD);
  const page = readFileSync(join(root, PAGE), 'utf8');
  const [before, rest] = page.split(BEGIN);
  const after = rest?.split(END)[1];
  if (before === undefined || after === undefined) throw new Error(`${PAGE}: must have the lines ${BEGIN} and ${END}`);
  const measured = existsSync(overhead)
    ? overheadText(JSON.parse(readFileSync(overhead, 'utf8')) as Overhead)
    : '`npx nx fleet-overhead lab` measures what a gateway adds over gRPC: not measured yet.';
  const part = [
    BEGIN,
    '',
    ...table(simulated),
    '',
    `![CPU time of the gateway, a job](fleet-cost.svg)`,
    '',
    measured,
    '',
    END,
  ];
  writeFileSync(join(root, PAGE), before + part.join('\n') + after);
  writeFileSync(join(root, PLOT), plot(simulated.points));
}

function table({ machine, seed, points }: Simulated): string[] {
  return [
    `On ${machine}, which had other work too; seed ${seed}.`,
    '',
    '| GPUs | jobs | results | perfect list | gateway | of it | ms to take a job | ms to run it | MiB, all waiting | MiB, most |',
    '| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |',
    ...points.map((point) => {
      const cells = [
        point.gpus.toLocaleString('en'),
        point.jobs.toLocaleString('en'),
        point.whole ? 'whole' : 'none',
        `${point.listSeconds.toFixed(0)} s`,
        `${point.makespanSeconds.toFixed(0)} s`,
        `${((100 * point.listSeconds) / point.makespanSeconds).toFixed(1)} %`,
        point.submitMs.toFixed(2),
        point.runMs.toFixed(2),
        `+${point.queuedMib.toFixed(0)}`,
        point.peakMib.toFixed(0),
      ];
      return `| ${cells.join(' | ')} |`;
    }),
  ];
}

function overheadText(overhead: Overhead): string {
  const { startMs, queued, submitsPerSecond, submitCpuMs, rssBeforeMib, rssQueuedMib } = overhead;
  const { watchers, rssWatchedMib, idleCpuPercent } = overhead;
  return [
    `Over gRPC, with a pilot that is idle, a request starts after ${startMs.p50.toFixed(0)} ms (p90 ${startMs.p90.toFixed(0)} ms).`,
    `${queued.toLocaleString('en')} jobs were taken at ${submitsPerSecond.toFixed(0)} a second,`,
    `for ${submitCpuMs.toFixed(2)} ms of the gateway's CPU time each; its memory went from ${rssBeforeMib.toFixed(0)} to ${rssQueuedMib.toFixed(0)} MiB.`,
    `With ${watchers.toLocaleString('en')} idle watchers beside it stood at ${rssWatchedMib.toFixed(0)} MiB, and took ${idleCpuPercent.toFixed(1)} % of a core`,
    `(\`npx nx fleet-overhead lab\`, one run, from sources; ${overhead.machine}).`,
  ].join(' ');
}

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [640, 320, 64, 620, 40, 250];

/** Plots the gateway's CPU time per job, by number of GPUs and by number of jobs. */
function plot(points: readonly SimulatedPoint[]): string {
  const told = points.filter(({ whole }) => !whole);
  const series = [
    {
      color: COLORS.first,
      name: '10,000 jobs, by GPUs',
      of: told.filter(({ jobs }) => jobs === 10_000),
      at: (point: SimulatedPoint) => point.gpus,
    },
    {
      color: COLORS.second,
      name: '1,600 GPUs, by jobs',
      of: told.filter(({ gpus }) => gpus === 1_600),
      at: (point: SimulatedPoint) => point.jobs,
    },
  ];
  const cost = ({ submitMs, runMs }: SimulatedPoint): number => submitMs + runMs;
  const x = logarithmic({ low: 10, high: 100_000 }, LEFT, RIGHT);
  const y = linear({ low: 0, high: Math.max(...told.map(cost)) * 1.1 }, BOTTOM, TOP);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" role="img" aria-label="CPU time of the gateway, a job" font-family="system-ui, sans-serif" font-size="12">`,
    rect({ left: 0, top: 0, width: WIDTH, height: HEIGHT }, COLORS.paper),
    label([8, 20], 'CPU time of the gateway, ms a job', { color: COLORS.ink }),
    ...y.ticks.flatMap((tick) => [
      line([LEFT, y.place(tick)], [RIGHT, y.place(tick)], { color: COLORS.grid }),
      label([LEFT - 6, y.place(tick) + 4], String(Number(tick.toFixed(3))), { anchor: 'end' }),
    ]),
    ...x.ticks.map((tick) => label([x.place(tick), BOTTOM + 16], tick.toLocaleString('en'), { anchor: 'middle' })),
    ...series.flatMap(({ color, name, of, at }, index) => [
      polyline(
        of.map((point) => [x.place(at(point)), y.place(cost(point))]),
        { color, width: 2 },
      ),
      ...of.map((point) =>
        circle([x.place(at(point)), y.place(cost(point))], 4, color, `${cost(point).toFixed(2)} ms`),
      ),
      rect({ left: LEFT, top: BOTTOM + 30 + index * 18, width: 10, height: 10 }, color),
      label([LEFT + 16, BOTTOM + 39 + index * 18], name, { color: COLORS.ink }),
    ]),
    '</svg>',
    '',
  ].join('\n');
}

if (import.meta.main) writePage();
