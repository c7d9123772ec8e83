import type { CaseSet, Device, GatePlan, Host, Tolerance } from '@flashcore/shared/contract';
import { DEFAULT_PROBLEM, formatShape, recordedProblem } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import { counted } from '../present/numbers.ts';
import { toleranceRule } from '../present/sections/cases.ts';
import { planLines } from '../present/sections/gate-plan.ts';
import type { ListedProblem } from '../present/sections/problem.ts';
import { shapeShort } from '../present/words.ts';
import { AS_USUAL, NONE, OFF, ON, type FormField } from './form-field.ts';
import { usualValues } from './form-usual.ts';
import { kernelKey, usualDevice, usualParameter, type ListedKernel } from './listed-kernel.ts';

/** The data that the choices are made from, besides the kernel. */
export interface FormContext {
  readonly kernels: readonly ListedKernel[];
  /** The kernels of the problem that the form was opened from, which are then the only ones to choose from. */
  readonly among?: readonly ListedKernel[] | undefined;
  /** Target architectures of the runner's nvcc. */
  readonly archs: readonly string[];
  readonly host?: Host | undefined;
  /** Ids of the runner's devices. */
  readonly devices: readonly string[];
  /** The runner's plans, the default first, and its case sets of attention. */
  readonly plans?: readonly GatePlan[];
  readonly caseSets?: readonly CaseSet[];
  /** The problems known here, for the cases of their kernels. */
  readonly problems?: readonly ListedProblem[] | undefined;
  /** The runner's tolerance profiles, the default first. */
  readonly tolerances?: readonly Tolerance[];
}

const ATTENTION_SHAPES = ['1x4x128x64', '1x8x512x64', '2x8x512x64', '2x8x512x64c', '4x8x512x64', '4x16x2048x64c'];
const SEEDS = [AS_USUAL, '1', '2', '10', '20'];
const SECONDS = [AS_USUAL, '0.2', '1', '10'];
/** Phases of a run: all of them, or those of one command. */
const PHASES: readonly (readonly [name: string, about: string])[] = [
  ['all', 'the whole experiment: build, verify, benchmark, profile and gates'],
  ['build', 'compile the kernel and read what the compiler reports'],
  ['verify', 'build the kernel and compare its output with the reference'],
  ['bench', 'build the kernel and time it'],
  ['profile', 'build the kernel and read its hardware counters'],
];
/** Only for a kernel that has parameters to search. */
const TUNE = [
  'tune',
  'build, verify and time every variant; a parameter that you set below, or that decides a dtype or layout, keeps its value',
] as const;
const REGISTERS = [AS_USUAL, '32', '64', '96', '128', '168', '255'];
const SAMPLES = [AS_USUAL, '10', '100', '1000'];
const METRICS = [AS_USUAL, 'gates', 'roofline', 'stalls', 'full', 'none'];
const OFF_ON = [OFF, ON];

/** The fields of a kernel's form, each at its default. */
export function fieldsOf(kernel: ListedKernel, context: FormContext): FormField[] {
  const { kernels, archs, devices, plans = [], tolerances = [] } = context;
  const caseSets = setsOf(kernel, context);
  const usable = (context.among ?? kernels).filter(({ manifestError }) => manifestError === undefined);
  const usual = usualValues(kernel, context);
  const mayBeChampion = ({ folder, problem }: ListedKernel): boolean =>
    folder === undefined && recordedProblem(problem) === recordedProblem(kernel.problem);
  const fields = [
    kernelField(kernel, usable.map(kernelKey)),
    phasesField(kernel),
    ...planFields(plans, caseSets),
    ...variantFields(kernel, usualDevice(context.host)),
    ...caseFields(kernel, { caseSets, tolerances }),
    ...timingFields(),
    ...compilerFields(archs),
    field(
      'sanitizer',
      'sanitizer',
      OFF_ON,
      'also run under compute-sanitizer, which finds memory errors, races and barrier errors; slow',
    ),
    field('metrics', 'metric set', METRICS, 'hardware counters to read'),
    ...deviceFields(devices),
    field(
      'champion',
      'champion',
      [AS_USUAL, NONE, ...usable.filter(mayBeChampion).map(({ kernelId }) => kernelId)],
      'the build that it is compared with, in alternating blocks in one process',
    ),
  ];
  return fields.map((each) =>
    each.choices[0] === AS_USUAL ? { ...each, usual: entryOf(usual, each.id) ?? '' } : each,
  );
}

type CaseOfSet = Pick<CaseSet, 'name' | 'shapes'>;

const isAttention = ({ problem }: ListedKernel): boolean => recordedProblem(problem) === DEFAULT_PROBLEM;

/** The case sets of the kernel's problem; none if the problem is not known here. */
function setsOf(kernel: ListedKernel, { caseSets = [], problems = [] }: FormContext): readonly CaseOfSet[] {
  if (isAttention(kernel)) return caseSets;
  const known = problems.find(({ id }) => id === recordedProblem(kernel.problem));
  return Object.entries(known?.sets ?? {}).map(([name, shapes]) => ({ name, shapes: [...shapes] }));
}

const MOST_CHOICES = 12;

/** Shapes to choose from: those that are usual for attention, else the problem's cases, named ones first. */
function shapesFor(kernel: ListedKernel, caseSets: readonly CaseOfSet[]): string[] {
  if (isAttention(kernel)) return ATTENTION_SHAPES;
  const cases = caseSets
    .flatMap(({ shapes }) => shapes)
    .toSorted((a, b) => Number(b.name !== '') - Number(a.name !== ''));
  return [...new Set(cases.map((shape) => shape.name || formatShape(shape)))].slice(0, MOST_CHOICES);
}

const field = (id: string, label: string, choices: readonly string[], about: string): FormField => ({
  id,
  label,
  choices,
  about,
  chosen: 0,
});

/** Makes a field that also accepts typed values. */
const typable = (choices: FormField): FormField => ({ ...choices, typed: '' });

function kernelField(kernel: ListedKernel, usable: readonly string[]): FormField {
  const key = kernelKey(kernel);
  const keys = usable.includes(key) ? usable : [key, ...usable];
  const about = `${kernel.title === '' ? kernel.kernelId : kernel.title}; type a name to search, or the path of a folder`;
  return { ...typable(field('kernel', 'kernel', keys, about)), chosen: keys.indexOf(key) };
}

function phasesField({ parameters }: ListedKernel): FormField {
  const canTune = parameters.some(({ values, decidesTensors }) => values.length > 1 && !decidesTensors);
  const phases = canTune ? [...PHASES, TUNE] : PHASES;
  const names = phases.map(([name]) => name);
  return { ...field('phases', 'phases', names, ''), aboutChoices: phases.map(([, about]) => about) };
}

function planFields(plans: readonly GatePlan[], caseSets: readonly CaseOfSet[]): FormField[] {
  if (plans.length === 0) return [];
  const names = plans.map(({ name }) => name);
  const aboutChoices = plans.map((plan) => planLines(plan, caseSets).join('. '));
  return [{ ...field('plan', 'plan', names, 'the gates that judge the run'), aboutChoices }];
}

/** Fields for the manifest's configs, and for parameters with more than one value. */
function variantFields({ configs, parameters }: ListedKernel, device: Device | undefined): FormField[] {
  const config = field(
    'config',
    'config',
    [AS_USUAL, ...configs],
    'a named set of parameter values; a parameter changed below overrides it',
  );
  return [
    ...(configs.length === 0 ? [] : [config]),
    ...parameters
      .filter(({ values }) => values.length > 1)
      .map((parameter): FormField => {
        const choices = parameter.values.map(String);
        return {
          ...field(`param:${parameter.name}`, parameter.name, choices, parameter.about),
          chosen: Math.max(0, choices.indexOf(usualParameter(parameter, device))),
          keepsInSearch: parameter.decidesTensors,
        };
      }),
  ];
}

/** Fields for the cases to verify and the tolerance. */
function caseFields(
  kernel: ListedKernel,
  { caseSets, tolerances }: { caseSets: readonly CaseOfSet[]; tolerances: readonly Tolerance[] },
): FormField[] {
  const names = caseSets.map(({ name }) => name);
  const cases = {
    ...field('cases', 'cases', [AS_USUAL, ...names], 'the case set to verify'),
    aboutChoices: ['the case set to verify; shapes entered above replace it', ...caseSets.map(setAbout)],
  };
  const tolerance = {
    ...field(
      'tolerance',
      'tolerance',
      [AS_USUAL, ...tolerances.map(({ profile = '' }) => profile)],
      'limit on the error of an element',
    ),
    aboutChoices: [
      `limit on the error of an element${tolerances[0] === undefined ? '' : `: ${toleranceRule(tolerances[0])}`}`,
      ...tolerances.map(toleranceRule),
    ],
  };
  const shapes = field(
    'shape',
    'shapes',
    [AS_USUAL, ...shapesFor(kernel, caseSets)],
    isAttention(kernel)
      ? "batch x heads x length x head dimension, c for causal; or type your own or a case's name, separated by commas"
      : "a value for each axis, such as N=64; or type your own or a case's name, separated by commas",
  );
  const caseNames = [...new Set(caseSets.flatMap((set) => set.shapes.map((shape) => shape.name)))].filter(
    (name) => name !== '',
  );
  return [
    typable(caseSets.length === 0 ? shapes : { ...shapes, caseNames }),
    ...(caseSets.length === 0 ? [] : [cases]),
    typable(field('seeds', 'seeds', SEEDS, 'random inputs for each shape, 1 to 100')),
    ...(tolerances.length === 0 ? [] : [tolerance]),
  ];
}

/** Fields for the length of the measurement. */
const timingFields = (): FormField[] => [
  field('seconds', 'seconds', SECONDS, 'limit on the sampling time of each shape and mode'),
  typable(
    field(
      'samples',
      'samples',
      SAMPLES,
      'samples of each shape and mode, 1 to 1,000,000; by default sampling stops once p50 is known to 0.5 %',
    ),
  ),
];

/** Fields for nvcc's options. */
const compilerFields = (archs: readonly string[]): FormField[] => [
  typable(field('arch', 'arch', [AS_USUAL, ...archs], 'the architecture to compile for')),
  typable(field('registers', 'max registers', REGISTERS, 'registers per thread, 16 to 255: nvcc -maxrregcount')),
  field('fast-math', 'fast math', [AS_USUAL, ON, OFF], 'nvcc --use_fast_math: approximate division, exp and sqrt'),
];

function deviceFields(devices: readonly string[]): FormField[] {
  if (devices.length < 2) return [];
  const choices = [AS_USUAL, 'any', ...devices];
  return [field('device', 'device', choices, 'the device to run on; any: the first that is free')];
}

const MOST_SHAPES = 9;

/** Text such as "12 shapes to verify: 1x1x1x64 1x1x63x64 …". */
function setAbout({ shapes }: CaseOfSet): string {
  const more = shapes.length > MOST_SHAPES ? ' …' : '';
  const first = shapes.slice(0, MOST_SHAPES).map((shape) => shape.name || shapeShort(shape));
  return `${counted(shapes.length, 'shape')} to verify: ${first.join(shapes.some(({ name }) => name !== '') ? ', ' : ' ')}${more}`;
}
