/** README.md of a folder with measurements of things tried: copies of a kernel with one change each. */
import { join } from 'node:path';
import { fixed, markdownTable } from './markdown.ts';
import { experimentsOf, rowsOf } from './results.ts';

export function triedPage(folder: string): string {
  const rows = rowsOf(folder, /^bench\..*\.json$/).toSorted((a, b) => a.kernel.localeCompare(b.kernel));
  const { device, protocol } = experimentsOf(folder, /^bench\..*\.json$/)[0]!.result!.provenance!;
  return [
    `# Tried on ${device!.name}\n`,
    `Copies of a kernel with one change each, hot at 2x8x512x64, ${protocol}, ended after 0.4 s: figures for the kernels' \`notes\`, which say what was changed; not for a leaderboard. The commands are in ${join('.', 'commands.txt')}.\n`,
    markdownTable(['copy', 'hot p50 us', '95 % interval', 'registers', 'spills B', 'CTAs/SM', 'output'], rows.map(({ kernel, variant, benchmark: { latency, outputCheck } }) => {
      const [entry] = variant.build!.entries;
      return [kernel, fixed(latency!.p50Us, 2), `${fixed(latency!.p50LowUs, 2)} to ${fixed(latency!.p50HighUs, 2)}`, String(entry!.registersPerThread), String(entry!.spillStoreBytes + entry!.spillLoadBytes), String(entry!.ctasPerSm), outputCheck];
    })),
  ].join('\n');
}
