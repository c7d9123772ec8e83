// The page (README.md) of a folder of docs/results, from the JSON in it. `npm run ladder` writes it.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import {
  cardRows,
  clockRows,
  comparisonRows,
  graphRows,
  launchOptionRows,
  overlapRows,
  parityRows,
  severalRows,
  shapeText,
} from './launch-tables.mjs';

/** The tables of a results folder, as Markdown. */
export function resultsTables(folder) {
  const read = (name) =>
    existsSync(join(folder, name)) ? JSON.parse(readFileSync(join(folder, name), 'utf8')) : undefined;
  const jobs = readdirSync(folder)
    .filter((name) => /^(run|several)\..+\.json$/.test(name))
    .sort()
    .map((name) => [name, read(name)])
    .filter(([, document]) => document.result);
  const runs = jobs.filter(([name]) => name.startsWith('run.')).map(([, document]) => document);
  const { device, tools, protocol, time } = jobs[0][1].result.provenance;
  return [
    `# ${device.name}, ${time.slice(0, 10)}`,
    '',
    `${device.name} (${device.arch}), driver ${device.kernelDriverVersion || device.driverVersion}, ${tools.map(({ name, version }) => `${name} ${version}`).join(', ')}; ${protocol}. The commands are in commands.txt;`,
    'every JSON file is what the program wrote, samples/ has the raw samples (little-endian float32, microseconds). This page is written by `npm run ladder`.',
    '',
    ...section('The cards as found', cardRows(folder)),
    ...(runs.length > 0 ? runSections(folder, runs, read) : []),
    ...section('Launches in graphs, microseconds a launch', graphRows(folder)),
    ...section(
      "Why ncu's time is above ours (caches warm, microseconds)",
      overlapRows(folder),
      '[docs/measuring.md](../../measuring.md#hot) explains it.',
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

function runSections(folder, runs, read) {
  return [
    ...section(`Latency, ${shapesOf(runs)}, microseconds`, latencyRows(runs)),
    'Cold: isolated launch after the L2 was flushed, event pair included; hot: back to back in a graph. SDPA in turns with the kernel, in the same job. Interval: 95 %, of the median.',
    '',
    ...section('Counters (ncu, caches warm)', counterRows(runs)),
    `ncu times one launch alone, with its start and end, of which a graph hides ${hiddenBut(read('overlap.json'))}: [docs/measuring.md](../../measuring.md#hot). With flushed caches and the empty event pair taken off, the two agree (see \`ncu against ours\`).`,
    '',
    ...section('ncu against ours, flashcore_v6', ncuRows(folder, runs)),
    ...section(
      'SDPA, hot: ours against plain PyTorch (a CUDA graph of 50 calls)',
      sdpaRows(read('sdpa-against-plain.json')),
    ),
    ...section(
      'A against A (one build, four jobs, A B B A), ratio of medians with its 95 % interval',
      aaRows(read('aa.json')),
    ),
    ...section(
      'A against B in one job: ratio of medians, champion over candidate, with its 95 % interval',
      comparisonRows(folder),
      'Above 1 the candidate is faster. [docs/measuring.md](../../measuring.md#a-against-b) has the rule.',
    ),
    ...section('Whether the stamps that tell the clock change what is measured', clockRows(folder)),
    ...section(
      'From an edit of flashcore_v6 to its gates, warm runner, seconds',
      editRows(read('edit-to-gates.json'), read('torch-extension.json')),
    ),
    'Edits and load_inline in one run; load_inline builds, and does not check or measure. commands.txt says which run a file is of.',
    '',
    ...section('Faulty kernels', faultyRows(read('faulty.json'))),
    'The good kernel is run after each, on the same seed: its figures must not change by a bit. A GPU hides races and divergent barriers; with --sanitize they are named.',
    '',
    ...section('Kernels that cheat', cheatingRows(read('cheating.json'))),
    'Each is checked as an experiment checks, then, where it passes, timed at 2x8x512x64 (impossible_time at 4x16x2048x64). pinned_l2 is right, and its pins gain nothing in a cold launch.',
    '',
    ...section(
      'The worker of a GPU in a box (flashcore_v10 at 2x8x512x64)',
      boxRows(read('box.json')),
      "bubblewrap with the driver's nodes; one runner each, the boxed one first: of two runners without a box the first was as much slower.",
    ),
    ...section('After SIGKILL of a spinning kernel, milliseconds', recoveryRows(read('recovery.json'))),
    ...section(
      'PTX instructions, one a function (kernels/primitives)',
      primitiveRows(read('primitives.json')),
      'Emulator and GPU against the definition of the instruction (PTX ISA), and the GPU against the emulator.',
    ),
    ...section(
      'Conformance of the driver seam',
      ['libcuda.so.1', 'emulator']
        .map((target) => [target, read(`conformance.${target}.json`)])
        .filter(([, report]) => report)
        .reduce(
          (rows, [target, { checks }]) => [
            ...rows,
            [target, checks.length, checks.filter(({ failure }) => failure).length],
          ],
          [['driver', 'checks', 'failed']],
        ),
    ),
  ];
}

function section(title, rows, remark) {
  if (!rows || rows.length < 2) return [];
  const [head, ...body] = rows;
  return [
    `## ${title}`,
    '',
    `| ${head.join(' | ')} |`,
    `|${head.map(() => ' --- ').join('|')}|`,
    ...body.map((row) => `| ${row.join(' | ')} |`),
    '',
    ...(remark ? [remark, ''] : []),
  ];
}

const shapesOf = (runs) =>
  [
    ...new Set(
      runs.flatMap(({ result }) =>
        result.variants.flatMap(({ benchmarks = [] }) => benchmarks.map(({ shape }) => shapeText(shape))),
      ),
    ),
  ].join(', ');
const hiddenBut = (overlap) => {
  const empty = overlap?.rows.filter(({ kernel }) => kernel === 'empty').sort((a, b) => b.launches - a.launches)[0];
  return empty ? `all but ${figure(empty.usPerLaunch)} us` : 'most';
};
const figure = (value, digits = 2) => (value === undefined ? 'not measured' : value.toFixed(digits));
const variantsOf = (runs) =>
  runs.flatMap(({ result }) =>
    result.variants.map((variant) => ({
      name: `${variant.build.runs[0] ? result.variants[0] && kernelOf(variant) : ''} ${variant.label === 'default' ? '' : variant.label}`.trim(),
      variant,
    })),
  );
const kernelOf = ({ build }) => (build.artifacts?.[0]?.fileName ?? build.entries[0].entry).split('.')[0];
const benchmarkOf = ({ benchmarks = [] }, mode) =>
  benchmarks.find((each) => each.mode === `TIMING_MODE_${mode}` && each.valid);
/** Rows of SDPA; results before the contract's rename of 2026-11-22 have them as `baselines`. */
const sdpaOfBenchmark = (benchmark) => benchmark?.sdpa ?? benchmark?.baselines;
const sdpaOf = (benchmark, name) =>
  sdpaOfBenchmark(benchmark)?.find((each) => each.name === `sdpa/${name}`)?.latency.p50Us;

function latencyRows(runs) {
  return [
    [
      'kernel',
      'cold',
      'hot',
      'interval of hot',
      'SDPA flash hot',
      'SDPA cuDNN hot',
      'against the fastest, hot',
      'against the fastest, cold',
    ],
    ...variantsOf(runs).map(({ name, variant }) => {
      const [cold, hot] = [benchmarkOf(variant, 'COLD'), benchmarkOf(variant, 'HOT')];
      const least = (benchmark) => sdpaOfBenchmark(benchmark)?.reduce((a, b) => (b.speedup < a.speedup ? b : a));
      return [
        name,
        figure(cold?.latency.p50Us),
        figure(hot?.latency.p50Us),
        hot ? `${figure(hot.latency.p50LowUs)} to ${figure(hot.latency.p50HighUs)}` : '',
        figure(sdpaOf(hot, 'flash')),
        figure(sdpaOf(hot, 'cudnn')),
        `${figure(least(hot)?.speedup, 3)}x`,
        `${figure(least(cold)?.speedup, 3)}x`,
      ];
    }),
  ];
}

const COUNTERS = [
  ['gpu_time_us', 'time, us'],
  ['tensor_pipe_percent', 'tensor pipe, %'],
  ['dram_throughput_percent', 'DRAM, %'],
  ['smem_bank_conflict_percent', 'bank conflicts, %'],
  ['sm_busy_percent', 'issue, %'],
  ['registers_per_thread', 'registers'],
  ['resident_ctas_per_sm', 'CTAs an SM'],
];

function counterRows(runs) {
  return [
    ['kernel', ...COUNTERS.map(([, title]) => title), 'largest stall'],
    ...variantsOf(runs).map(({ name, variant: { profile } }) =>
      // protobuf's JSON leaves out a value of 0.
      [
        name,
        ...COUNTERS.map(([metric]) => {
          const found = profile?.metrics?.find((each) => each.name === metric);
          return figure(found && (found.value ?? 0), Number.isInteger(found?.value ?? 0) ? 0 : 2);
        }),
        profile?.stalls?.find((each) => !['selected', 'not_selected'].includes(each.name))?.name ?? '',
      ],
    ),
  ];
}

function ncuRows(folder, runs) {
  const timesOf = (name) =>
    existsSync(join(folder, name))
      ? [...readFileSync(join(folder, name), 'utf8').matchAll(/"gpu__time_duration.sum","ns","([\d,]+)"/g)].map(
          ([, text]) => Number(text.replaceAll(',', '')) / 1000,
        )
      : [];
  const found = variantsOf(runs).find(({ name }) => name === 'flashcore_v6 USE_WMMA=1')?.variant;
  if (!found) return undefined;
  const [cold, hot] = [benchmarkOf(found, 'COLD'), benchmarkOf(found, 'HOT')];
  const rows = [
    [
      'caches flushed',
      figure(cold.latency.p50Us - cold.eventOverheadUs),
      'cold, less an empty event pair',
      timesOf('ncu.time.cache-all.csv').at(-1),
    ],
    ['caches warm', figure(hot.latency.p50Us), 'hot', timesOf('ncu.time.cache-none.csv').at(-1)],
  ];
  return [
    ['', 'ours, us', 'what', 'ncu gpu__time_duration, us', 'ours over ncu'],
    ...rows.map(([what, ours, how, ncu]) => [what, ours, how, figure(ncu), figure(Number(ours) / ncu, 3)]),
  ];
}

function sdpaRows(report) {
  return (
    report && [
      ['shape', 'backend', 'plain, us', 'ours, us', 'ours over plain'],
      ...Object.entries(report).flatMap(([shape, backends]) =>
        Object.entries(backends).map(([name, { plain_us, flashcore_us, ratio }]) => [
          shape,
          name,
          figure(plain_us),
          figure(flashcore_us),
          figure(ratio, 4),
        ]),
      ),
    ]
  );
}

function aaRows(report) {
  return (
    report && [
      ['mode', 'medians, us', 'ratio', 'interval'],
      ...Object.entries(report.modes).map(([mode, { medians_us, ratio, low, high }]) => [
        mode.toLowerCase(),
        medians_us.map((us) => us.toFixed(2)).join(', '),
        figure(ratio, 5),
        `${figure(low, 5)} to ${figure(high, 5)}`,
      ]),
    ]
  );
}

function editRows(rounds, extension) {
  if (!rounds) return undefined;
  const phases = ['build', 'verify', 'benchmark', 'gates', 'profile'];
  const rows = rounds.map(({ seconds, phases: took, before_first_phase: start }, index) => [
    `edit ${index + 1}`,
    figure(start),
    ...phases.map((phase) => figure(took[phase])),
    figure(seconds - took.profile),
    figure(seconds),
  ]);
  const beside = extension
    ? [
        [
          'torch.utils.cpp_extension.load_inline of the same kernel',
          '',
          figure(extension.build_seconds),
          '',
          '',
          '',
          '',
          '',
          '',
        ],
      ]
    : [];
  return [['', 'start', ...phases, 'all but the profile', 'all'], ...rows, ...beside];
}

function faultyRows(rows) {
  return (
    rows && [
      ['kernel', 'named', 'CUDA error', 'options', 'next good kernel, s', 'its figures'],
      ...rows.map(({ id, wanted, found, cudaErrors, options, good_seconds, good_same }) => [
        id,
        found.includes(wanted) ? wanted : `**${found.join(', ') || 'nothing'}**, not ${wanted}`,
        [...new Set(cudaErrors)].filter(Boolean).join(', '),
        options.join(' '),
        figure(good_seconds),
        good_same ? 'equal' : '**changed**',
      ]),
    ]
  );
}

function primitiveRows(report) {
  const told = (found = '') => {
    if (typeof found === 'string') return found;
    return found.agrees ? found.detail : `**${found.detail}**`;
  };
  return (
    report && [
      ['function', 'rule', 'emulator', 'GPU', 'GPU against emulator'],
      ...report.primitives.map(({ name, rule, emulator, gpu, gpuAgainstEmulator }) => [
        name,
        rule,
        told(emulator),
        told(gpu),
        told(gpuAgainstEmulator),
      ]),
    ]
  );
}

const FOUND_WHEN = { verify: 'checked', benchmark: 'timed' };

function cheatingRows(report) {
  if (!report) return undefined;
  const cold = report.pinned_l2_cold_p50_us;
  return [
    ['kernel', 'named', 'wanted', 'found when', 'what it said'],
    ...report.kernels.map(({ id, found, wanted, as_wanted: right, caught_in: phase, messages }) => [
      id,
      right ? found.join(', ').replace('NONE', 'nothing') : `**${found.join(', ')}**`,
      wanted.join(', ').replace('NONE', 'nothing'),
      found[0] === 'NONE' ? '' : FOUND_WHEN[phase],
      id === 'pinned_l2'
        ? `cold p50 ${figure(cold[1])} us pinned, ${figure(cold[0])} us not`
        : (messages[0] ?? 'right').replaceAll('|', '\\|'),
    ]),
  ];
}

function boxRows(report) {
  return (
    report && [
      ['', 'first job, s', 'second and third job, s', 'cold, us', 'hot, us', 'interval of hot'],
      ...Object.entries(report).map(
        ([
          ,
          {
            isolation,
            verify_seconds: [first, ...others],
            p50_us: { TIMING_MODE_COLD: cold, TIMING_MODE_HOT: hot },
          },
        ]) => [
          isolation.kind === 'none' ? 'no box' : 'boxed',
          figure(first),
          others.map((seconds) => figure(seconds)).join(', '),
          figure(cold[1]),
          figure(hot[1], 3),
          `${figure(hot[0], 3)} to ${figure(hot[2], 3)}`,
        ],
      ),
    ]
  );
}

function recoveryRows(report) {
  if (!report) return undefined;
  const of = (key) => report.rounds.map((round) => round[key]).sort((a, b) => a - b);
  return [
    ['', 'median', 'slowest', 'times'],
    ...[
      ['process gone', 'goneMs'],
      ['canary kernel answered in a new process', 'servesMs'],
    ].map(([title, key]) => [
      title,
      figure(of(key)[of(key).length >> 1], 0),
      figure(of(key).at(-1), 0),
      report.rounds.length,
    ]),
  ];
}
