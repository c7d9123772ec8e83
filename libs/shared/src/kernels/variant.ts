/** A variant: parameter values and compiler options, checked against what the manifest allows. */
import { type FieldViolation, FlashcoreError } from '../contract/errors.ts';
import type { Variant } from '../generated/flashcore/runner/v1/kernel_pb.js';
import type { TensorDtype } from '../data/dtype.ts';
import { DATA_SHEETS } from './devices.ts';
import type { Manifest, ManifestParameter } from './manifest-model.ts';
import { isMacroName } from './manifest-schema.ts';
import { valueOf, dtypeParameters, inputsOf } from './manifest-value.ts';
import { didYouMean } from '../text/nearest-names.ts';
import { entryOf, setEntry } from '../text/entry-of.ts';

const LEAST_REGISTERS = 16;
const MOST_REGISTERS = 255;

/** A Variant of the proto, or some of its fields. */
export type VariantInput = Partial<
  Pick<Variant, 'config' | 'arch' | 'maxRegisters' | 'fastMath' | 'keepPtx' | 'keepSass'>
> & { parameters?: Readonly<Record<string, bigint | number>> | undefined };

export interface ResolvedVariant {
  /**
   * For example "USE_WMMA=1 BLOCK_Q=64". It contains every parameter with a choice, and compiler options that differ
   * from the manifest's; it omits the parameters that decide the dtype if the dtype is fp16. "default" if it would be
   * empty.
   */
  readonly label: string;
  /** Every parameter with its value. */
  readonly parameters: Readonly<Record<string, number>>;
  /** Dtype of Q, K, V and O. */
  readonly dtype: TensorDtype;
  /** The manifest's constants that do not depend on the shape. */
  readonly constants: Readonly<Record<string, number>>;
  /** Compiler arguments such as "-DUSE_WMMA=1", for parameters and for constants with a name in capitals. */
  readonly defines: readonly string[];
  /** The requested target; undefined: the device's own. */
  readonly arch: string | undefined;
  /** -maxrregcount; 0: no limit. */
  readonly maxRegisters: number;
  readonly fastMath: boolean;
  /** The manifest's flags, in nvcc's syntax. */
  readonly flags: readonly string[];
  readonly keepPtx: boolean;
  readonly keepSass: boolean;
}

/** Facts on which a parameter's default may depend. */
export interface DeviceFacts {
  readonly multiprocessors: number;
  readonly arch?: string;
  /** Set for the emulator, which also runs builds for other GPUs. */
  readonly simulated?: boolean;
}

/**
 * Fills in all defaults, from the device's facts if the manifest asks for that. Errors: INVALID_VARIANT with a
 * violation for each wrong field, INVALID_MANIFEST for a constant or a dtype without a value.
 */
export function resolveVariant(manifest: Manifest, variant: VariantInput = {}, device?: DeviceFacts): ResolvedVariant {
  const violations: FieldViolation[] = [];
  const parameters = resolveParameters(manifest, variant, factsFor(device, variant.arch), violations);
  const maxRegisters = variant.maxRegisters || manifest.compile.maxRegisters;
  if (maxRegisters !== 0 && !(maxRegisters >= LEAST_REGISTERS && maxRegisters <= MOST_REGISTERS)) {
    violations.push({
      field: 'variant.max_registers',
      description: `must be ${LEAST_REGISTERS} to ${MOST_REGISTERS}, or 0 for the manifest's, got ${maxRegisters}`,
    });
  }
  const arch = variant.arch || undefined;
  const archProblem = arch && archMismatch(manifest, arch);
  if (archProblem) violations.push({ field: 'variant.arch', description: archProblem });
  if (violations.length > 0) {
    throw new FlashcoreError(
      'INVALID_VARIANT',
      { kernel: manifest.id },
      `Cannot build ${manifest.id} like this: ${violations.map(({ field, description }) => `${field}: ${description}`).join('; ')}`,
      { violations },
    );
  }

  const fastMath = variant.fastMath ?? manifest.compile.fastMath;
  const constants = shapelessConstants(manifest, parameters);
  return {
    label: labelOf(manifest, { parameters, arch, maxRegisters, fastMath }),
    parameters,
    dtype: inputsOf(manifest, parameters),
    constants,
    defines: Object.entries({ ...parameters, ...constants })
      .filter(([name]) => isMacroName(name))
      .map(([name, value]) => `-D${name}=${value}`),
    arch,
    maxRegisters,
    fastMath,
    flags: manifest.compile.flags,
    keepPtx: variant.keepPtx ?? false,
    keepSass: variant.keepSass ?? false,
  };
}

/** Why a kernel cannot be built for an architecture such as "sm_89"; undefined if it can. */
export function archMismatch(manifest: Pick<Manifest, 'minArch' | 'exactArch'>, arch: string): string | undefined {
  const wanted = archNumber(manifest.minArch);
  const found = archNumber(arch);
  if (found === undefined) return `must be an architecture such as sm_89, got "${arch}"`;
  if (manifest.exactArch)
    return found === wanted && (arch === manifest.minArch || !/[af]$/.test(arch))
      ? undefined
      : `the kernel is for ${manifest.minArch} only, got ${arch}`;
  return found >= wanted! ? undefined : `the kernel needs ${manifest.minArch} or later, got ${arch}`;
}

function archNumber(arch: string): number | undefined {
  const match = /^sm_(\d{2,3})[af]?$/.exec(arch);
  return match ? Number(match[1]) : undefined;
}

/**
 * On the emulator, a build for another architecture uses the facts of that architecture's first GPU, as the estimate
 * does.
 */
function factsFor(device: DeviceFacts | undefined, arch: string | undefined): DeviceFacts | undefined {
  if (!device?.simulated || !arch || family(arch) === family(device.arch ?? '')) return device;
  return DATA_SHEETS.find((sheet) => family(sheet.arch) === family(arch)) ?? device;
}

/** "sm_90a" belongs to sm_90. */
const family = (arch: string): string => arch.replace(/[af]$/, '');

function resolveParameters(
  manifest: Manifest,
  variant: VariantInput,
  device: DeviceFacts | undefined,
  violations: FieldViolation[],
): Record<string, number> {
  const resolved = Object.fromEntries(
    Object.entries(manifest.parameters).map(([name, parameter]) => [name, defaultOf(parameter, device)]),
  );
  if (variant.config) {
    const config = entryOf(manifest.configs, variant.config);
    const configs = Object.keys(manifest.configs);
    if (config) for (const [name, value] of Object.entries(config)) setEntry(resolved, name, value);
    else
      violations.push({
        field: 'variant.config',
        description: `unknown config "${variant.config}"${didYouMean(variant.config, configs) || `: ${configs.length > 0 ? `known are ${configs.join(', ')}` : 'the kernel has none'}`}`,
      });
  }
  for (const [name, value] of Object.entries(variant.parameters ?? {})) {
    const problem = parameterProblem(manifest, name, Number(value));
    if (problem) violations.push({ field: `variant.parameters.${name}`, description: problem });
    else setEntry(resolved, name, Number(value));
  }
  return resolved;
}

function defaultOf({ values, default: value, ofDevice }: ManifestParameter, device: DeviceFacts | undefined): number {
  if (!ofDevice || !device) return value;
  return nearestOf([value, ...values], device[ofDevice]);
}

/** The value nearest to `wanted`; of equally near values, the first. `values` must not be empty. */
export const nearestOf = (values: readonly number[], wanted: number): number =>
  values.reduce((nearest, each) => (Math.abs(each - wanted) < Math.abs(nearest - wanted) ? each : nearest));

function shapelessConstants(manifest: Manifest, parameters: Record<string, number>): Record<string, number> {
  const constants: Record<string, number> = {};
  for (const { name, value, ofShape } of manifest.constants)
    if (!ofShape)
      setEntry(constants, name, valueOf(manifest, value, { ...parameters, ...constants }, `constants.${name}`));
  return constants;
}

function parameterProblem(manifest: Manifest, name: string, value: number): string | undefined {
  const known = Object.keys(manifest.parameters);
  const parameter = entryOf(manifest.parameters, name);
  if (!parameter)
    return `unknown parameter "${name}"${didYouMean(name, known) || `: ${known.length > 0 ? `known are ${known.join(', ')}` : 'the kernel has none'}`}`;
  return parameter.values.includes(value) ? undefined : `must be one of ${parameter.values.join(', ')}, got ${value}`;
}

function labelOf(
  manifest: Manifest,
  {
    parameters,
    arch,
    maxRegisters,
    fastMath,
  }: Pick<ResolvedVariant, 'parameters' | 'arch' | 'maxRegisters' | 'fastMath'>,
): string {
  // The label leaves out a parameter that decides another dtype and has its default, so that a further dtype does not
  // change the labels of existing variants.
  const dtype = inputsOf(manifest, parameters);
  const ofOthers = new Set(dtypeParameters(manifest, dtype));
  const isUnnamed = (name: string, value: number): boolean =>
    ofOthers.has(name) && (dtype === 'fp16' || value === entryOf(manifest.parameters, name)!.default);
  const parts = Object.entries(parameters)
    .filter(([name, value]) => entryOf(manifest.parameters, name)!.values.length > 1 && !isUnnamed(name, value))
    .map(([name, value]) => `${name}=${value}`);
  if (arch) parts.push(`arch=${arch}`);
  if (maxRegisters !== manifest.compile.maxRegisters) parts.push(`maxrregcount=${maxRegisters}`);
  if (fastMath !== manifest.compile.fastMath) parts.push(`fast_math=${Number(fastMath)}`);
  return parts.join(' ') || 'default';
}
