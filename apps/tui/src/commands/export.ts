import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { create } from '@bufbuild/protobuf';
import { BuildRequestSchema, type Variant } from '@flashcore/shared/contract';
import { collectKernel, NothingToExport, type Wanted } from '../export/collect.ts';
import { unverifiedNotice, type ExportedKernel } from '../export/exported-kernel.ts';
import { EXPORT_OPTIONS, type ExportFormat } from '../export/export-options.ts';
import { requireWritable } from '../named-files.ts';
import type { CommandContext } from './context.ts';
import { kernelReference, otherName, parseKernelArgument, type KernelArgument } from './kernel-argument.ts';
import { jobSettings, variantSettings, type JobCommandOptions } from './options.ts';
import { flashInferFiles } from '../export/flashinfer.ts';
import { pagedDecodeFiles } from '../export/flashinfer-decode.ts';
import { kernelBuilderFiles } from '../export/kernel-builder.ts';
import { kernelBenchFiles } from '../export/kernelbench.ts';
import { popcornFile } from '../export/popcorn.ts';
import { robustKbenchFiles } from '../export/robust-kbench.ts';
import { torchFile } from '../export/torch-file.ts';
import { PAGED_DECODE } from '../export/torch-signatures.ts';
import { wheelFiles } from '../export/torch-wheel.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

/** The text of a file, or files by path relative to a folder. */
type ExportedFiles = string | Readonly<Record<string, string | Uint8Array>>;

/** The function that makes the output of each option. */
const EXPORTS: Readonly<Record<ExportFormat, (kernel: ExportedKernel) => ExportedFiles>> = {
  torch: torchFile,
  wheel: wheelFiles,
  kernelbench: kernelBenchFiles,
  flashinfer: (kernel) =>
    kernel.manifest.problem.id === PAGED_DECODE ? pagedDecodeFiles(kernel) : flashInferFiles(kernel),
  robustKbench: robustKbenchFiles,
  popcorn: popcornFile,
  hf: kernelBuilderFiles,
};

/** The path for each format, as commander returns options: a file for torch and popcorn, folders for the others. */
export type ExportCommandOptions = JobCommandOptions &
  Partial<Record<ExportFormat, string>> & {
    readonly unverified?: boolean;
    readonly backward?: string;
    readonly backwardSet?: string[];
  };

/**
 * `fa-tui export <kernel or folder>`: builds the kernel and writes the requested formats. Exit code 1 if it does not
 * build, or if the runner's last verdict on it was negative.
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
  if (options.backwardSet !== undefined && options.backward === undefined)
    throw new UsageError('--backward-set: needs --backward');
  const kernel = await parseExported(kernelText, context);
  const backward = options.backward === undefined ? undefined : await parseExported(options.backward, context);
  return context.withRunner(async (connection) => {
    const wantedBuild = async (place: SourceArgument, variant: Variant): Promise<Wanted> => ({
      place,
      request: create(BuildRequestSchema, {
        options: jobSettings(options),
        variant,
        kernel: await kernelReference(place, connection.client),
      }),
    });
    try {
      const exported = await collectKernel(
        connection,
        await wantedBuild(kernel, variantSettings(options)),
        backward && (await wantedBuild(backward, backwardSettings(options))),
        { unverified: options.unverified ?? false, formats: wanted.map(({ format }) => format) },
      );
      const written = wanted.flatMap(({ format }) => writeFiles(options[format]!, EXPORTS[format](exported)));
      const { manifest, arch, origin } = exported;
      for (const each of [exported, exported.backward]) {
        const notice = each && unverifiedNotice(each);
        if (notice !== undefined) context.note(notice);
      }
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

type SourceArgument = Exclude<KernelArgument, { kind: 'build' }>;

/** Reads the argument for the kernel. Its manifest must be readable. */
async function parseExported(text: string, context: CommandContext): Promise<SourceArgument> {
  const kernel = await parseKernelArgument(text);
  if (kernel.kind === 'build')
    throw new UsageError(`${text} is a build: give its kernel or a folder, whose manifest can be read`);
  if (otherName(kernel)) context.note(otherName(kernel));
  return kernel;
}

/** The `variant` for the backward kernel, with the architecture and the compiler options of the forward kernel's. */
const backwardSettings = (options: ExportCommandOptions): Variant =>
  variantSettings({ ...options, set: options.backwardSet ?? [], config: '' });

/** The file name must be a module name because Python imports the file by name. */
function requireModuleName(file: string | undefined): void {
  if (file !== undefined && !/^[A-Za-z_]\w*\.py$/.test(path.basename(file)))
    throw new UsageError(
      `--torch ${file}: must be a name that Python can import: letters, digits and _, then .py, for example my_kernel.py`,
    );
}

/** Writes one file, or files below a folder. Returns their paths. */
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
