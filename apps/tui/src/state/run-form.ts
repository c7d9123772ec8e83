/** What may be chosen before a run, from the kernel's manifest and the runner's cases: pure data, changed by keys. */
import type { RpcRequestInit } from '@flashcore/shared/client';
import { type CaseSet, type GatePlan, type Kernel, type Shape } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { counted } from '../present/numbers.ts';
import { shapeShort } from '../present/words.ts';
import { planLines } from '../present/sections/gate-plan.ts';

export interface FormField {
  /** "kernel", "phases", "param:NAME", "config", "shape", "seeds" …: one of a form's fields. */
  readonly id: string;
  readonly label: string;
  readonly about: string;
  /** What each choice means, where that is not in `about`. */
  readonly aboutChoices?: readonly string[];
  readonly choices: readonly string[];
  readonly chosen: number;
  /** What was typed in place of a choice; absent on fields that take only choices. */
  readonly typed?: string;
}

export interface RunForm {
  readonly kernel: Kernel;
  readonly fields: readonly FormField[];
  readonly selected: number;
}

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

export const AS_USUAL = 'as usual';
const NONE = 'none';
const SHAPES = [AS_USUAL, '1x4x128x64', '1x8x512x64', '2x8x512x64', '2x8x512x64c', '4x8x512x64', '4x16x2048x64c'];
const SEEDS = [AS_USUAL, '1', '2', '10', '20'];
const SECONDS = [AS_USUAL, '0.2', '1', '10'];
/** What a run does, by the word of the form: the commands of the command line. */
export const PHASE_CHOICES = ['all', 'build', 'verify', 'bench', 'profile'] as const;
const REGISTERS = [AS_USUAL, '32', '64', '96', '128', '168', '255'];
const SAMPLES = [AS_USUAL, '10', '100', '1000'];
const METRICS = [AS_USUAL, 'gates', 'roofline', 'stalls', 'full', 'none'];
const OFF_ON = ['off', 'on'];
const TOLERANCES = [AS_USUAL, 'parity', 'strict', 'default'];

/** The form with every field at its default: running it as it is runs the kernel as the manifest says. */
export function formOf(kernel: Kernel, { kernels, archs, devices, plans = [], caseSets = [] }: FormContext): RunForm {
  const parameters = kernel.parameters
    .filter(({ values }) => values.length > 1)
    .map(({ name, values, defaultValue, about }): FormField => {
      const choices = values.map(String);
      return {
        id: `param:${name}`,
        label: name,
        about,
        choices,
        chosen: Math.max(0, choices.indexOf(String(defaultValue))),
      };
    });
  const field = (id: string, label: string, choices: readonly string[], about: string): FormField => ({
    id,
    label,
    choices,
    about,
    chosen: 0,
  });
  const usable = kernels.filter(({ manifestError }) => manifestError === undefined).map(({ kernelId }) => kernelId);
  const ids = usable.includes(kernel.kernelId) ? usable : [kernel.kernelId, ...usable];
  return {
    kernel,
    // The kernel was chosen already.
    selected: 1,
    fields: [
      { ...field('kernel', 'kernel', ids, kernel.title), chosen: ids.indexOf(kernel.kernelId), typed: '' },
      field(
        'phases',
        'phases',
        PHASE_CHOICES,
        'all: the whole experiment with its gates; or one part of it, after the build that it needs',
      ),
      ...(plans.length === 0
        ? []
        : [
            {
              ...field(
                'plan',
                'plan',
                plans.map(({ name }) => name),
                'what it is judged by',
              ),
              aboutChoices: plans.map((plan) => planLines(plan, caseSets).join('. ')),
            },
          ]),
      ...(kernel.configs.length === 0
        ? []
        : [
            field(
              'config',
              'config',
              [AS_USUAL, ...kernel.configs],
              'a named set of parameter values; parameters changed below override it',
            ),
          ]),
      ...parameters,
      {
        ...field(
          'shape',
          'shapes',
          SHAPES,
          'batch x heads x length x head dimension, c: causal; type your own, several with commas; as usual: the plan says',
        ),
        typed: '',
      },
      ...(caseSets.length === 0
        ? []
        : [
            {
              ...field('cases', 'cases', [AS_USUAL, ...caseSets.map(({ name }) => name)], 'the set that is verified'),
              aboutChoices: [
                'what is verified: the shapes above, else the set that the plan names',
                ...caseSets.map(setAbout),
              ],
            },
          ]),
      { ...field('seeds', 'seeds', SEEDS, 'fresh random inputs a shape, 1 to 100; as usual: five'), typed: '' },
      field('tolerance', 'tolerance', TOLERANCES, 'bound on the error; as usual: the profile parity'),
      field(
        'seconds',
        'seconds',
        SECONDS,
        'longest time for the samples of a shape and mode; as usual: the protocol says',
      ),
      {
        ...field(
          'samples',
          'samples',
          SAMPLES,
          'for each shape and mode, 1 to 1,000,000; usually until the p50 interval is narrow',
        ),
        typed: '',
      },
      field('arch', 'arch', [AS_USUAL, ...archs], "target of nvcc; as usual: the device's own"),
      {
        ...field(
          'registers',
          'max registers',
          REGISTERS,
          'of a thread, 16 to 255: nvcc -maxrregcount; as usual: no limit',
        ),
        typed: '',
      },
      field('fast-math', 'fast math', OFF_ON, 'nvcc --use_fast_math: approximate division, exp and sqrt'),
      field('sanitizer', 'sanitizer', OFF_ON, 'also run under compute-sanitizer: memory, races, barriers; slow'),
      field(
        'metrics',
        'metric set',
        METRICS,
        'hardware counters of the profile; as usual: those that the gates ask for',
      ),
      ...(devices.length < 2
        ? []
        : [
            field(
              'device',
              'device',
              [AS_USUAL, 'any', ...devices],
              'where to run; any: the first that is free; as usual: the first of the host',
            ),
          ]),
      field(
        'champion',
        'champion',
        [AS_USUAL, NONE, ...usable],
        "what it is compared with, in turns, in the same process; as usual: the device's champion, where the plan compares",
      ),
    ],
  };
}

const MOST_SHAPES = 9;

/** "12 shapes to verify: 1x1x1x64 1x1x63x64 …". */
function setAbout({ shapes }: CaseSet): string {
  const more = shapes.length > MOST_SHAPES ? ' …' : '';
  const first = shapes.slice(0, MOST_SHAPES).map(shapeShort);
  return `${counted(shapes.length, 'shape')} to verify: ${first.join(' ')}${more}`;
}

/** What a field is set to: what was typed, else the choice; a kernel is always one of the choices. */
export const valueOf = ({ id, choices, chosen, typed = '' }: FormField): string =>
  typed === '' || id === 'kernel' ? (choices[chosen] ?? '') : typed;

/** Choices that have what was typed, in any case of letters; all where nothing was. */
export function matchingChoices({ choices, typed = '' }: Pick<FormField, 'choices' | 'typed'>): readonly string[] {
  const wanted = typed.toLowerCase();
  return wanted === '' ? choices : choices.filter((choice) => choice.toLowerCase().includes(wanted));
}

/**
 * The form after the cursor moved by `by`, or the selected field's choice by `change`; a choice takes the place of what
 * was typed.
 */
export function withKeys(form: RunForm, { by = 0, change = 0 }: { by?: number; change?: number }): RunForm {
  const selected = Math.max(0, Math.min(form.fields.length - 1, form.selected + by));
  const fields = form.fields.map((field, index) =>
    index === selected && change !== 0 ? withChange(field, change) : field,
  );
  return { ...form, selected, fields };
}

/** The next choice; of kernels that were typed for, the next that matches. */
function withChange(field: FormField, change: number): FormField {
  const among = field.id === 'kernel' ? matchingChoices(field) : field.choices;
  const place = among.indexOf(field.choices[field.chosen] ?? '');
  const next = among[(place + change + among.length) % Math.max(1, among.length)];
  return {
    ...field,
    chosen: next === undefined ? field.chosen : field.choices.indexOf(next),
    ...(field.typed !== undefined && field.id !== 'kernel' && { typed: '' }),
  };
}

/**
 * The form with a character typed into the selected field, or its last one taken away; fields of choices alone stay as
 * they are.
 */
export function withTyping(form: RunForm, key: { character: string } | 'backspace'): RunForm {
  const fields = form.fields.map((field, index): FormField => {
    if (index !== form.selected || field.typed === undefined) return field;
    const typed = key === 'backspace' ? field.typed.slice(0, -1) : field.typed + key.character;
    if (field.id !== 'kernel') return { ...field, typed };
    const [first] = matchingChoices({ ...field, typed });
    return { ...field, typed, chosen: first === undefined ? field.chosen : field.choices.indexOf(first) };
  });
  return { ...form, fields };
}

/** A form for another kernel that keeps what both have. */
export function withKernel(form: RunForm, kernel: Kernel, context: FormContext): RunForm {
  const fresh = formOf(kernel, context);
  const fields = fresh.fields.map((field): FormField => {
    const before = form.fields.find(
      ({ id }) => id === field.id && !id.startsWith('param:') && id !== 'config' && id !== 'kernel',
    );
    const chosen = before === undefined ? -1 : field.choices.indexOf(before.choices[before.chosen] ?? '');
    return chosen < 0 ? field : { ...field, chosen, ...(before?.typed !== undefined && { typed: before.typed }) };
  });
  const typedName = form.fields.find(({ id }) => id === 'kernel')?.typed;
  return {
    ...fresh,
    fields: fields.map((field) =>
      field.id === 'kernel' && typedName !== undefined ? { ...field, typed: typedName } : field,
    ),
    selected: form.selected,
  };
}

/** Shapes as typed, several with commas. Errors: INVALID_REQUEST of parseShape. */
export const shapesOf = (text: string): Shape[] =>
  text
    .split(',')
    .map((shape) => shape.trim())
    .filter((shape) => shape !== '')
    .map(parseShape);

/** A job to start: the RPC by its name, and its request. */
export type FormRequest = {
  [Method in 'runExperiment' | 'build' | 'verify' | 'benchmark' | 'profile']: {
    readonly method: Method;
    readonly request: RpcRequestInit<Method>;
  };
}['runExperiment' | 'build' | 'verify' | 'benchmark' | 'profile'];

/** The job that the form stands for; what is at its default is left to the runner. */
export function requestOf({ kernel: { kernelId }, fields }: RunForm, defaults: RunForm): FormRequest {
  const chosen = (id: string): string | undefined => {
    const field = fields.find((candidate) => candidate.id === id);
    const usual = defaults.fields.find((candidate) => candidate.id === id);
    return field === undefined || (usual !== undefined && valueOf(field) === valueOf(usual))
      ? undefined
      : valueOf(field);
  };
  const parameters = Object.fromEntries(
    fields
      .filter(({ id }) => id.startsWith('param:'))
      .flatMap(({ id, label }) => {
        const value = chosen(id);
        return value === undefined ? [] : [[label, BigInt(value)] as const];
      }),
  );
  const caseSet = chosen('cases');
  const [plan, tolerance, seconds, champion, device, registers, metrics] = [
    chosen('plan'),
    chosen('tolerance'),
    chosen('seconds'),
    chosen('champion'),
    chosen('device'),
    chosen('registers'),
    chosen('metrics'),
  ];
  const shapes = shapesOf(chosen('shape') ?? '');
  const samples = Number(chosen('samples') ?? 0);
  const common = {
    ...(device !== undefined && { options: { deviceId: device } }),
    kernel: { source: { case: 'kernelId' as const, value: kernelId } },
    variant: {
      parameters,
      config: chosen('config') ?? '',
      arch: chosen('arch') ?? '',
      ...(registers !== undefined && { maxRegisters: Number(registers) }),
      ...(chosen('fast-math') !== undefined && { fastMath: true }),
    },
  };
  const verify = {
    ...(caseSet === undefined ? { shapes } : { caseSet }),
    seedCount: Number(chosen('seeds') ?? 0),
    ...(tolerance !== undefined && { tolerance: { profile: tolerance } }),
    ...(chosen('sanitizer') !== undefined && { sanitize: true }),
  };
  const benchmark = {
    shapes,
    ...((seconds !== undefined || samples > 0) && {
      protocol: {
        ...(seconds !== undefined && { maxSeconds: Number(seconds) }),
        ...(samples > 0 && { minSamples: samples, maxSamples: samples }),
      },
    }),
    ...(champion !== undefined &&
      champion !== NONE && { champion: { kernel: { source: { case: 'kernelId' as const, value: champion } } } }),
  };
  const profile = {
    ...(shapes[0] !== undefined && { shape: shapes[0] }),
    ...(metrics !== undefined && { metricSet: metrics }),
  };
  switch (chosen('phases')) {
    case 'build':
      return { method: 'build', request: common };
    case 'verify':
      return { method: 'verify', request: { ...common, settings: verify } };
    case 'bench':
      return { method: 'benchmark', request: { ...common, settings: benchmark } };
    case 'profile':
      return { method: 'profile', request: { ...common, settings: profile } };
    default:
      return {
        method: 'runExperiment',
        request: {
          ...common,
          verify,
          benchmark,
          ...(Object.keys(profile).length > 0 && { profile }),
          ...(plan !== undefined && { plan }),
          ...(champion === NONE && { noChampion: true }),
        },
      };
  }
}
