import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { collectKernel, NothingToExport } from '../export/collect.ts';
import { unverifiedNotice, type ExportedKernel } from '../export/exported-kernel.ts';
import { EXPORT_OPTIONS, type ExportFormat } from '../export/export-options.ts';
import { requireWritable } from '../named-files.ts';
import type { CommandContext } from './context.ts';
import { kernelReference, otherName, parseKernelArgument } from './kernel-argument.ts';
import { jobSettings, variantSettings, type JobCommandOptions } from './options.ts';
import { flashInferFiles } from '../export/flashinfer.ts';
import { kernelBuilderFiles } from '../export/kernel-builder.ts';
import { kernelBenchFiles } from '../export/kernelbench.ts';
import { popcornFile } from '../export/popcorn.ts';
import { robustKbenchFiles } from '../export/robust-kbench.ts';
import { torchFile } from '../export/torch-file.ts';
import { wheelFiles } from '../export/torch-wheel.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

/** The text of a file, or files by path below a folder. */
type ExportedFiles = string | Readonly<Record<string, string | Uint8Array>>;

/** The output of each option. */
const EXPORTS: Readonly<Record<ExportFormat, (kernel: ExportedKernel) => ExportedFiles>> = {
  torch: torchFile,
  wheel: wheelFiles,
  kernelbench: kernelBenchFiles,
  flashinfer: flashInferFiles,
  robustKbench: robustKbenchFiles,
  popcorn: popcornFile,
  hf: kernelBuilderFiles,
};

/** The path of each format, as commander returns options: a file for torch and popcorn, folders for the others. */
export type ExportCommandOptions = JobCommandOptions &
  Partial<Record<ExportFormat, string>> & { readonly unverified?: boolean };

/**
 * `fa-tui export <kernel or folder>`: builds the kernel and writes the requested formats. Exit code 1 if it does not
 * build or its last verdict was wrong.
 */
export async function exportKernel(
  kernelText: string,
  options: ExportCommandOptions,
  context: CommandContext,
): Promise<ExitCode> {
  const wanted = EXPORT_OPTIONS.filter(({ format }) => options[format] !== undefined);
  if (wanted.length === 0)
    throw new UsageError(`Nothing to write: give ${EXPORT_OPTIONS.map(({ option }) => option).join(', ')}`);
  requireModuleName(options.torch);
  requireWritable({ '--torch': options.torch, '--popcorn': options.popcorn });
  const kernel = await parseKernelArgument(kernelText);
  if (kernel.kind === 'build')
    throw new UsageError(`${kernelText} is a build: give its kernel or a folder, whose manifest can be read`);
  if (otherName(kernel)) context.note(otherName(kernel));
  return context.withRunner(async (connection) => {
    const request = {
      options: jobSettings(options),
      variant: variantSettings(options),
      kernel: await kernelReference(kernel, connection.client),
    };
    try {
      const exported = await collectKernel(connection, kernel, request, {
        unverified: options.unverified ?? false,
        formats: wanted.map(({ format }) => format),
      });
      const written = wanted.flatMap(({ format }) => writeFiles(options[format]!, EXPORTS[format](exported)));
      const { manifest, arch, origin } = exported;
      const notice = unverifiedNotice(exported);
      if (notice !== undefined) context.note(notice);
      if (context.options.json) context.document({ kernel: manifest.id, arch, buildId: origin.buildId, written });
      else context.report(written.map((file) => `${file}  ${manifest.id} ${origin.label}, ${arch}`));
      return ExitCode.PASSED;
    } catch (error) {
      if (!(error instanceof NothingToExport)) throw error;
      context.surroundings.stderr.write(`error: ${error.message}\n`);
      return ExitCode.FAILED;
    }
  });
}

/** The file name must be a module name because Python imports the file by name. */
function requireModuleName(file: string | undefined): void {
  if (file !== undefined && !/^[A-Za-z_]\w*\.py$/.test(path.basename(file)))
    throw new UsageError(
      `--torch ${file}: must be a name that Python can import: letters, digits and _, then .py, for example my_kernel.py`,
    );
}

/** Writes a file, or files below a folder, and returns their paths. */
function writeFiles(place: string, files: ExportedFiles): string[] {
  if (typeof files === 'string') {
    writeFileSync(place, files);
    return [place];
  }
  return Object.entries(files).map(([name, text]) => {
    const file = path.join(place, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, text);
    return file;
  });
}
