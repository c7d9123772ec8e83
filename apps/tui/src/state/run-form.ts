/** What may be chosen before a run, from the kernel's manifest and the runner's cases: pure data, changed by keys. */
import { parseShape, type Kernel, type RpcRequestInit } from '@flashcore/shared';

export interface FormField {
  /** "param:NAME", "config", "shape", "seeds", "tolerance" or "arch". */
  readonly id: string;
  readonly label: string;
  readonly about: string;
  readonly choices: readonly string[];
  readonly chosen: number;
}

export interface RunForm {
  readonly kernelId: string;
  readonly fields: readonly FormField[];
  readonly selected: number;
}

const AS_USUAL = 'as usual';
const SHAPES = [AS_USUAL, '1x4x128x64', '1x8x512x64', '2x8x512x64', '2x8x512x64c', '4x8x512x64'];
const SEEDS = [AS_USUAL, '1', '2', '10', '20'];
const TOLERANCES = [AS_USUAL, 'parity', 'strict', 'default'];

/** The form with every field at its default: running it as it is runs the kernel as the manifest says. */
export function formOf(kernel: Kernel, archs: readonly string[]): RunForm {
  const parameters = kernel.parameters.filter(({ values }) => values.length > 1).map(({ name, values, defaultValue, about }): FormField => {
    const choices = values.map(String);
    return { id: `param:${name}`, label: name, about, choices, chosen: Math.max(0, choices.indexOf(String(defaultValue))) };
  });
  const field = (id: string, label: string, choices: readonly string[], about: string): FormField => ({ id, label, choices, about, chosen: 0 });
  return {
    kernelId: kernel.kernelId,
    selected: 0,
    fields: [
      ...(kernel.configs.length === 0 ? [] : [field('config', 'config', [AS_USUAL, ...kernel.configs], 'a named set of parameter values; parameters changed below override it')]),
      ...parameters,
      field('shape', 'shape', SHAPES, 'batch x heads x length x head dimension; c: causal; as usual: the seven parity cases'),
      field('seeds', 'seeds', SEEDS, 'fresh random inputs a shape; as usual: five'),
      field('tolerance', 'tolerance', TOLERANCES, 'bound on the error; as usual: the profile parity'),
      field('arch', 'arch', [AS_USUAL, ...archs], "target of nvcc; as usual: the device's own"),
    ],
  };
}

/** The form after the cursor moved by `by`, or the selected field's value by `change`. */
export function withKeys(form: RunForm, { by = 0, change = 0 }: { by?: number; change?: number }): RunForm {
  const selected = Math.max(0, Math.min(form.fields.length - 1, form.selected + by));
  const fields = form.fields.map((field, index) => (index === selected && change !== 0 ? { ...field, chosen: (field.chosen + change + field.choices.length) % field.choices.length } : field));
  return { ...form, selected, fields };
}

/** The request that the form stands for; what is at its default is left to the runner. */
export function requestOf({ kernelId, fields }: RunForm, defaults: RunForm): RpcRequestInit<'runExperiment'> {
  const chosen = (id: string): string | undefined => {
    const field = fields.find((candidate) => candidate.id === id);
    return field === undefined || field.chosen === defaults.fields.find((candidate) => candidate.id === id)?.chosen ? undefined : field.choices[field.chosen];
  };
  const parameters = Object.fromEntries(fields.filter(({ id }) => id.startsWith('param:')).flatMap(({ id, label }) => {
    const value = chosen(id);
    return value === undefined ? [] : [[label, BigInt(value)] as const];
  }));
  const shapes = [chosen('shape')].flatMap((shape) => (shape === undefined ? [] : [parseShape(shape)]));
  const tolerance = chosen('tolerance');
  return {
    kernel: { source: { case: 'kernelId', value: kernelId } },
    variant: { parameters, config: chosen('config') ?? '', arch: chosen('arch') ?? '' },
    verify: { shapes, seedCount: Number(chosen('seeds') ?? 0), ...(tolerance !== undefined && { tolerance: { profile: tolerance } }) },
    benchmark: { shapes },
    ...(shapes[0] !== undefined && { profile: { shape: shapes[0] } }),
  };
}
