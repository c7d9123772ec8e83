/** Parses a gates file: gates, and the plans that state what must be measured and the level of each gate. */
import * as z from 'zod';
import { FlashcoreError } from '../../contract/errors.ts';
import { DeadlinePassed, withinDeadline } from '../../text/deadline.ts';
import { TENSOR_DTYPES } from '../../data/dtype.ts';
import { didYouMean } from '../../text/nearest-names.ts';
import {
  finite,
  flag,
  integer,
  listOf,
  mapOf,
  oneOf,
  parseYamlFile,
  strict,
  text,
  type YamlFault,
} from '../../data/yaml-file.ts';
import type { GatesFile, Plan, PlanGate } from './gate.ts';
import { gateId, gateLevel, gateOperator, gateSchema } from './gate-schema.ts';
import { TIMING_MODES } from './metrics.ts';

/** Time limit on parsing. Real files take about 20 ms. */
const PARSE_LIMIT_MS = 800;
const MAX_GATES = 256;
const MAX_PLANS = 64;
const METRIC_SETS = ['none', 'gates', 'roofline', 'stalls', 'full'] as const;

const planGate = z
  .union([
    gateLevel,
    strict({ level: gateLevel, target: finite().optional(), op: gateOperator.optional(), why: text().optional() }),
  ])
  .transform((value): PlanGate => (typeof value === 'string' ? { level: value } : value));

const inputDtype = oneOf(TENSOR_DTYPES);

const requirements = strict({
  inputs: z
    .union([inputDtype.transform((dtype) => [dtype]), listOf(inputDtype).min(1, 'must have at least one dtype')])
    .optional(),
  accumulate: oneOf(['fp16', 'fp32']).optional(),
  multiple_of: integer(1, 1024).optional(),
  causal: flag().default(false),
  toggle: flag().default(false),
});

const planSchema = strict({
  title: text(),
  about: text(),
  from: text(),
  cases: gateId.default('parity'),
  shapes: gateId.default('canonical'),
  modes: listOf(oneOf(TIMING_MODES)).min(1, 'must have at least one mode').default(['cold', 'hot']),
  metrics: oneOf(METRIC_SETS).default('gates'),
  champion: flag().default(true),
  fallback: oneOf(['beside', 'continue', 'none']).default('beside'),
  acceptable: flag().default(true),
  require: requirements.prefault({}),
  gates: mapOf(gateId, planGate, MAX_GATES),
  others: gateLevel.default('warn'),
  own_gates: oneOf(['judged', 'shown']).default('judged'),
});

export const gatesFileSchema = strict({
  default: gateId,
  gates: listOf(gateSchema, MAX_GATES),
  plans: mapOf(gateId, planSchema, MAX_PLANS),
});

/**
 * Parses a gates file; error messages show `path`. Errors: INVALID_MANIFEST with path and key, also for an unknown
 * metric.
 */
export function parseGates(yamlText: string, path: string): GatesFile {
  try {
    return withinDeadline(PARSE_LIMIT_MS, () => readGates(yamlText, path));
  } catch (cause) {
    if (!(cause instanceof DeadlinePassed)) throw cause;
    const message = `must be a gates file that can be read within ${PARSE_LIMIT_MS / 1000} s; make it shorter`;
    throw new FlashcoreError('INVALID_MANIFEST', { path }, `${path}: ${message}`, { cause });
  }
}

function readGates(yamlText: string, path: string): GatesFile {
  const file = parseYamlFile(yamlText, path, gatesFileSchema);
  const faults = [...gateFaults(file.value), ...planFaults(file.value)];
  if (faults.length > 0) throw file.refuse(faults);
  const { gates, plans, default: defaultPlan } = file.value;
  return {
    gates,
    plans: new Map(Object.entries(plans).map(([name, plan]) => [name, planOf(name, plan)])),
    defaultPlan,
  };
}

type RawFile = z.output<typeof gatesFileSchema>;

function gateFaults({ gates }: RawFile): YamlFault[] {
  const ids = gates.map(({ id }) => id);
  const single = gates.filter(({ anyOf }) => anyOf.length === 0).map(({ id }) => id);
  return gates.flatMap(({ id, anyOf }, index) => [
    ...(ids.indexOf(id) === index
      ? []
      : [{ key: ['gates', index, 'id'], message: `the id "${id}" is taken by a gate before` }]),
    ...anyOf
      .filter((other) => !single.includes(other))
      .map((other) => ({
        key: ['gates', index, 'any_of'],
        message: `"${other}" is not a gate with a metric${didYouMean(other, single)}`,
      })),
  ]);
}

function planFaults({ gates, plans, default: defaultPlan }: RawFile): YamlFault[] {
  const ids = gates.map(({ id }) => id);
  const unknown = Object.entries(plans).flatMap(([plan, { gates: named }]) =>
    Object.keys(named)
      .filter((id) => !ids.includes(id))
      .map((id) => ({
        key: ['plans', plan, 'gates', id],
        message: `"${id}" is not a gate of this file${didYouMean(id, ids)}`,
      })),
  );
  if (Object.hasOwn(plans, defaultPlan)) return unknown;
  const message = `"${defaultPlan}" is not a plan of this file${didYouMean(defaultPlan, Object.keys(plans))}`;
  return [...unknown, { key: ['default'], message }];
}

function planOf(name: string, raw: z.output<typeof planSchema>): Plan {
  const { metrics, require, gates, own_gates: ownGates, ...plan } = raw;
  const { multiple_of: multipleOf, ...required } = require;
  return {
    name,
    ...plan,
    metricSet: metrics,
    require: { ...required, multipleOf },
    gates: new Map(Object.entries(gates)),
    ownGates,
  };
}
