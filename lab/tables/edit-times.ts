/**
 * The time from an edit of a kernel to its gates, by phase, next to the time of PyTorch's way to build the same kernel.
 */
import { figure, type Table } from './markdown.ts';
import { jsonOf } from './results.ts';

const PHASES = ['build', 'verify', 'benchmark', 'gates', 'profile'] as const;

interface EditRound {
  seconds: number;
  phases: Record<(typeof PHASES)[number], number>;
  before_first_phase: number;
}

interface TorchExtension {
  build_seconds: number;
}

export const editRounds = (folder: string): EditRound[] | undefined => jsonOf(folder, 'edit-to-gates.json');

/** The same kernel behind a PyTorch binding, built by torch.utils.cpp_extension.load_inline. */
export const torchExtension = (folder: string): TorchExtension | undefined => jsonOf(folder, 'torch-extension.json');

export function editRows(folder: string): Table {
  const rounds = editRounds(folder);
  if (!rounds) return undefined;
  const extension = torchExtension(folder);
  return [
    ['', 'start', ...PHASES, 'all but the profile', 'all'],
    ...rounds.map(({ seconds, phases, before_first_phase: start }, index) => [
      `edit ${index + 1}`,
      figure(start),
      ...PHASES.map((phase) => figure(phases[phase])),
      figure(seconds - phases.profile),
      figure(seconds),
    ]),
    ...(extension ? [extensionRow(extension)] : []),
  ];
}

const extensionRow = ({ build_seconds: seconds }: TorchExtension): string[] => [
  'torch.utils.cpp_extension.load_inline of the same kernel',
  '',
  figure(seconds),
  ...Array.from({ length: PHASES.length + 1 }, () => ''),
];
