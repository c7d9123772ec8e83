import { plainLine } from '@flashcore/shared/text';

/** Longest text of a LogLine, as job_event.proto gives it. */
export const MAX_LOG_LINE_CHARACTERS = 4096;

/** A line as it may be stored and shown: without control characters, at most 4096 characters. */
export function cleanLogLine(text: string): string {
  const clean = plainLine(text);
  if (clean.length <= MAX_LOG_LINE_CHARACTERS) return clean;
  return `${clean.slice(0, MAX_LOG_LINE_CHARACTERS - 1)}…`;
}
