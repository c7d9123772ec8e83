/** The command line asks for something that can't be done. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
