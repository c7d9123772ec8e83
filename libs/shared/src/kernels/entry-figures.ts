/** The resources of compiled entries by the names of their metrics, and which of a kernel's entries counts. */
import type { EntryResources } from '../generated/flashcore/runner/v1/result_pb.js';

interface EntryFigure {
  readonly counts: 'highest' | 'lowest';
  readonly of: (entry: EntryResources) => number;
}

const highest = (of: EntryFigure['of']): EntryFigure => ({ counts: 'highest', of });
const lowest = (of: EntryFigure['of']): EntryFigure => ({ counts: 'lowest', of });

export const ENTRY_FIGURES = {
  registers_per_thread: highest(({ registersPerThread }) => registersPerThread),
  smem_bytes_per_cta: highest(({ staticSmemBytes, dynamicSmemBytes }) => staticSmemBytes + dynamicSmemBytes),
  static_smem_bytes: highest(({ staticSmemBytes }) => staticSmemBytes),
  dynamic_smem_bytes: highest(({ dynamicSmemBytes }) => dynamicSmemBytes),
  spill_bytes: highest(({ spillStoreBytes, spillLoadBytes }) => spillStoreBytes + spillLoadBytes),
  local_bytes: highest(({ stackBytes }) => stackBytes),
  constant_bytes: highest(({ constantBytes }) => constantBytes),
  barriers: highest(({ barriers }) => barriers),
  threads_per_cta: highest(({ threadsPerCta }) => threadsPerCta),
  theoretical_ctas_per_sm: lowest(({ ctasPerSm }) => ctasPerSm),
  theoretical_occupancy_percent: lowest(({ occupancyPercent }) => occupancyPercent),
} satisfies Readonly<Record<string, EntryFigure>>;

export type EntryFigureName = keyof typeof ENTRY_FIGURES;

/** The figure of a kernel, such as the most registers or the fewest CTAs of its entries; undefined without entries. */
export function figureOfEntries(name: EntryFigureName, entries: readonly EntryResources[]): number | undefined {
  if (entries.length === 0) return undefined;
  const { counts, of } = ENTRY_FIGURES[name];
  const values = entries.map(of);
  return counts === 'highest' ? Math.max(...values) : Math.min(...values);
}
