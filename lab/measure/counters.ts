/**
 * `npm run counters`: profiles the ladder's builds on the emulator's PTX engine and compares them with what ncu read on
 * a GPU (lab/results/h200-…/run.*.json). Prints a line per build and writes
 * lab/results/emulator-<date>/counters.json, from which `npm run ladder` makes the table in docs/emulator.md. Exit
 * code 1: for some build the conflicts differ by more than 0.1 percentage points, or the wavefronts per request by more
 * than 1 %, and the page does not list the build as open.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { VariantResult } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { countersOf, isWithin, measuredCounters, type CounterComparison } from '../tables/measured-counters.ts';
import { Home, ROOT } from '@flashcore/test/support/home';

const LIMIT_MS = 300_000;

await using home = new Home();
const { address } = await home.startDaemonAt(`unix:${join(home.path, 'runner.sock')}`, '--emulator-engine', 'ptx');
const builds: CounterComparison[] = [];
for (const { kernel, folder, variant, source, open } of measuredCounters()) {
  const modelled = profileOf(folder, variant);
  const row: CounterComparison = {
    kernel,
    label: variant.label,
    shape: formatShape(variant.profile!.shape!),
    ncu: countersOf(variant.profile!),
    modelled: countersOf(modelled.profile!),
    source,
    open,
  };
  builds.push(row);
  console.log(
    [kernel, variant.label, JSON.stringify(row.ncu), JSON.stringify(row.modelled), isWithin(row) ? '' : 'OFF'].join(
      ' ',
    ),
  );
}
const folder = join(ROOT, 'lab/results', `emulator-${new Date().toISOString().slice(0, 10)}`);
mkdirSync(folder, { recursive: true });
writeFileSync(
  join(folder, 'counters.json'),
  `${JSON.stringify({ command: 'npm run counters', builds }, undefined, 2)}\n`,
);
if (builds.some((row) => !isWithin(row) && row.open === undefined)) process.exitCode = 1;

function profileOf(kernelFolder: string, { parameters, profile }: VariantResult): VariantResult {
  const settings = Object.entries(parameters).flatMap(([name, value]) => ['--set', `${name}=${value}`]);
  const { response } = home.runJson(
    ['profile', kernelFolder, ...settings, '--shape', formatShape(profile!.shape!), '--runner', address],
    { timeoutMs: LIMIT_MS },
  );
  const [variant] = response.result?.variants ?? [];
  if (variant?.profile?.modelled !== true) throw new Error(`${kernelFolder} was not counted: ${response.job?.summary}`);
  return variant;
}
