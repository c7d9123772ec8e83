/** Tables of kernels that are meant to fail, and of each PTX instruction. */
import { figure, type Table } from './markdown.ts';
import { jsonOf } from './results.ts';

interface FaultyKernel {
  id: string;
  wanted: string;
  found: string[];
  cudaErrors: string[];
  options: string[];
  good_seconds: number;
  good_same: boolean;
}

export function faultyRows(folder: string): Table {
  const kernels = jsonOf<FaultyKernel[]>(folder, 'faulty.json');
  return (
    kernels && [
      ['kernel', 'named', 'CUDA error', 'options', 'next good kernel, s', 'its figures'],
      ...kernels.map(({ id, wanted, found, cudaErrors, options, good_seconds: seconds, good_same: same }) => [
        id,
        found.includes(wanted) ? wanted : `**${found.join(', ') || 'nothing'}**, not ${wanted}`,
        [...new Set(cudaErrors)].filter(Boolean).join(', '),
        options.join(' '),
        figure(seconds),
        same ? 'equal' : '**changed**',
      ]),
    ]
  );
}

interface CheatingReport {
  kernels: CheatingKernel[];
  /** The times of pinned_l2, by the value of PINNED. */
  pinned_l2_cold_p50_us: Record<'0' | '1', number>;
}

interface CheatingKernel {
  id: string;
  wanted: string[];
  found: string[];
  as_wanted: boolean;
  caught_in: string;
  messages: string[];
}

const FOUND_WHEN: Readonly<Record<string, string>> = { verify: 'checked', benchmark: 'timed' };

export function cheatingRows(folder: string): Table {
  const report = jsonOf<CheatingReport>(folder, 'cheating.json');
  if (!report) return undefined;
  const { '0': unpinnedUs, '1': pinnedUs } = report.pinned_l2_cold_p50_us;
  return [
    ['kernel', 'named', 'wanted', 'found when', 'what it said'],
    ...report.kernels.map(({ id, found, wanted, as_wanted: right, caught_in: phase, messages }) => [
      id,
      right ? found.join(', ').replace('NONE', 'nothing') : `**${found.join(', ')}**`,
      wanted.join(', ').replace('NONE', 'nothing'),
      found[0] === 'NONE' ? '' : (FOUND_WHEN[phase] ?? phase),
      id === 'pinned_l2'
        ? `cold p50 ${figure(pinnedUs)} us pinned, ${figure(unpinnedUs)} us not`
        : (messages[0] ?? 'right').replaceAll('|', '\\|'),
    ]),
  ];
}

interface PrimitivesReport {
  primitives: Primitive[];
}

interface Primitive {
  name: string;
  rule: string;
  emulator?: Agreement;
  gpu?: Agreement;
  gpuAgainstEmulator?: Agreement;
}

/** Either whether the two agree, or a text that says why they were not compared. */
type Agreement = string | { agrees: boolean; detail: string };

export function primitiveRows(folder: string): Table {
  const report = jsonOf<PrimitivesReport>(folder, 'primitives.json');
  return (
    report && [
      ['function', 'rule', 'emulator', 'GPU', 'GPU against emulator'],
      ...report.primitives.map(({ name, rule, emulator, gpu, gpuAgainstEmulator }) => [
        name,
        rule,
        agreementText(emulator),
        agreementText(gpu),
        agreementText(gpuAgainstEmulator),
      ]),
    ]
  );
}

function agreementText(found: Agreement = ''): string {
  if (typeof found === 'string') return found;
  return found.agrees ? found.detail : `**${found.detail}**`;
}
