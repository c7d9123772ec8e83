/** The page with the seconds from an edit to the verdict, which `gpu_host --sections seconds` measures. */
import { median } from '@flashcore/shared/statistics';
import { fixed, markdownTable } from './markdown.ts';
import { filesOf, jsonOf } from './results.ts';

interface PhaseSeconds {
  readonly phase: string;
  readonly seconds: number;
}

/** One edited kernel. `seconds` is the time of the command, `job_seconds` the time of its job. */
interface Round {
  readonly kernel: string;
  readonly seconds: number;
  readonly job_seconds: number;
  readonly phases: readonly PhaseSeconds[];
}

const PHASES = ['BUILD', 'VERIFY', 'BENCHMARK', 'PROFILE'] as const;

/**
 * The page of a folder with seconds.json. Undefined for other folders, and for the folder with several runs, whose page
 * is written by hand.
 */
export function secondsPage(folder: string): string | undefined {
  const rounds = jsonOf<Round[]>(folder, 'seconds.json');
  if (rounds === undefined || filesOf(folder, /seconds\.json$/).length !== 1) return undefined;
  const kernels = [...new Set(rounds.map(({ kernel }) => kernel))];
  return [
    `# ${folder}`,
    '',
    'Seconds from an edited source to the verdict on one NVIDIA H200, warm: `fa-tui run` of the canonical shape with plan',
    'merge, SDPA in turns and the counters of the gates, without the fallback. Medians of the rounds, in turns; the',
    'commands are in [commands.txt](commands.txt), the bars by phase in seconds.KERNEL.txt.',
    '',
    markdownTable(
      ['kernel', 'rounds', ...PHASES.map((phase) => phase.toLowerCase()), 'job', 'save to verdict', 'least to most'],
      kernels.map((kernel) =>
        rowOf(
          kernel,
          rounds.filter((round) => round.kernel === kernel),
        ),
      ),
    ),
    '',
  ].join('\n');
}

function rowOf(kernel: string, rounds: readonly Round[]): string[] {
  const all = rounds.map(({ seconds }) => seconds);
  return [
    kernel,
    String(rounds.length),
    ...PHASES.map((phase) => fixed(median(rounds.map((round) => secondsOf(round, phase))), 2)),
    fixed(median(rounds.map((round) => round.job_seconds)), 2),
    fixed(median(all), 2),
    `${fixed(Math.min(...all), 2)} to ${fixed(Math.max(...all), 2)}`,
  ];
}

const secondsOf = ({ phases }: Round, phase: string): number =>
  phases.filter((one) => one.phase === `PHASE_${phase}`).reduce((sum, { seconds }) => sum + seconds, 0);
