/** Labels of a job's request, stored in the column `jobs.labels` as a JSON object of strings. */
export type Labels = Readonly<Record<string, string>>;

/** Equal labels give equal text, whatever their order. */
export const labelsText = (labels: Labels): string =>
  JSON.stringify(Object.fromEntries(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))));

export const readLabels = (text: string): Record<string, string> => JSON.parse(text) as Record<string, string>;

/** SQL conditions on rows of `jobs`, with their values: the row has all of these labels. */
export function labelConditions(labels: Labels): { conditions: string[]; values: string[] } {
  const entries = Object.entries(labels);
  if (entries.length === 0) return { conditions: [], values: [] };
  // The first condition lets SQLite use the index of labelled jobs.
  return {
    conditions: ["labels <> '{}'", ...entries.map(() => 'json_extract(labels, ?) = ?')],
    values: entries.flatMap(([name, value]) => [`$."${name}"`, value]),
  };
}
