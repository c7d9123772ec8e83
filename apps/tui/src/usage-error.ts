/** The command line asks for something that makes no sense; the text says what was wanted. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
