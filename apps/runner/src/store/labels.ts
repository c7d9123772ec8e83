/** Labels that a request gave its job, as the column `jobs.labels` keeps them: a JSON object of texts. */
export type Labels = Readonly<Record<string, string>>;

/** The same labels are the same text, in whatever order they came. */
export const labelsText = (labels: Labels): string =>
  JSON.stringify(Object.fromEntries(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))));

export const readLabels = (text: string): Record<string, string> => JSON.parse(text) as Record<string, string>;

/** Conditions on rows of `jobs`, with their values, that all of these labels are among a row's. */
export function labelConditions(labels: Labels): { conditions: string[]; values: string[] } {
  const entries = Object.entries(labels);
  if (entries.length === 0) return { conditions: [], values: [] };
  // The first condition leads to the index of labelled jobs.
  return {
    conditions: ["labels <> '{}'", ...entries.map(() => 'json_extract(labels, ?) = ?')],
    values: entries.flatMap(([name, value]) => [`$."${name}"`, value]),
  };
}
