/** Tables as Markdown. */

/** A head and its rows; undefined where nothing was measured. */
export type Table = string[][] | undefined;

export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |\n`).join('');
}

/** With a column of notes where a row has one; below it, once, where all have the same. */
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

/** What to note of a measurement that its own protocol does not stand by; "" of any other. */
export const validity = ({ valid, invalidReason }: { valid: boolean; invalidReason?: string }): string =>
  valid ? '' : `**not valid**: ${invalidReason ?? 'no reason given'}`;

export const fixed = (value: number | undefined, digits: number): string =>
  value === undefined || Number.isNaN(value) ? '-' : value.toFixed(digits);

export const figure = (value: number | undefined, digits = 2): string =>
  value === undefined || Number.isNaN(value) ? 'not measured' : value.toFixed(digits);

/** A heading, a table and a remark below it; nothing where the table has no row. */
export function section(title: string, table: Table, remark?: string): string[] {
  if (!table || table.length < 2) return [];
  const [head, ...rows] = table;
  return [`## ${title}`, '', markdownTable(head!, rows), ...(remark === undefined ? [] : [remark, ''])];
}
