import { once } from 'node:events';
import path from 'node:path';
import type { CommandContext } from './context.ts';
import { ExitCode } from './exit-code.ts';
import { UsageError } from '../usage-error.ts';
import { requireWritable, writeWhole } from '../named-files.ts';

/**
 * `fa-tui artifact <sha256> [-o file]`: writes the artifact's bytes, checked against their digest, to a file or to a
 * stdout that is not a terminal.
 */
export function readArtifact(
  sha256: string,
  { output }: { readonly output?: string },
  context: CommandContext,
): Promise<ExitCode> {
  if (!/^[0-9a-f]{64}$/i.test(sha256))
    throw new UsageError(`${sha256}: must be an artifact's SHA-256, 64 hexadecimal digits`);
  const { stdout } = context.surroundings;
  if (!output && stdout.isTTY)
    throw new UsageError('The artifact may be binary, and stdout is a terminal: give --output FILE, or use a pipe');
  requireWritable({ '--output': output });
  return context.withRunner(async ({ client }) => {
    const bytes = await client.readArtifact(sha256.toLowerCase());
    if (output) await writeWhole(path.resolve(output), bytes);
    else await writeBytes(bytes);
    return ExitCode.PASSED;
  });
}

async function writeBytes(bytes: Uint8Array): Promise<void> {
  if (!process.stdout.write(bytes)) await once(process.stdout, 'drain');
}
