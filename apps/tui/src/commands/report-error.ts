import { exitCodeOfError as exitCodeOfReason, FlashcoreError } from '@flashcore/shared/contract';
import { errorText } from '@flashcore/shared/text';
import { sanitize, wrapWords } from '../present/cells/cell-text.ts';
import { styled } from '../present/plain/report-format.ts';
import type { CommandContext } from './context.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

/**
 * Prints the error and its remedy on stderr, and returns the exit code. With FA_TUI_DEBUG=1, the stack of a bug in
 * flashcore is printed too.
 */
export function reportError(error: unknown, context: CommandContext): ExitCode {
  const { stderr, environment } = context.surroundings;
  // In a log or a pipe a message is not wrapped, because people search for its words.
  const width = stderr.isTTY ? context.progressFormat.width - 'error: '.length : Infinity;
  const lines = messageOf(error)
    .split('\n')
    .flatMap((line, i) => (i === 0 ? wrapWords(line, width) : [sanitize(line)]));
  lines.forEach((line, i) =>
    stderr.write(`${i === 0 ? styled('error:', 'bad', context.progressFormat) : '      '} ${line}\n`),
  );
  if (environment.FA_TUI_DEBUG && error instanceof Error) stderr.write(`${error.stack}\n`);
  return exitCodeOfError(error);
}

/** 2 for a mistake of the user, 3 for other errors. */
function exitCodeOfError(error: unknown): ExitCode {
  if (error instanceof UsageError) return ExitCode.USAGE;
  return error instanceof FlashcoreError ? exitCodeOfReason(error.reason) : ExitCode.RUNNER_CANNOT;
}

function messageOf(error: unknown): string {
  if (error instanceof FlashcoreError) return withMetadata(error);
  if (error instanceof UsageError) return error.message;
  if (isSystemError(error)) return `The system refused it: ${error.message}`;
  return `A fault of fa-tui itself: ${errorText(error)}. FA_TUI_DEBUG=1 shows where`;
}

// Adds similar names, path and key from the metadata, unless the message already contains them.
function withMetadata({ message, metadata, reason }: FlashcoreError): string {
  const { nearest, path, key } = metadata;
  const missing = [
    nearest && !nearest.split(',').some((name) => message.includes(name.trim())) ? `nearest: ${nearest}` : '',
    path && !message.includes(path) ? `path: ${path}` : '',
    key && !message.includes(key) ? `key: ${key}` : '',
  ].filter(Boolean);
  return `${missing.length === 0 ? message : `${message} (${missing.join('; ')})`}${reason === 'KERNEL_NOT_FOUND' ? '; fa-tui kernels --all lists all' : ''}`;
}

const isSystemError = (error: unknown): error is NodeJS.ErrnoException =>
  error instanceof Error && typeof (error as NodeJS.ErrnoException).errno === 'number';
