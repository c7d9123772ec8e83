import { entryOf } from '../text/entry-of.ts';

/** Current name of each field that had another name in JSON documents of earlier versions. */
const RENAMED: Readonly<Record<string, string>> = {
  baselines: 'sdpa',
  baselinesMissing: 'sdpaMissing',
  againstItself: 'selfCheck',
  speedupAgainst: 'speedupOverChampion',
};

/** Texts that used to begin with the words of the adjacent verdict and are now only the reason. */
const REASONS = new Set(['clockSource', 'detail', 'entriesMissing', 'missing', 'notMeasured', 'reason', 'sdpaMissing']);
export const VERDICT_WORDS = ['not measured: ', 'not judged: '] as const;

/**
 * Converts a JSON document of any earlier contract version to the current field names. Recordings and stored results
 * outlive renames; on the wire a field is only a number.
 */
export function withCurrentNames(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(withCurrentNames);
  if (json === null || typeof json !== 'object') return json;
  return Object.fromEntries(
    Object.entries(json).flatMap(([old, value]): [string, unknown][] => {
      const name = entryOf(RENAMED, old) ?? old;
      if (name === 'labels') return [[name, value]]; // The client chooses the names and texts of labels.
      if (value === '') return []; // An empty text meant "none", which is now an absent field.
      const isReason = typeof value === 'string' && REASONS.has(name);
      return [[name, isReason ? bareReason(value) : withCurrentNames(value)]];
    }),
  );
}

function bareReason(text: string): string {
  const words = VERDICT_WORDS.find((each) => text.startsWith(each));
  return words === undefined ? text : text.slice(words.length);
}
