/**
 * `text` with the first occurrence of `was` replaced.
 * @throws {Error} if nothing changes, because the test would then run on the unedited text.
 */
export function edited(text: string, was: string | RegExp, is: string): string {
  const after = text.replace(was, is);
  if (after === text) throw new Error(`nothing to edit: ${String(was)} is not there`);
  return after;
}
