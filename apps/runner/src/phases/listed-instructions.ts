/** The instructions of a profiled build with their source lines, kept as artifacts: PTX, and on a GPU machine code. */
import { readFileSync, statSync } from 'node:fs';
import { create, toJsonString } from '@bufbuild/protobuf';
import {
  ArtifactKind,
  InstructionListingFileSchema,
  InstructionListingSchema,
  parseSha256,
  type InstructionListing,
  type InstructionListingFile,
} from '@flashcore/shared/contract';
import { planLaunches } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { DeviceImage } from '../../worker/messages/launchable.ts';
import type { KernelBuild } from '../build/compiled-kernel.ts';
import { ptxListing, sassListing, type ListedCode } from '../build/instruction-listing.ts';
import type { VariantServices } from './job-services.ts';

const MAX_CODE_BYTES = 64 * 1024 ** 2;
const TOO_LONG = `it is longer than ${MAX_CODE_BYTES / 1024 ** 2} MiB`;

type Language = 'PTX' | 'SASS';

interface LanguageOptions {
  services: VariantServices;
  build: KernelBuild;
  /** The launched entries with their names in the code, by the file that has them. */
  names: ReadonlyMap<string, Map<string, string>>;
}

/** Empty for a module of the fibre engine. Errors: DISK_FULL, the job's end. */
export async function instructionListings(
  services: VariantServices,
  build: KernelBuild,
): Promise<InstructionListingFile[]> {
  const { spec, tools, resolved } = services;
  if (build.image === undefined || spec.profile === undefined) return [];
  const { launches } = planLaunches(spec.kernel.manifest, resolved, spec.profile.shape);
  const options = {
    services,
    build,
    names: namesByFile(build.image, [...new Set(launches.map(({ entry }) => entry))]),
  };
  if (!spec.device.simulated) return [await machineCode(options), keptPtx(options)];
  return tools.emulation().engine === 'ptx' ? [ptxOf(options, [...options.names])] : [];
}

function namesByFile(image: DeviceImage, entries: readonly string[]): Map<string, Map<string, string>> {
  const names = new Map<string, Map<string, string>>();
  for (const entry of entries) {
    const place = typeof image === 'string' ? image : entryOf(image, entry);
    if (place === undefined) continue;
    const { path, symbol } = typeof place === 'string' ? { path: place, symbol: entry } : place;
    names.set(path, (names.get(path) ?? new Map<string, string>()).set(symbol, entry));
  }
  return names;
}

/** nvcc's PTX, if the job keeps it. */
function keptPtx(options: LanguageOptions): InstructionListingFile {
  const { services, build, names } = options;
  const all = new Map([...names.values()].flatMap((each) => [...each]));
  const files = build.result.artifacts.filter(({ kind }) => kind === ArtifactKind.PTX);
  if (files.length === 0) return missing('PTX', 'run the kernel with --keep-ptx');
  return ptxOf(
    options,
    files.map(({ sha256 }) => [services.artifacts.path(parseSha256(sha256)), all]),
  );
}

function ptxOf(
  options: LanguageOptions,
  files: readonly (readonly [path: string, names: Map<string, string>])[],
): InstructionListingFile {
  if (files.some(([path]) => statSync(path).size > MAX_CODE_BYTES)) return missing('PTX', TOO_LONG);
  const read = files.map(([path, names]) => ({ text: readFileSync(path, 'utf8'), names }));
  return kept(options, 'PTX', ptxListing(read, options.build.sources));
}

async function machineCode(options: LanguageOptions): Promise<InstructionListingFile> {
  const { services, build } = options;
  const files: ListedCode[] = [];
  for (const [cubin, names] of options.names) {
    const listing = await services.tools.disassembleByLine(cubin, services.job.signal);
    if ('missing' in listing) return missing('SASS', listing.missing);
    if (listing.text.byteLength > MAX_CODE_BYTES) return missing('SASS', TOO_LONG);
    files.push({ text: listing.text.toString('utf8'), names });
  }
  return kept(options, 'SASS', sassListing(files, build.sources));
}

function kept(
  { services: { artifacts, build } }: LanguageOptions,
  language: Language,
  listing: InstructionListing,
): InstructionListingFile {
  const text = Buffer.from(toJsonString(InstructionListingSchema, listing));
  return create(InstructionListingFileSchema, {
    language,
    file: {
      sha256: artifacts.put(text),
      kind: ArtifactKind.INSTRUCTIONS,
      fileName: `${build.kernelId}.${build.arch}.${language.toLowerCase()}.json`,
      sizeBytes: BigInt(text.byteLength),
    },
  });
}

const missing = (language: Language, reason: string): InstructionListingFile =>
  create(InstructionListingFileSchema, { language, missing: reason });
