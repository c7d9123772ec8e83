import { create } from '@bufbuild/protobuf';
import { Phase, Verdict, PrecheckItemSchema, type PrecheckItem, type Shape } from '@flashcore/shared/contract';
import { DEFAULT_PROBLEM, accumulateOf, formatShape, valuesOf, type Requirements } from '@flashcore/shared/kernels';
import { startPhase } from './job-services.ts';
import type { VariantPhase } from './phase.ts';
import type { JobSpec } from '../spec/job-spec.ts';
import { WMMA_TOGGLE } from '../spec/plan-spec.ts';

/**
 * Compares the manifest of this variant with the plan's requirements before the build. A fallback is not checked again.
 */
export const precheckPhase: VariantPhase = {
  phase: Phase.PRECHECK,
  wants: ({ spec }, { result }) => spec.judged !== undefined && !result.fallback,
  run({ job, spec }, found) {
    const items = checks(spec, spec.judged!.plan.require);
    startPhase({ job, resolved: spec.resolved }, Phase.PRECHECK, items.length);
    for (const item of items) job.emit({ case: 'precheck', value: item });
    found.job.prechecks.push(...items);
    const failed = items.find(({ verdict }) => verdict === Verdict.FAIL);
    return Promise.resolve(failed && `the precheck failed: ${failed.check}`);
  },
};

/** The checks that the plan asks for. Dtypes, head dimensions and masks are those of attention's ladder. */
function checks(spec: JobSpec, required: Requirements): PrecheckItem[] {
  const isAttention = spec.kernel.manifest.problem.id === DEFAULT_PROBLEM;
  return [
    ...(required.inputs && isAttention ? [inputs(spec, required.inputs)] : []),
    ...(required.accumulate ? [accumulate(spec, required.accumulate)] : []),
    ...(required.multipleOf && isAttention ? [shapes(spec, required.multipleOf)] : []),
    ...(required.toggle ? [toggle(spec)] : []),
    ...(required.causal && isAttention ? [causal(spec)] : []),
  ];
}

function item(check: string, passed: boolean, detail: string): PrecheckItem {
  return create(PrecheckItemSchema, { check, verdict: passed ? Verdict.PASS : Verdict.FAIL, detail });
}

function inputs({ resolved: { dtype: found } }: JobSpec, wanted: readonly string[]): PrecheckItem {
  return item('inputs', wanted.includes(found), `the manifest says ${found}, ${wanted.join(' or ')} is required`);
}

/** Checks the accumulator type for these parameters, because a toggle may change it. */
function accumulate({ kernel: { manifest }, resolved }: JobSpec, wanted: string): PrecheckItem {
  const found = accumulateOf(manifest, resolved.parameters);
  const { accumulate: declared } = manifest.math;
  const because = typeof declared === 'string' ? '' : ` (fp32 when ${declared.fp32When.text})`;
  return item('accumulate', found === wanted, `the manifest says ${found}${because}, ${wanted} is required`);
}

/**
 * Head dimensions must fit the tensor cores. If a length does not fit, the kernel must mask the rest; its limits say
 * whether it does.
 */
function shapes({ shapes: asked }: JobSpec, multipleOf: number): PrecheckItem {
  const wrong = asked.filter((shape) => valuesOf(shape)['D']! % multipleOf !== 0);
  if (wrong.length > 0)
    return item('shapes', false, `the head dimension of ${list(wrong)} is not a multiple of ${multipleOf}`);
  const ragged = asked.filter((shape) => valuesOf(shape)['S']! % multipleOf !== 0);
  if (ragged.length > 0)
    return item(
      'shapes',
      true,
      `the length of ${list(ragged)} is not a multiple of ${multipleOf}; the kernel's limits allow it`,
    );
  return item(
    'shapes',
    true,
    `S and D of ${asked.length === 1 ? 'the shape' : `all ${asked.length} shapes`} are multiples of ${multipleOf}`,
  );
}

/** Requires that the kernel can run without tensor cores, or that its manifest says why it can't. */
function toggle({ kernel: { manifest }, resolved }: JobSpec): PrecheckItem {
  if (manifest.parameters[WMMA_TOGGLE] !== undefined)
    return item('toggle', true, `${WMMA_TOGGLE}=${resolved.parameters[WMMA_TOGGLE]}`);
  if (manifest.toggle !== undefined) return item('toggle', true, `no ${WMMA_TOGGLE}: ${manifest.toggle}`);
  return item(
    'toggle',
    false,
    `there is no parameter ${WMMA_TOGGLE}: add one, or say under \`toggle\` in kernel.yaml why there is none`,
  );
}

function causal({ kernel, shapes: asked }: JobSpec): PrecheckItem {
  const wanted = asked.filter((shape) => shape.causal);
  const { launches, limits } = kernel.manifest;
  const names = /\bcausal\b/;
  const passed = launches.some(
    ({ arguments: values, when }) =>
      values.some((value) => value.kind === 'int32' && names.test(value.value.text)) || (when && names.test(when.text)),
  );
  if (passed) return item('causal', true, 'a launch receives whether the mask is causal');
  const refused = limits.some(({ require }) => names.test(require.text));
  if (wanted.length === 0 || refused)
    return item('causal', true, refused ? 'the manifest refuses causal shapes' : 'no causal shape was asked for');
  return item(
    'causal',
    false,
    `${list(wanted)} ${wanted.length === 1 ? 'is' : 'are'} causal, and no launch has an argument that says so`,
  );
}

const list = (shapesToName: readonly Shape[]): string => shapesToName.map(formatShape).join(', ');
