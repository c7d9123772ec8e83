/** Names of timing modes, enums and fields in texts and JSON, including those of earlier versions. */
import { TimingMode } from '../generated/flashcore/runner/v1/result_pb.js';
import { entryOf } from '../text/entry-of.ts';

/** Timing modes by the names that manifests, options and texts use. */
export const TIMING_MODES = { cold: TimingMode.COLD, hot: TimingMode.HOT } as const;

/** "cold" or "hot"; undefined for a mode that is not set or not known here. */
export const timingModeName = (mode: TimingMode): keyof typeof TIMING_MODES | undefined =>
  (['cold', 'hot'] as const).find((name) => TIMING_MODES[name] === mode);

/** The fields of a contract message. */
export type Plain<Message> = Omit<Message, '$typeName' | '$unknown'>;

/** The names of a contract enum. */
export type EnumName<Enum> = Exclude<keyof Enum & string, 'UNSPECIFIED'>;

/** Current name of each field that had another name in JSON documents of earlier versions. */
const RENAMED: Readonly<Record<string, string>> = {
  baselines: 'sdpa',
  baselinesMissing: 'sdpaMissing',
  againstItself: 'selfCheck',
  speedupAgainst: 'speedupOverChampion',
};

/** Texts that used to begin with the words of the adjacent verdict and are now only the reason. */
const REASONS = new Set(['clockSource', 'detail', 'entriesMissing', 'missing', 'notMeasured', 'reason', 'sdpaMissing']);
const VERDICT_WORDS = ['not measured: ', 'not judged: '] as const;

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
