import { create } from '@bufbuild/protobuf';
import { Phase, Verdict, PrecheckItemSchema, type PrecheckItem, type Shape } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { startPhase } from './job-services.ts';
import type { VariantPhase } from './phase.ts';
import { WMMA_TOGGLE, type JobSpec } from '../spec/job-spec.ts';

const WMMA_TILE = 16;

/** The check before the build: what the manifest says must be what the experiment needs. A fallback has passed it. */
export const precheckPhase: VariantPhase = {
  wants: ({ spec }, { result }) => spec.method === 'runExperiment' && !result.fallback,
  run({ job, spec }, found) {
    startPhase({ job, resolved: spec.resolved }, Phase.PRECHECK, 5);
    const items = [inputs(spec), accumulate(spec), shapes(spec), toggle(spec), causal(spec)];
    for (const item of items) job.emit({ case: 'precheck', value: item });
    found.job.prechecks.push(...items);
    const failed = items.find(({ verdict }) => verdict === Verdict.FAIL);
    return Promise.resolve(failed && `the precheck failed: ${failed.check}`);
  },
};

function item(check: string, passed: boolean, detail: string): PrecheckItem {
  return create(PrecheckItemSchema, { check, verdict: passed ? Verdict.PASS : Verdict.FAIL, detail });
}

function inputs({ kernel }: JobSpec): PrecheckItem {
  const found = kernel.manifest.math.inputs;
  return item('inputs', found === 'fp16', `the manifest says ${found}, the tensors are fp16`);
}

function accumulate({ kernel }: JobSpec): PrecheckItem {
  const found = kernel.manifest.math.accumulate;
  return item('accumulate', found === 'fp32', `the manifest says ${found}, fp32 is required`);
}

/**
 * Head dimensions must fit the tensor cores; a length that does not is the kernel's to mask, and its limits say whether
 * it does.
 */
function shapes({ shapes: asked }: JobSpec): PrecheckItem {
  const wrong = asked.filter(({ headDim }) => headDim % WMMA_TILE !== 0);
  if (wrong.length > 0)
    return item('shapes', false, `the head dimension of ${list(wrong)} is no multiple of ${WMMA_TILE}`);
  const ragged = asked.filter(({ sequenceLength }) => sequenceLength % WMMA_TILE !== 0);
  if (ragged.length > 0)
    return item(
      'shapes',
      true,
      `the length of ${list(ragged)} is no multiple of ${WMMA_TILE}; the kernel's limits allow it`,
    );
  return item(
    'shapes',
    true,
    `S and D of ${asked.length === 1 ? 'the shape' : `all ${asked.length} shapes`} are multiples of ${WMMA_TILE}`,
  );
}

function toggle({ kernel, fallback, resolved }: JobSpec): PrecheckItem {
  const has = kernel.manifest.parameters[WMMA_TOGGLE] !== undefined;
  if (!has) return item('toggle', true, `no ${WMMA_TOGGLE}: there is nothing to fall back to`);
  return item(
    'toggle',
    true,
    `${WMMA_TOGGLE}=${resolved.parameters[WMMA_TOGGLE]}${fallback ? `; ${WMMA_TOGGLE}=0 is run beside it if a gate fails` : ''}`,
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
  if (passed) return item('causal', true, 'the kernel is told whether the mask is causal');
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
