import { copyFileSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type Box, type BoxPolicy, sizeOfMade } from '../sandbox/box.ts';
import { makeTemporary } from '../store/temporary.ts';
import { untilAborted } from '../async.ts';
import { toolchainFolder } from './compile-stages.ts';
import { runProgram } from '../sandbox/run.ts';
import type { Toolchain } from './toolchain.ts';

/** A listing in SASS, or the reason why the host can't make one. */
export type Listing = { text: Buffer } | { missing: string };

/** Joins the listings of several cubins; if one is missing, returns the reason. */
export function joinedListing(listings: readonly Listing[]): Listing {
  const missing = listings.find((each) => 'missing' in each);
  return missing ?? { text: Buffer.concat(listings.flatMap((each) => ('text' in each ? [each.text] : []))) };
}

const LIMIT_MS = 60_000;
const MAX_FILE_BYTES = 256 * 1024 ** 2;
const MAX_ADDRESS_BYTES = 4 * 1024 ** 3;
/** cuobjdump prints the listing in the usual form; nvdisasm adds source lines and the calls that inlined them. */
const FLAGS = { cuobjdump: '-sass', nvdisasm: '-gi -c' } as const;
// Writes to a file, because a listing has more lines than the runner keeps of a tool's output.
const script = (flags: string): string => `exec "$0" ${flags} kernel.cubin >kernel.sass`;

interface DisassemblyOptions {
  tool: keyof typeof FLAGS;
  toolchain: Toolchain;
  box: () => Promise<Box>;
  dataDirectory: string;
  signal: AbortSignal;
}

/**
 * Disassembles a cubin in the compilers' sandbox. Errors: the signal's reason, DEVICE_UNAVAILABLE if a
 * required sandbox is missing.
 */
export async function disassemble(
  cubin: string,
  { tool, toolchain, box: findBox, dataDirectory, signal }: DisassemblyOptions,
): Promise<Listing> {
  const disassembler = toolchain.path(tool);
  if (!disassembler) return { missing: `${tool} was not found: it comes with the CUDA toolkit` };
  using folder = makeTemporary(dataDirectory, 'sass');
  copyFileSync(cubin, join(folder.path, 'kernel.cubin'));
  const policy: BoxPolicy = {
    kind: 'compiler',
    folder: folder.path,
    readable: [toolchainFolder(disassembler)],
    limits: { cpuSeconds: LIMIT_MS / 1000, fileBytes: MAX_FILE_BYTES, addressBytes: MAX_ADDRESS_BYTES },
  };
  const boxes = await untilAborted(findBox(), signal);
  const box = await untilAborted(boxes.for(disassembler, ['--version'], policy), signal);
  using group = box.group(basename(folder.path));
  const { program, args } = group.enter(box.wrap('/bin/sh', ['-c', script(FLAGS[tool]), disassembler], policy));
  const { exitCode, lines } = await runProgram(program, args, { cwd: folder.path, limitMs: LIMIT_MS, signal });
  const listing = join(folder.path, 'kernel.sass');
  if (exitCode === 0 && sizeOfMade(listing) > 0) return { text: readFileSync(listing) };
  return {
    missing: `${tool} ${exitCode === undefined ? `was killed after ${LIMIT_MS / 1000} s` : `ended with exit status ${exitCode}`}: ${lines.findLast((line) => line.trim() !== '') ?? 'it said nothing'}`,
  };
}
