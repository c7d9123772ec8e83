/** Tables as Markdown. */

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
