/** Fields of the contract that had another name in a JSON document of an earlier version: old name to present one. */
const RENAMED: Readonly<Record<string, string>> = {
  baselines: 'sdpa',
  baselinesMissing: 'sdpaMissing',
  againstItself: 'selfCheck',
  speedupAgainst: 'speedupOverChampion',
};

/**
 * A JSON document of any version of the contract with the names of the present one. Recordings and stored results
 * outlive renames; on the wire a field is its number.
 */
export function withCurrentNames(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(withCurrentNames);
  if (json === null || typeof json !== 'object') return json;
  return Object.fromEntries(
    Object.entries(json).map(([name, value]) => [RENAMED[name] ?? name, withCurrentNames(value)]),
  );
}
