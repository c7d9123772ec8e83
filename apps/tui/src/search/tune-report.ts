import { Verdict, type TuneResult, type TunedVariant } from '@flashcore/shared/contract';
import { plainLines } from '../present/plain/plain-painter.ts';
import { tuneBlocks } from '../present/sections/tuned.ts';

/** A line with the current state of a variant. */
export function variantLine(row: TunedVariant): string {
  const { label, registers, smemBytes, verified, dropped, reused } = row;
  if (dropped !== undefined) return `${label}: dropped: ${dropped}`;
  const resources = `${registers} registers, ${smemBytes} B shared`;
  if (verified === Verdict.NOT_MEASURED) return `${label}: ${registers > 0 ? resources : 'built'}`;
  const known = reused ? ' (known from before)' : '';
  return `${label}: right, ${row.p50Us === undefined ? resources : `${row.p50Us.toPrecision(4)} us`}${known}`;
}

const FORMAT = { width: 100, uncut: true, colors: false, ascii: false } as const;

/** The table of a search as text for programs. */
export const tuneText = (tune: TuneResult): string[] => plainLines(tuneBlocks(tune), FORMAT);
