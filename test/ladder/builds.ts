/**
 * Which parts of the ladder to verify: each kernel's builds, the shapes to run, and the shapes that the kernel must
 * refuse.
 */
import { readFileSync, existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { join, delimiter } from 'node:path';
import {
  archLimits,
  checkShape,
  formatShape,
  parseCases,
  parseShape,
  planLaunches,
  resolveVariant,
  type Manifest,
} from '@flashcore/shared/kernels';
import { ROOT } from '../support/home.ts';

/** A kernel with values for some of its parameters. The other parameters keep their defaults. */
export interface LadderBuild {
  kernel: string;
  parameters: Readonly<Record<string, number>>;
  /** The manifest's reason why parity fails; undefined if parity must pass. */
  failsBecause: string | undefined;
}

/** Builds that a manifest offers although they fail parity, because the parameter exists to measure its effect. */
const FAILS_PARITY = [
  {
    kernel: 'fa_s512_v3_wmma',
    parameter: 'ACCUM_F32',
    value: 0,
    because: 'scores of hundreds are rounded to 0.25 in fp16 accumulators',
  },
];

/** The default build, every config, and one build for every other value of each parameter, without duplicates. */
export function buildsOf(manifest: Manifest): LadderBuild[] {
  const alone = choicesOf(manifest).flatMap(([name, { values }]) => values.map((value) => ({ [name]: value })));
  return distinct(manifest, [{}, ...Object.values(manifest.configs), ...alone]);
}

/**
 * As few builds as cover every parameter value: the default build, the configs, and builds that combine the missing
 * values (the first missing value of each parameter in one build, the second ones in the next). If a combination needs
 * more shared memory than an L4 has, its values get separate builds. A toggle (0 or 1) also gets a separate build,
 * because a disabled path would hide the effect of other parameters.
 */
export function coveringBuilds(manifest: Manifest): LadderBuild[] {
  const given = distinct(manifest, [{}, ...Object.values(manifest.configs)]);
  const taken = given.map(({ parameters }) => resolveVariant(manifest, { parameters }).parameters);
  const left = choicesOf(manifest).map(([name, { values }]) => ({
    name,
    isToggle: values.every((value) => value === 0 || value === 1),
    values: values.filter((value) => taken.every((parameters) => parameters[name] !== value)),
  }));
  const together = left.filter(({ isToggle }) => !isToggle);
  const rounds = Array.from({ length: Math.max(0, ...together.map(({ values }) => values.length)) }, (_, round) =>
    together.flatMap(({ name, values }) => (round < values.length ? [{ [name]: values[round]! }] : [])),
  ).flatMap((settings) =>
    fitsL4(manifest, Object.assign({}, ...settings) as Record<string, number>)
      ? [Object.assign({}, ...settings) as Record<string, number>]
      : settings,
  );
  const toggles = left
    .filter(({ isToggle }) => isToggle)
    .flatMap(({ name, values }) => values.map((value) => ({ [name]: value })));
  return distinct(manifest, [...given.map(({ parameters }) => parameters), ...rounds, ...toggles]);
}

const fitsL4 = (manifest: Manifest, parameters: Record<string, number>): boolean =>
  planLaunches(manifest, resolveVariant(manifest, { parameters }), parseShape('1x1x64x64')).launches.every(
    ({ sharedBytes }) => sharedBytes <= archLimits('sm_89')!.smemPerCtaOptinBytes,
  );

// Parameters derived from the device are left out: they only select a launch, and the shapes already cover all
// launches.
const choicesOf = (manifest: Manifest) =>
  Object.entries(manifest.parameters).filter(([, { ofDevice }]) => ofDevice === undefined);

function distinct(manifest: Manifest, sets: readonly Readonly<Record<string, number>>[]): LadderBuild[] {
  const first = Map.groupBy(sets, (parameters) => resolveVariant(manifest, { parameters }).label);
  return [...first.values()]
    .map(([parameters]) => parameters!)
    .map((parameters) => ({ kernel: manifest.id, parameters, failsBecause: failureOf(manifest.id, parameters) }));
}

const failureOf = (id: string, parameters: Readonly<Record<string, number>>) =>
  FAILS_PARITY.find(({ kernel, parameter, value }) => kernel === id && parameters[parameter] === value)?.because;

/** fa-tui's arguments for a build. */
export const variantArguments = ({ parameters }: LadderBuild): string[] =>
  Object.entries(parameters).flatMap(([name, value]) => ['--set', `${name}=${value}`]);

/**
 * Tiny shapes for which an L4's 58 SMs select every launch of flashcore_v10: 32, 64 and 128 rows per CTA; head
 * dimensions 64 and 128.
 */
const EVERY_LAUNCH = ['1x1x113x64c', '1x58x33x64', '1x59x17x64', '1x1x65x128c', '1x59x17x128'];

/**
 * The seven parity shapes, and shapes with lengths that no tile divides. Both include head dimension 128 if the kernel
 * supports it.
 */
export function shapesOf(manifest: Manifest): { parity: string[]; odd: string[] } {
  const { sets } = parseCases(readFileSync(join(ROOT, 'kernels/cases.yaml'), 'utf8'), 'kernels/cases.yaml');
  const more = [...EVERY_LAUNCH, '1x2x1x128', '2x3x203x128c', '1x1x799x128'].filter((shape) => takes(manifest, shape));
  return { parity: sets.parity.map(formatShape), odd: [...new Set([...sets['odd']!.map(formatShape), ...more])] };
}

/**
 * The few shapes that `npm test` has time for: a ragged causal tile, a row with a single visible key, and shapes that
 * reach the launches that the other shapes miss.
 */
export function fewShapesOf(manifest: Manifest): string[] {
  const [ragged, ...others] = EVERY_LAUNCH.filter((shape) => takes(manifest, shape));
  return [ragged!, '1x1x1x64', ...(manifest.launches.length > 1 ? others : [])];
}

/** Shapes that violate a limit of the manifest, each with the text of the limit. */
export function refusedShapes(manifest: Manifest): { shape: string; because: string }[] {
  return ['1x1x64x32', '1x1x64x128', '1x65536x1x64', '1x1x1048577x64'].flatMap((shape) => {
    const refused = checkShape(manifest, resolveVariant(manifest), parseShape(shape));
    return refused ? [{ shape, because: refused.because }] : [];
  });
}

const takes = (manifest: Manifest, shape: string): boolean =>
  checkShape(manifest, resolveVariant(manifest), parseShape(shape)) === undefined;

/**
 * Environment of a machine without a CUDA toolkit, where clang makes the emulator's PTX with the project's own headers.
 */
export const withoutToolkit = (): Record<string, string> => ({
  // If CUDA_HOME names a missing folder, the runner does not look for a toolkit anywhere else.
  CUDA_HOME: '/none',
  CUDA_PATH: '',
  PATH: (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter((folder) => !existsSync(join(folder, 'nvcc')))
    .join(delimiter),
});

/**
 * Where to look for NVRTC: the folder in which test/ladder/nvrtc.test.ts installs the wheel nvidia-cuda-nvrtc, and the
 * toolkit's folder.
 */
const NVRTC = [join(import.meta.dirname, '../../node_modules/.cache/nvrtc/nvidia/cu13/lib'), '/usr/local/cuda/lib64'];
const HEADERS = '/usr/local/cuda/include';

/** The folder of this machine's NVRTC; undefined if NVRTC or CUDA's headers are missing. */
export const nvrtcFolder = (): string | undefined =>
  existsSync(join(HEADERS, 'cuda_fp16.h'))
    ? NVRTC.find((folder) => existsSync(folder) && readdirSync(folder).some((name) => name.startsWith('libnvrtc.so')))
    : undefined;

/** Environment of a machine without nvcc. Makes a toolkit in `folder` that has only NVRTC and CUDA's headers. */
export function withNvrtcOnly(folder: string): Record<string, string> {
  const toolkit = join(folder, 'toolkit');
  mkdirSync(toolkit);
  symlinkSync(nvrtcFolder()!, join(toolkit, 'lib'));
  symlinkSync(HEADERS, join(toolkit, 'include'));
  return { ...withoutToolkit(), CUDA_HOME: toolkit };
}
