/** Fields of the contract that had another name in a JSON document of an earlier version: old name to present one. */
import { entryOf } from '../text/entry-of.ts';

const RENAMED: Readonly<Record<string, string>> = {
  baselines: 'sdpa',
  baselinesMissing: 'sdpaMissing',
  againstItself: 'selfCheck',
  speedupAgainst: 'speedupOverChampion',
};

/** Texts that once began with the words of the verdict beside them; now they are the bare reason. */
const REASONS = new Set(['clockSource', 'detail', 'entriesMissing', 'missing', 'notMeasured', 'reason', 'sdpaMissing']);
export const VERDICT_WORDS = ['not measured: ', 'not judged: '] as const;

/**
 * A JSON document of any version of the contract with the names of the present one. Recordings and stored results
 * outlive renames; on the wire a field is its number.
 */
export function withCurrentNames(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(withCurrentNames);
  if (json === null || typeof json !== 'object') return json;
  return Object.fromEntries(
    Object.entries(json).flatMap(([old, value]): [string, unknown][] => {
      const name = entryOf(RENAMED, old) ?? old;
      if (name === 'labels') return [[name, value]]; // Their names and texts are the client's.
      if (value === '') return []; // It meant "none", which is now an absent field.
      const isReason = typeof value === 'string' && REASONS.has(name);
      return [[name, isReason ? bareReason(value) : withCurrentNames(value)]];
    }),
  );
}

function bareReason(text: string): string {
  const words = VERDICT_WORDS.find((each) => text.startsWith(each));
  return words === undefined ? text : text.slice(words.length);
}
