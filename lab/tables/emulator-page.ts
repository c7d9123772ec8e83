/** Makes README.md of a folder that `npm run ladder:verify` has written. */
import { markdownTable } from './markdown.ts';
import { emulatorRun, jsonOf, type EmulatorRun } from './results.ts';

export function emulatorPage(folder: string): string {
  const run = jsonOf<
    EmulatorRun & {
      command: string;
      started: string;
      seconds: number;
      seedsPerCase: number;
      device: string;
      failed: number;
      gpuOnly: string[];
    }
  >(folder, 'ladder.json')!;
  const cases = run.builds.flatMap((build) => build.cases);
  return [
    `# The ladder on ${run.device}, ${run.started.slice(0, 10)}\n`,
    `\`${run.command}\`: ${run.builds.length} builds, ${cases.length} cases of ${run.seedsPerCase} seeds, ${run.refusals.length} shapes refused, in ${(run.seconds / 60).toFixed(0)} min; ${run.failed} not as wanted. ${run.tools.join(', ')}.${run.gpuOnly.length > 0 ? ` Not on this engine: ${run.gpuOnly.join(', ')}.` : ''} Every figure is in ladder.json.\n`,
    markdownTable(
      ['kernel', 'build', 'verdict', 'cases right', 'probes right', 'largest error of a case'],
      run.builds.map(({ kernel, label, verdict, cases: each, probes }) => [
        kernel,
        label,
        verdict,
        right(each),
        probes === undefined ? 'not run' : right(probes),
        Math.max(...each.map(({ maxAbsError }) => maxAbsError)).toExponential(1),
      ]),
    ),
    `## Refused before a launch, with the limit named\n\n${markdownTable(
      ['kernel', 'shapes'],
      [...Map.groupBy(run.refusals, ({ kernel }) => kernel)].map(([kernel, each]) => [
        kernel,
        each.map(({ shape, verdict }) => (verdict === 'refused' ? shape : `**${shape}: ${verdict}**`)).join(', '),
      ]),
    )}`,
  ].join('\n');
}

const right = (each: readonly { verdict: string }[]): string =>
  `${each.filter(({ verdict }) => verdict === 'PASS').length} of ${each.length}`;

const BUILD_GROUPS: Record<string, 'right' | 'documented'> = { passed: 'right', 'fails as documented': 'documented' };

/** The newest run's verdict in one sentence. */
export function emulatorSentence(run: EmulatorRun | undefined = emulatorRun()): string {
  if (!run) return 'The ladder was not verified on the emulator yet.\n';
  const {
    right = [],
    documented = [],
    wrong = [],
  } = Object.groupBy(run.builds, ({ verdict }) => BUILD_GROUPS[verdict] ?? 'wrong');
  const cases = right.flatMap((build) => build.cases);
  const { refused = [], taken = [] } = Object.groupBy(run.refusals, ({ verdict }) =>
    verdict === 'refused' ? 'refused' : 'taken',
  );
  return (
    `On the emulator ${right.length} builds of ${new Set(right.map(({ kernel }) => kernel)).size} kernels are right in all of their ${cases.length} cases, ${seedsOf(cases)} each, and ${refused.length} shapes outside of the limits are refused` +
    `${wrong.length > 0 ? `; **wrong: ${wrong.map(({ kernel, label }) => `${kernel} ${label}`).join(', ')}**` : ''}${taken.length > 0 ? `; **not refused: ${taken.map(({ kernel, shape }) => `${kernel} ${shape}`).join(', ')}**` : ''}` +
    `${documented.length > 0 ? `; ${documented.map(({ kernel, label }) => `${kernel} ${label.split(' ').at(-1)}`).join(', ')} fails parity, as its manifest says` : ''}: [all cases](../lab/results/${run.folder}), \`npm run ladder:verify\`.\n`
  );
}

function seedsOf(cases: EmulatorRun['builds'][number]['cases']): string {
  const seeds = [...new Set(cases.map((each) => each.seeds))].sort((a, b) => a - b);
  return seeds.length > 1 ? `${seeds[0]} to ${seeds.at(-1)} seeds` : `${seeds[0] ?? 0} seeds`;
}
