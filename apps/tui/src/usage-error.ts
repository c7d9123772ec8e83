/** The command line is invalid; the text says what was expected. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
