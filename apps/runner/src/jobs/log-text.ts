/** Longest text of a LogLine, as job_event.proto gives it. */
export const MAX_LOG_LINE_CHARACTERS = 4096;

// ECMA-48: escape sequences (colours, cursor movement, titles) first, then single control characters; a tab stays.
const CONTROL =
  /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])|[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/g;

/** A line as it may be stored and shown: without control characters, at most 4096 characters. */
export function cleanLogLine(text: string): string {
  const clean = text.replace(CONTROL, '');
  if (clean.length <= MAX_LOG_LINE_CHARACTERS) return clean;
  return `${clean.slice(0, MAX_LOG_LINE_CHARACTERS - 1)}…`;
}
