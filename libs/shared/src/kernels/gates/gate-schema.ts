/** Schemas of gates in gates.yaml and in a kernel's own manifest. */
import * as z from 'zod';
import { finite, listOf, matching, oneOf, strict, text } from '../../data/yaml-file.ts';
import { type Gate, type OwnGate, OPERATORS } from './gate.ts';
import { metricFault, phaseOfMetric, TIMING_MODES } from './metrics.ts';

const GROUP_TARGET = 1;

export const gateId = matching(/^[a-z][a-z0-9_]{0,63}$/, 'an id of lower-case letters, digits and "_"');
export const gateLevel = oneOf(['hard', 'warn', 'off']);
export const gateOperator = oneOf(OPERATORS);
const archs = z.union([z.string().transform((name) => [name]), z.array(z.string())]).default([]);

const archOverride = strict({
  arch: archs,
  target: finite().optional(),
  level: gateLevel.optional(),
  why: text().optional(),
}).transform(({ arch, ...rest }) => ({ archs: arch, ...rest }));

/** The measured quantity and its comparison; a group has any_of instead. */
const measured = {
  title: text().optional(),
  metric: text().optional(),
  mode: oneOf(TIMING_MODES).optional(),
  statistic: text().optional(),
  shape: text().optional(),
  backend: text().optional(),
  any_of: listOf(gateId, 16).min(1, 'must have at least one gate').optional(),
  op: gateOperator.optional(),
  target: finite().optional(),
  unit: text().optional(),
  source: text().optional(),
};

type Measured = z.output<ReturnType<typeof strict<typeof measured>>>;

/** A gate of a gates file. */
export const gateSchema = strict({
  id: gateId,
  ...measured,
  why: text(),
  overrides: listOf(archOverride, 32).default([]),
})
  .superRefine((gate, context) => refuseIncomplete(gate, context))
  .transform((gate) => gateOf(gate));

/** A gate of a kernel's manifest. `why` is required; for a key that is left out, the value in gates.yaml applies. */
export const ownGateSchema = strict({
  id: gateId,
  ...measured,
  why: text(),
  level: gateLevel.optional(),
  arch: archs,
  plans: listOf(gateId, 64).default([]),
})
  .superRefine((gate, context) => {
    if (gate.metric !== undefined || gate.any_of !== undefined) refuseIncomplete(gate, context);
    else if (gate.level === undefined && gate.target === undefined && gate.op === undefined)
      context.addIssue({ code: 'custom', path: ['level'], message: 'must have a level or a target, got neither' });
  })
  .transform((own): OwnGate => ({
    id: own.id,
    why: own.why,
    archs: own.arch,
    plans: own.plans,
    level: own.level,
    target: own.target,
    op: own.op,
    gate: own.metric === undefined && own.any_of === undefined ? undefined : gateOf({ ...own, overrides: [] }),
  }));

type Complete = Measured & { id: string; why: string; overrides: Gate['overrides'] };

function gateOf(gate: Complete): Gate {
  const { id, why, overrides, title, any_of: anyOf, mode, statistic, shape, backend } = gate;
  const name = gate.metric ?? '';
  return {
    id,
    title: title ?? id.replaceAll('_', ' '),
    phase: anyOf ? 'group' : phaseOfMetric(name)!,
    metric: { name, mode, statistic, shape, backend },
    anyOf: anyOf ?? [],
    op: anyOf ? '>=' : gate.op!,
    target: anyOf ? GROUP_TARGET : gate.target!,
    unit: gate.unit ?? (anyOf ? 'gates' : ''),
    source: gate.source ?? '',
    why,
    overrides,
  };
}

function refuseIncomplete(gate: Measured, context: z.core.$RefinementCtx): void {
  const refuse = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message });
  if (gate.any_of !== undefined) {
    for (const key of ['metric', 'op', 'target'] as const)
      if (gate[key] !== undefined) refuse(key, 'a gate with any_of passes when one of those passes: it has none');
    return;
  }
  if (gate.metric === undefined) return refuse('metric', 'must be a metric (or any_of), got nothing');
  if (gate.op === undefined) refuse('op', `must be one of ${OPERATORS.join(', ')}, got nothing`);
  if (gate.target === undefined) refuse('target', 'must be a number, got nothing');
  const { metric: name, mode, statistic, shape, backend } = gate;
  const fault = metricFault({ name, mode, statistic, shape, backend });
  if (fault) refuse(fault.key, fault.message);
}
