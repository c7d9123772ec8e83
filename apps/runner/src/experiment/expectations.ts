import { create } from '@bufbuild/protobuf';
import { ExpectationSchema, type Expectation, type VariantResult } from '@flashcore/shared/contract';
import { measureMetric, formatShape } from '@flashcore/shared/kernels';
import type { JobServices } from '../phases/job-services.ts';

/**
 * Figures that notes claimed or projected for the kernel, with what was measured here for the same metric and shape.
 * Times are hot, because the notes timed launches in a loop.
 */
export function expectationsOf({ spec, cases }: JobServices, variant: VariantResult | undefined): Expectation[] {
  return spec.kernel.manifest.expectations.map(({ note, ...expectation }) => {
    const { metric: name, shape } = expectation;
    const measured =
      variant &&
      measureMetric({ name, mode: 'hot', shape: formatShape(shape) }, { variant, cases, benchmarked: [shape] });
    return create(ExpectationSchema, {
      ...expectation,
      note: note ?? '',
      ...(measured !== undefined && { measured, measuredOn: spec.device.name }),
    });
  });
}
