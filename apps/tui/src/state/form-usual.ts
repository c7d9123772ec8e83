/** The values that a run uses if a form leaves the choice to the runner. */
import type { GatePlan, Host, Tolerance } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import { usualArch, usualDevice, type ListedKernel } from './listed-kernel.ts';
import { actionOf, AS_USUAL, valueOf, type Action, type FormField, type Usual } from './form-field.ts';

interface UsualContext {
  readonly plans?: readonly GatePlan[];
  readonly tolerances?: readonly Tolerance[];
  readonly host?: Host | undefined;
}

/** Usual time of sampling per shape and mode, in seconds. */
const SECONDS = { gpu: '10', simulated: '0.3' };

/**
 * Usual value of an option of nvcc. The runner does not send a kernel's own, and only kernel.yaml turns fast math off.
 */
const BY_MANIFEST = 'as in kernel.yaml';

/** Usual values by field id. */
export function usualValues(
  kernel: ListedKernel,
  { plans = [], tolerances, host }: UsualContext,
): Readonly<Record<string, Usual>> {
  const device = usualDevice(host);
  const byPlan = (of: (plan: GatePlan) => string): Usual =>
    Object.fromEntries(plans.map((plan) => [plan.name, of(plan)]));
  return {
    config: 'none',
    shape: {
      ...Object.fromEntries(
        plans.map(({ name, cases, shapes }) => [name, shapes === 'none' ? cases : `verify ${cases}, time ${shapes}`]),
      ),
      ...(device && { [BENCH]: device.simulated ? 'emulated' : 'canonical' }),
    },
    cases: byPlan(({ cases }) => cases),
    seeds: '5',
    tolerance: tolerances?.[0]?.profile ?? '',
    seconds: device?.simulated ? SECONDS.simulated : SECONDS.gpu,
    samples: '100 to 2,000',
    arch: usualArch(kernel, device),
    registers: BY_MANIFEST,
    'fast-math': BY_MANIFEST,
    metrics: byPlan(({ metricSet }) => metricSet),
    champion: byPlan(({ champion }) => (champion ? "the device's" : 'none')),
    device: device?.deviceId ?? '',
  };
}

/** Where the usual values of `shape` have bench's, which depend on the device. No plan's name has a space. */
const BENCH = 'fa-tui bench';

/** The sets of shapes that commands other than run take by default, whatever the device. */
const USUAL_SHAPES: Partial<Record<Action, string>> = { verify: 'parity', tune: 'canonical', profile: 'canonical' };

/** The value behind a field's first choice, which is its default; undefined if only the runner knows it. */
export function usualOf(form: RunFields, { id, usual }: FormField): string | undefined {
  const { fields } = form;
  const action = actionOf(form);
  // Only an experiment has a plan.
  if (id === 'shape' && action === 'bench')
    // Another device may be one of the other kind.
    return typeof usual === 'object' && isUsualDevice(fields) ? entryOf(usual, BENCH) : undefined;
  if (id === 'shape' && action !== 'run') return USUAL_SHAPES[action];
  const plan = fields.find(({ id }) => id === 'plan');
  const text = typeof usual === 'string' ? usual : usual && entryOf(usual, plan === undefined ? '' : valueOf(plan));
  return text === '' ? undefined : text;
}

interface RunFields {
  readonly fields: readonly FormField[];
}

const isUsualDevice = (fields: readonly FormField[]): boolean => {
  const device = fields.find(({ id }) => id === 'device');
  return device === undefined || valueOf(device) === AS_USUAL;
};

/** The choices of a field that differ: what AS_USUAL stands for is not offered a second time. */
export function choicesOf(form: RunFields, field: FormField): readonly string[] {
  const usual = field.choices[0] === AS_USUAL ? usualOf(form, field) : undefined;
  return field.choices.filter((choice, index) => choice !== usual || index === field.chosen);
}
