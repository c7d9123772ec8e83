import { copyFileSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Box, BoxPolicy } from '../sandbox/box.ts';
import { sizeOfMade } from '../sandbox/made-file.ts';
import { makeTemporary } from '../store/temporary.ts';
import { untilAborted } from '../async.ts';
import { toolchainFolder } from './compile-stages.ts';
import { runProgram } from '../sandbox/run.ts';
import type { Toolchain } from './toolchain.ts';

/** SASS from cuobjdump, or the reason why there is none. */
export type Listing = { text: Buffer } | { missing: string };

/** Joins the listings of several cubins; if one is missing, the reason. */
export function joinedListing(listings: readonly Listing[]): Listing {
  const missing = listings.find((each) => 'missing' in each);
  return missing ?? { text: Buffer.concat(listings.flatMap((each) => ('text' in each ? [each.text] : []))) };
}

const LIMIT_MS = 60_000;
const MAX_FILE_BYTES = 256 * 1024 ** 2;
const MAX_ADDRESS_BYTES = 4 * 1024 ** 3;
// Written to a file, because a listing has more lines than are kept of a tool's output.
const SCRIPT = 'exec "$0" -sass kernel.cubin >kernel.sass';

interface DisassemblyOptions {
  toolchain: Toolchain;
  box: () => Promise<Box>;
  dataDirectory: string;
  signal: AbortSignal;
}

/**
 * Disassembles a cubin with cuobjdump, in the compilers' sandbox. Errors: the signal's reason, DEVICE_UNAVAILABLE if a
 * required sandbox is missing.
 */
export async function disassemble(
  cubin: string,
  { toolchain, box: findBox, dataDirectory, signal }: DisassemblyOptions,
): Promise<Listing> {
  const cuobjdump = toolchain.path('cuobjdump');
  if (!cuobjdump) return { missing: 'cuobjdump was not found: it comes with the CUDA toolkit' };
  using folder = makeTemporary(dataDirectory, 'sass');
  copyFileSync(cubin, join(folder.path, 'kernel.cubin'));
  const policy: BoxPolicy = {
    kind: 'compiler',
    folder: folder.path,
    readable: [toolchainFolder(cuobjdump)],
    limits: { cpuSeconds: LIMIT_MS / 1000, fileBytes: MAX_FILE_BYTES, addressBytes: MAX_ADDRESS_BYTES },
  };
  const boxes = await untilAborted(findBox(), signal);
  const box = await untilAborted(boxes.for(cuobjdump, ['--version'], policy), signal);
  using group = box.group(basename(folder.path));
  const { program, args } = group.enter(box.wrap('/bin/sh', ['-c', SCRIPT, cuobjdump], policy));
  const { exitCode, lines } = await runProgram(program, args, { cwd: folder.path, limitMs: LIMIT_MS, signal });
  const listing = join(folder.path, 'kernel.sass');
  if (exitCode === 0 && sizeOfMade(listing) > 0) return { text: readFileSync(listing) };
  return {
    missing: `cuobjdump ${exitCode === undefined ? `was killed after ${LIMIT_MS / 1000} s` : `ended with exit status ${exitCode}`}: ${lines.findLast((line) => line.trim() !== '') ?? 'it said nothing'}`,
  };
}
