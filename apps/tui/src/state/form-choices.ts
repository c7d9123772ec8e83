import type { CaseSet, GatePlan, Kernel } from '@flashcore/shared/contract';
import { counted } from '../present/numbers.ts';
import { planLines } from '../present/sections/gate-plan.ts';
import { shapeShort } from '../present/words.ts';
import { AS_USUAL, NONE, type FormField } from './form-field.ts';

/** What fills the choices besides the kernel. */
export interface FormContext {
  readonly kernels: readonly Kernel[];
  /** Targets of the runner's nvcc. */
  readonly archs: readonly string[];
  /** Ids of the runner's devices. */
  readonly devices: readonly string[];
  /** The runner's plans, the default first, and its case sets. */
  readonly plans?: readonly GatePlan[];
  readonly caseSets?: readonly CaseSet[];
}

const SHAPES = [AS_USUAL, '1x4x128x64', '1x8x512x64', '2x8x512x64', '2x8x512x64c', '4x8x512x64', '4x16x2048x64c'];
const SEEDS = [AS_USUAL, '1', '2', '10', '20'];
const SECONDS = [AS_USUAL, '0.2', '1', '10'];
/** What a run does: everything, or one command of the command line. */
const PHASES = ['all', 'build', 'verify', 'bench', 'profile'];
const REGISTERS = [AS_USUAL, '32', '64', '96', '128', '168', '255'];
const SAMPLES = [AS_USUAL, '10', '100', '1000'];
const METRICS = [AS_USUAL, 'gates', 'roofline', 'stalls', 'full', 'none'];
const OFF_ON = ['off', 'on'];
const TOLERANCES = [AS_USUAL, 'parity', 'strict', 'default'];

/** The fields of a kernel's form, each at its default. */
export function fieldsOf(kernel: Kernel, context: FormContext): FormField[] {
  const { kernels, archs, devices, plans = [], caseSets = [] } = context;
  const usable = kernels.filter(({ manifestError }) => manifestError === undefined).map(({ kernelId }) => kernelId);
  return [
    kernelField(kernel, usable),
    field(
      'phases',
      'phases',
      PHASES,
      'all: the whole experiment with its gates; or one part of it, after the build that it needs',
    ),
    ...planFields(plans, caseSets),
    ...variantFields(kernel),
    ...caseFields(caseSets),
    ...timingFields(),
    ...compilerFields(archs),
    field('sanitizer', 'sanitizer', OFF_ON, 'also run under compute-sanitizer: memory, races, barriers; slow'),
    field('metrics', 'metric set', METRICS, 'hardware counters of the profile; as usual: those that the gates ask for'),
    ...deviceFields(devices),
    field(
      'champion',
      'champion',
      [AS_USUAL, NONE, ...usable],
      "what it is compared with, in turns, in the same process; as usual: the device's champion, where the plan compares",
    ),
  ];
}

const field = (id: string, label: string, choices: readonly string[], about: string): FormField => ({
  id,
  label,
  choices,
  about,
  chosen: 0,
});

/** A field whose value may be typed too. */
const typable = (choices: FormField): FormField => ({ ...choices, typed: '' });

function kernelField({ kernelId, title }: Kernel, usable: readonly string[]): FormField {
  const ids = usable.includes(kernelId) ? usable : [kernelId, ...usable];
  return { ...typable(field('kernel', 'kernel', ids, title)), chosen: ids.indexOf(kernelId) };
}

function planFields(plans: readonly GatePlan[], caseSets: readonly CaseSet[]): FormField[] {
  if (plans.length === 0) return [];
  const names = plans.map(({ name }) => name);
  const aboutChoices = plans.map((plan) => planLines(plan, caseSets).join('. '));
  return [{ ...field('plan', 'plan', names, 'what it is judged by'), aboutChoices }];
}

/** The manifest's configs, and its parameters that have a choice. */
function variantFields({ configs, parameters }: Kernel): FormField[] {
  const config = field(
    'config',
    'config',
    [AS_USUAL, ...configs],
    'a named set of parameter values; parameters changed below override it',
  );
  return [
    ...(configs.length === 0 ? [] : [config]),
    ...parameters
      .filter(({ values }) => values.length > 1)
      .map(({ name, values, defaultValue, about }): FormField => {
        const choices = values.map(String);
        return {
          ...field(`param:${name}`, name, choices, about),
          chosen: Math.max(0, choices.indexOf(String(defaultValue))),
        };
      }),
  ];
}

/** What is verified, and how strictly. */
function caseFields(caseSets: readonly CaseSet[]): FormField[] {
  const names = caseSets.map(({ name }) => name);
  const cases = {
    ...field('cases', 'cases', [AS_USUAL, ...names], 'the set that is verified'),
    aboutChoices: ['what is verified: the shapes above, else the set that the plan names', ...caseSets.map(setAbout)],
  };
  return [
    typable(
      field(
        'shape',
        'shapes',
        SHAPES,
        'batch x heads x length x head dimension, c: causal; type your own, several with commas; as usual: the plan says',
      ),
    ),
    ...(caseSets.length === 0 ? [] : [cases]),
    typable(field('seeds', 'seeds', SEEDS, 'fresh random inputs a shape, 1 to 100; as usual: five')),
    field('tolerance', 'tolerance', TOLERANCES, 'bound on the error; as usual: the profile parity'),
  ];
}

/** How long is measured. */
const timingFields = (): FormField[] => [
  field('seconds', 'seconds', SECONDS, 'longest time for the samples of a shape and mode; as usual: the protocol says'),
  typable(
    field(
      'samples',
      'samples',
      SAMPLES,
      'for each shape and mode, 1 to 1,000,000; usually until the p50 interval is narrow',
    ),
  ),
];

/** What nvcc is told. */
const compilerFields = (archs: readonly string[]): FormField[] => [
  field('arch', 'arch', [AS_USUAL, ...archs], "target of nvcc; as usual: the device's own"),
  typable(
    field('registers', 'max registers', REGISTERS, 'of a thread, 16 to 255: nvcc -maxrregcount; as usual: no limit'),
  ),
  field('fast-math', 'fast math', OFF_ON, 'nvcc --use_fast_math: approximate division, exp and sqrt'),
];

function deviceFields(devices: readonly string[]): FormField[] {
  if (devices.length < 2) return [];
  const choices = [AS_USUAL, 'any', ...devices];
  return [
    field('device', 'device', choices, 'where to run; any: the first that is free; as usual: the first of the host'),
  ];
}

const MOST_SHAPES = 9;

/** "12 shapes to verify: 1x1x1x64 1x1x63x64 …". */
function setAbout({ shapes }: CaseSet): string {
  const more = shapes.length > MOST_SHAPES ? ' …' : '';
  const first = shapes.slice(0, MOST_SHAPES).map(shapeShort);
  return `${counted(shapes.length, 'shape')} to verify: ${first.join(' ')}${more}`;
}
