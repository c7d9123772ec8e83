/** Tables as Markdown. */

/** A header and rows. Undefined if nothing was measured. */
export type Table = string[][] | undefined;

export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |\n`).join('');
}

/** Adds a column of notes if some row has a note. If all rows have the same note, it goes below the table instead. */
export function notedTable(
  head: readonly string[],
  rows: readonly { cells: readonly string[]; note: string }[],
): string {
  const notes = new Set(rows.map(({ note }) => note));
  if (notes.size > 1)
    return markdownTable(
      [...head, 'note'],
      rows.map(({ cells, note }) => [...cells, note]),
    );
  const [note] = notes;
  return `${markdownTable(
    head,
    rows.map(({ cells }) => cells),
  )}${note ? `\nEvery row is ${note}.\n` : ''}`;
}

/** A note if a measurement is invalid by its own protocol; "" otherwise. */
export const validity = ({ valid, invalidReason }: { valid: boolean; invalidReason?: string }): string =>
  valid ? '' : `**not valid**: ${invalidReason ?? 'no reason given'}`;

export const fixed = (value: number | undefined, digits: number): string =>
  value === undefined || Number.isNaN(value) ? '-' : value.toFixed(digits);

export const figure = (value: number | undefined, digits = 2): string =>
  value === undefined || Number.isNaN(value) ? 'not measured' : value.toFixed(digits);

/** A heading, a table and a remark below it; empty if the table has no rows. */
export function section(title: string, table: Table, remark?: string): string[] {
  if (!table || table.length < 2) return [];
  const [head, ...rows] = table;
  return [`## ${title}`, '', markdownTable(head!, rows), ...(remark === undefined ? [] : [remark, ''])];
}
