import path from 'node:path';
import {
  MANIFEST_FILE,
  isTritonSource,
  loadManifest,
  manifestOfCompiled,
  parseManifest,
  resolveVariant,
  tritonUnits,
} from '@flashcore/shared/kernels';
import { entryOf, shellWord, withoutEntry } from '@flashcore/shared/text';
import { sanitize } from '../present/cells/cell-text.ts';
import { compileTriton } from '../search/compile-triton.ts';
import { sourceOfFolder, writeSource } from '../search/kernel-source.ts';
import type { CommandContext } from './context.ts';
import { parseKernelArgument } from './kernel-argument.ts';
import { variantSettings, type JobCommandOptions } from './options.ts';
import { rememberFolder } from './start-job.ts';
import { idOfFolder, makeFolder, requireFree } from './new-kernel.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

export interface CompileOptions {
  /** The folder to create. */
  readonly to?: string;
  readonly set?: string[];
  readonly config?: string;
  readonly arch?: string;
}

/**
 * `fa-tui compile <folder> --to <new folder>`: compiles a kernel in Triton's Python to a kernel folder of PTX with this
 * machine's Triton, for runners whose host has no Triton. The Python file is copied too, so that its lines can be
 * shown.
 */
export async function compileKernel(
  text: string,
  options: JobCommandOptions & CompileOptions,
  context: CommandContext,
): Promise<ExitCode> {
  const { to } = options;
  if (to === undefined) throw new UsageError('--to <folder>: give the folder to make');
  const kernel = await parseKernelArgument(text);
  if (kernel.kind !== 'folder') throw new UsageError(`${text}: must be a folder, because its Python runs here`);
  const folder = path.resolve(to);
  const id = idOfFolder(folder, to);
  requireFree(folder);
  const manifest = await loadManifest(kernel.folder);
  const { source } = manifest;
  if (!isTritonSource(source)) throw new UsageError(`${source}: must be Python for Triton; a runner builds this one`);
  const files = await sourceOfFolder(kernel.folder);
  const resolved = resolveVariant(manifest, variantSettings(options));
  const made = compileTriton({
    folder: kernel.folder,
    source,
    request: {
      entries: tritonUnits(manifest, resolved),
      arch: resolved.arch ?? manifest.minArch,
    },
    environment: context.surroundings.environment,
  });
  for (const line of made.lines) context.note(sanitize(line));
  if (made.ptx === undefined) {
    context.note(`Triton ${made.version} refuses it; nothing was written`);
    return ExitCode.FAILED;
  }
  const ptxName = `${path.basename(source, '.py')}.ptx`;
  const yaml = manifestOfCompiled(files[MANIFEST_FILE]!, { id, source: ptxName, ptx: made.ptx, resolved });
  parseManifest(yaml, path.join(folder, MANIFEST_FILE), manifest.problem.brought);
  // The PTX names the Python file without its folder, so the file is copied to the top of the new folder.
  const python = entryOf(files, source)!;
  const others = withoutEntry(files, source);
  makeFolder(folder);
  writeSource(folder, { ...others, [path.basename(source)]: python, [ptxName]: made.ptx, [MANIFEST_FILE]: yaml });
  rememberFolder(folder, context);
  if (context.options.json) context.document({ kernel: id, folder, triton: made.version, ptx: ptxName });
  else
    context.report([
      `${sanitize(folder)}  ${id}: ${ptxName}, made by Triton ${made.version} (${resolved.label})`,
      `  fa-tui verify ${shellWord(folder)}`,
    ]);
  return ExitCode.PASSED;
}
