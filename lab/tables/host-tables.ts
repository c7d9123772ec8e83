/** Tables about a GPU host and its driver: cards, several GPUs, launch options, the driver API. */
import { TimingMode, Verdict, type VariantResult } from '@flashcore/shared/contract';
import { figure, type Table } from './markdown.ts';
import { experimentOf, filesOf, jsonOf, textOf } from './results.ts';

const CARD_FACTS = [
  ['state', 'Performance State'],
  ['SM clock, most', 'Max Clocks/SM'],
  ['memory clock, most', 'Max Clocks/Memory'],
  ['power limit', 'GPU Power Readings/Current Power Limit'],
  ['temperature', 'Temperature/GPU Current Temp'],
] as const;

/** The host's cards, by `nvidia-smi -q`. */
export function cardRows(folder: string): Table {
  const text = textOf(folder, 'nvidia-smi.txt');
  if (text === undefined) return undefined;
  return [
    ['GPU', ...CARD_FACTS.map(([title]) => title)],
    ...parseNvidiaSmi(text).map(({ id, values }) => [
      id,
      ...CARD_FACTS.map(([, name]) => values.get(name) ?? 'not told'),
    ]),
  ];
}

interface StartedJob {
  kernel: string;
  device: string;
  from_s: number;
  to_s: number;
  outcome: string;
  findings: string[];
  hot_p50_us: number | null;
}

/** Jobs that were started together on a host with several GPUs. */
export function severalRows(folder: string): Table {
  const report = jsonOf<Record<string, StartedJob[]>>(folder, 'several.json');
  return (
    report && [
      ['started together', 'kernel', 'device', 'from, s', 'to, s', 'outcome', 'hot p50, us'],
      ...Object.entries(report).flatMap(([name, jobs]) =>
        jobs.map((job, index) => [
          index === 0 ? name : '',
          job.kernel,
          job.device,
          figure(job.from_s),
          figure(job.to_s),
          [job.outcome, ...job.findings].join(', '),
          job.hot_p50_us === null ? '' : figure(job.hot_p50_us),
        ]),
      ),
    ]
  );
}

/**
 * Figures of a kernel that traps unless its cluster matches the manifest, and that reads K and V after a stream of
 * writes.
 */
export function launchOptionRows(folder: string): Table {
  const files = filesOf(folder, /^launch_options\.cluster\d+\.persist\d\.json$/);
  if (files.length === 0) return undefined;
  return [
    ['cluster', 'l2_persist', 'hot, us', 'interval', 'cold, us', 'verified'],
    ...files.map((name) => {
      const [, cluster, persist] = /cluster(\d+)\.persist(\d)/.exec(name)!;
      const variant = experimentOf(folder, name)!.result!.variants[0]!;
      const hot = latencyOf(variant, TimingMode.HOT);
      return [
        `${cluster} x 1 x 1`,
        persist === '1' ? 'K, V' : 'none',
        figure(hot?.p50Us),
        `${figure(hot?.p50LowUs)} to ${figure(hot?.p50HighUs)}`,
        figure(latencyOf(variant, TimingMode.COLD)?.p50Us),
        variant.verify!.cases.every(({ verdict }) => verdict === Verdict.PASS) ? 'right' : '**wrong**',
      ];
    }),
  ];
}

const latencyOf = ({ benchmarks }: VariantResult, wanted: TimingMode): VariantResult['benchmarks'][number]['latency'] =>
  benchmarks.find(({ mode }) => mode === wanted)?.latency;

interface BoxReport {
  isolation: { kind: string };
  verify_seconds: number[];
  /** For each mode: low end, median and high end. */
  p50_us: Record<'TIMING_MODE_COLD' | 'TIMING_MODE_HOT', [number, number, number]>;
}

/** The same jobs with the worker in a sandbox and without a sandbox. */
export function boxRows(folder: string): Table {
  const report = jsonOf<Record<string, BoxReport>>(folder, 'box.json');
  return (
    report && [
      ['', 'first job, s', 'second and third job, s', 'cold, us', 'hot, us', 'interval of hot'],
      ...Object.values(report).map(({ isolation, verify_seconds: [first, ...others], p50_us: times }) => {
        const [low, hot, high] = times.TIMING_MODE_HOT;
        return [
          isolation.kind === 'none' ? 'no box' : 'boxed',
          figure(first),
          others.map((seconds) => figure(seconds)).join(', '),
          figure(times.TIMING_MODE_COLD[1]),
          figure(hot, 3),
          `${figure(low, 3)} to ${figure(high, 3)}`,
        ];
      }),
    ]
  );
}

interface RecoveryReport {
  rounds: { goneMs: number; servesMs: number }[];
}

/** Milliseconds from the SIGKILL of a worker whose kernel spins. */
export function recoveryRows(folder: string): Table {
  const report = jsonOf<RecoveryReport>(folder, 'recovery.json');
  if (!report) return undefined;
  const row = (title: string, key: keyof RecoveryReport['rounds'][number]): string[] => {
    const times = report.rounds.map((round) => round[key]).sort((a, b) => a - b);
    return [title, figure(times[times.length >> 1], 0), figure(times.at(-1), 0), String(times.length)];
  };
  return [
    ['', 'median', 'slowest', 'times'],
    row('process gone', 'goneMs'),
    row('canary kernel answered in a new process', 'servesMs'),
  ];
}

interface ConformanceReport {
  checks: { name: string; failure?: string }[];
}

/** The checks of the driver API, on NVIDIA's driver and on the emulator. */
export function conformanceRows(folder: string): Table {
  const rows = ['libcuda.so.1', 'emulator'].flatMap((target) => {
    const report = jsonOf<ConformanceReport>(folder, `conformance.${target}.json`);
    if (!report) return [];
    return [[target, String(report.checks.length), String(report.checks.filter(({ failure }) => failure).length)]];
  });
  return [['driver', 'checks', 'failed'], ...rows];
}

// Parses the output of `nvidia-smi -q`: sections are indented, and have lines of the form "name : value".

interface SmiGpu {
  /** PCI address, such as 00000000:00:06.0. */
  id: string;
  /**
   * The values by path, such as "1980 MHz" for "Max Clocks/SM". If a section has a name twice, the first value is kept.
   */
  values: Map<string, string>;
}

/** Parses the GPUs of a report. */
export function parseNvidiaSmi(text: string): SmiGpu[] {
  const gpus: SmiGpu[] = [];
  let path: string[] = [];
  for (const line of text.split(/\r?\n/)) {
    const gpu = /^GPU ([0-9A-Fa-f:.]+)\s*$/.exec(line);
    if (gpu) {
      gpus.push({ id: gpu[1]!, values: new Map() });
      path = [];
      continue;
    }
    const found = /^( {4,})(\S.*?)\s*(?: : (.*))?$/.exec(line);
    const values = gpus.at(-1)?.values;
    if (!found || !values) continue;
    const depth = found[1]!.length / 4 - 1;
    path = [...path.slice(0, depth), found[2]!];
    const key = path.join('/');
    if (found[3] !== undefined && !values.has(key)) values.set(key, found[3].trim());
  }
  return gpus;
}

/** The number in "1980 MHz" or "54.25 W". Undefined for "N/A" and for a missing value. */
export function quantity(text: string | undefined): number | undefined {
  const found = /^(-?[\d.]+)(?:\s|$)/.exec(text ?? '');
  return found ? Number(found[1]) : undefined;
}
