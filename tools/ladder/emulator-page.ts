/** README.md of a folder that `npm run ladder:verify` wrote. */
import { markdownTable } from './markdown.ts';
import { emulatorRun, jsonOf, type EmulatorRun } from './results.ts';

export function emulatorPage(folder: string): string {
  const run = jsonOf<EmulatorRun & { command: string; started: string; seconds: number; seedsPerCase: number; device: string; gpuOnly: string[] }>(folder, 'ladder.json')!;
  const cases = run.builds.flatMap((build) => build.cases);
  return [
    `# The ladder on ${run.device}, ${run.started.slice(0, 10)}\n`,
    `\`${run.command}\`: ${run.builds.length} builds, ${cases.length} cases of ${run.seedsPerCase} seeds, ${run.refusals.length} shapes refused, in ${(run.seconds / 60).toFixed(0)} min; ${run.failed} not as wanted. ${run.tools.join(', ')}. For a GPU only: ${run.gpuOnly.join(', ')}. Every figure is in ladder.json.\n`,
    markdownTable(['kernel', 'build', 'verdict', 'cases right', 'largest error'], run.builds.map(({ kernel, label, verdict, cases: each }) =>
      [kernel, label, verdict, `${each.filter((one) => one.verdict === 'PASS').length} of ${each.length}`, Math.max(...each.map(({ maxAbsError }) => maxAbsError)).toExponential(1)])),
    `## Refused before a launch, with the limit named\n\n${markdownTable(['kernel', 'shapes'], [...Map.groupBy(run.refusals, ({ kernel }) => kernel)].map(([kernel, each]) => [kernel, each.map(({ shape, verdict }) => (verdict === 'refused' ? shape : `**${shape}: ${verdict}**`)).join(', ')]))}`,
  ].join('\n');
}

/** The newest run's verdict in a sentence. */
export function emulatorSentence(): string {
  const run = emulatorRun();
  if (!run) return 'The ladder was not verified on the emulator yet.\n';
  const documented = run.builds.filter(({ verdict }) => verdict === 'fails as documented').map(({ kernel, label }) => `${kernel} ${label.split(' ').at(-1)}`);
  return `On the emulator ${run.builds.length - documented.length} builds of ${new Set(run.builds.map(({ kernel }) => kernel)).size} kernels are right in all of their ${run.builds.filter(({ verdict }) => verdict === 'passed').flatMap(({ cases }) => cases).length} cases, five seeds each, and ${run.refusals.length} shapes outside of the limits are refused`
    + `${run.failed > 0 ? `; **${run.failed} not as wanted**` : ''}${documented.length > 0 ? `; ${documented.join(', ')} fails parity, as its manifest says` : ''}: [all cases](../docs/results/${run.folder}), \`npm run ladder:verify\`.\n`;
}
