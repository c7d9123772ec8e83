/** Makes the page (README.md) of a folder with a GPU host's measurements from the folder's JSON. */
import { timestampDate } from '@bufbuild/protobuf/wkt';
import type { GetJobResponse, Provenance } from '@flashcore/shared/contract';
import { clockRows, comparisonRows, parityRows, plainSdpaRows, sameBuildRows } from './comparison-tables.ts';
import { editRows } from './edit-times.ts';
import { cheatingRows, faultyRows, primitiveRows } from './faulty-tables.ts';
import { boxRows, cardRows, conformanceRows, launchOptionRows, recoveryRows, severalRows } from './host-tables.ts';
import { graphRows, hiddenInGraphs, overlapRows } from './launch-cost.ts';
import { section } from './markdown.ts';
import { experimentsOf, sdpaInTurns } from './results.ts';
import { benchmarksOf, counterRows, latencyRows, ncuRows, shapesOf } from './run-tables.ts';

/** The tables of a results folder, as Markdown. */
export function resultsPage(folder: string): string {
  const runs = experimentsOf(folder, /^run\..+\.json$/);
  const [first] = [...runs, ...experimentsOf(folder, /^several\..+\.json$/)];
  return [
    ...opening(first!.result!.provenance!),
    ...section('The cards as found', cardRows(folder)),
    ...(runs.length > 0 ? runSections(folder, runs) : []),
    ...section('Launches in graphs, microseconds a launch', graphRows(folder)),
    ...section(
      "Why ncu's time is above ours (caches warm, microseconds)",
      overlapRows(folder),
      '[docs/measuring.md](../../../docs/measuring.md#hot) explains it.',
    ),
    ...section(
      'Launch options of the manifest: a kernel that reads K and V after 192 MiB of writes',
      launchOptionRows(folder),
      'The kernel traps unless it finds itself in a cluster of the size that the manifest asks for. Cold samples let go of pinned lines first.',
    ),
    ...section(
      "Beside PyTorch's SDPA on the same inputs",
      parityRows(folder),
      'Errors are against the fp64 reference; below 1 the kernel is nearer to it.',
    ),
    ...section(
      'Several GPUs',
      severalRows(folder),
      "Jobs of a round are started 0.4 s apart; seconds from the first one's start.",
    ),
  ].join('\n');
}

function opening({ device, tools, protocol, time }: Provenance): string[] {
  const { name, arch, kernelDriverVersion, driverVersion } = device!;
  const versions = tools.map((tool) => `${tool.name} ${tool.version}`).join(', ');
  return [
    `# ${name}, ${timestampDate(time!).toISOString().slice(0, 10)}`,
    '',
    `${name} (${arch}), driver ${kernelDriverVersion || driverVersion}, ${versions}; ${protocol}. The commands are in commands.txt;`,
    'every JSON file is what the program wrote ([compressed](../README.md)), samples/ has the raw samples (little-endian float32, microseconds). This page is written by `npm run ladder`.',
    '',
  ];
}

function runSections(folder: string, runs: readonly GetJobResponse[]): string[] {
  return [
    ...section(`Latency, ${shapesOf(runs)}, microseconds`, latencyRows(runs)),
    `Cold: isolated launch after the L2 was flushed, event pair included; hot: back to back in a graph. SDPA ${sdpaInTurns(benchmarksOf(runs))}. Interval: 95 %, of the median.`,
    '',
    ...section('Counters (ncu, caches warm)', counterRows(runs)),
    `ncu times one launch alone, with its start and end, of which a graph hides ${hiddenInGraphs(folder)}: [docs/measuring.md](../../../docs/measuring.md#hot). With flushed caches and the empty event pair taken off, the two agree (see \`ncu against ours\`).`,
    '',
    ...section('ncu against ours, flashcore_v6', ncuRows(folder, runs)),
    ...section('SDPA, hot: ours against plain PyTorch (a CUDA graph of 50 calls)', plainSdpaRows(folder)),
    ...section(
      'A against A (one build, four jobs, A B B A), ratio of medians with its 95 % interval',
      sameBuildRows(folder),
    ),
    ...section(
      'A against B in one job: ratio of medians, champion over candidate, with its 95 % interval',
      comparisonRows(folder),
      'Above 1 the candidate is faster. [docs/measuring.md](../../../docs/measuring.md#a-against-b) has the rule.',
    ),
    ...section('Whether the stamps that tell the clock change what is measured', clockRows(folder)),
    ...section('From an edit of flashcore_v6 to its gates, warm runner, seconds', editRows(folder)),
    'Edits and load_inline in one run; load_inline builds, and does not check or measure. commands.txt says which run a file is of.',
    '',
    ...section('Faulty kernels', faultyRows(folder)),
    'The good kernel is run after each, on the same seed: its figures must not change by a bit. A GPU hides races and divergent barriers; with --sanitize they are named.',
    '',
    ...section('Kernels that cheat', cheatingRows(folder)),
    'Each is checked as an experiment checks, then, where it passes, timed at 2x8x512x64 (impossible_time at 4x16x2048x64). pinned_l2 is right, and its pins gain nothing in a cold launch.',
    '',
    ...section(
      'The worker of a GPU in a box (flashcore_v10 at 2x8x512x64)',
      boxRows(folder),
      "bubblewrap with the driver's nodes; one runner each, the boxed one first: of two runners without a box the first was as much slower.",
    ),
    ...section('After SIGKILL of a spinning kernel, milliseconds', recoveryRows(folder)),
    ...section(
      'PTX instructions, one a function (kernels/primitives)',
      primitiveRows(folder),
      'Emulator and GPU against the definition of the instruction (PTX ISA), and the GPU against the emulator.',
    ),
    ...section('Conformance of the driver seam', conformanceRows(folder)),
  ];
}
