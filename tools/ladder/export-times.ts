/** Times of exported operators in a PyTorch graph next to the runner's hot figure. */
import { quantile } from '@flashcore/shared/statistics';
import { markdownTable } from './markdown.ts';
import { foldersWith, jsonOf } from './results.ts';

/** PyTorch's times in one state of its process: one figure per process, and their median divided by the runner's. */
interface State {
  us: number[];
  ratio: number;
  /** 95 % interval of the ratio. */
  low: number;
  high: number;
}

/** The format that `tools/gpu_host --sections processes` writes. */
interface Report {
  shape: string;
  rounds: unknown[];
  kernels: Record<string, { runner_us: number[]; one_stream: State; second_stream: State; second_context: State }>;
}

/** For docs/exports.md, from the newest run. */
export function exportTimesMarkdown(): string {
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
    `One NVIDIA H200 at ${shape}, medians over ${rounds.length} new processes of each, in turns (docs/results/${folder}/processes.json):\n`,
    markdownTable(columns, rows),
  ].join('\n');
}

const microseconds = (values: readonly number[]): string => quantile(values, 0.5).toFixed(2);
