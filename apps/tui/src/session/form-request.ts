import type { KernelReference } from '@flashcore/shared/contract';
import { tunedValues } from '../state/form-command.ts';
import { actionOf, NONE, ON, shapesOf, valueOf } from '../state/form-field.ts';
import type { RunForm } from '../state/run-form.ts';
import { type StartRequest, jobRequest } from './runner-port.ts';

/** The kernel of a request: either a client's reference, or the id of one of the runner's own kernels. */
export type RequestedKernel = Pick<KernelReference, 'source'>;

export const namedKernel = (id: string): RequestedKernel => ({
  source: { case: 'kernelId', value: id },
});

/** The request that a form describes. Fields that have their defaults are omitted, so that the runner fills them in. */
export function formRequest(
  form: RunForm,
  defaults: RunForm,
  kernel = namedKernel(form.kernel.kernelId),
): StartRequest {
  const { fields } = form;
  const chosen = (id: string): string | undefined => {
    const field = fields.find((candidate) => candidate.id === id);
    const usual = defaults.fields.find((candidate) => candidate.id === id);
    return field === undefined || (usual !== undefined && valueOf(field) === valueOf(usual))
      ? undefined
      : valueOf(field);
  };
  const parameters = fields
    .filter(({ id }) => id.startsWith('param:'))
    .flatMap(({ id, label }) => {
      const value = chosen(id);
      return value === undefined ? [] : [[label, BigInt(value)] as const];
    });
  const caseSet = chosen('cases');
  const [plan, tolerance, seconds, champion, device, registers, fastMath, metrics] = [
    chosen('plan'),
    chosen('tolerance'),
    chosen('seconds'),
    chosen('champion'),
    chosen('device'),
    chosen('registers'),
    chosen('fast-math'),
    chosen('metrics'),
  ];
  const shapes = shapesOf(chosen('shape') ?? '');
  const samples = Number(chosen('samples') ?? 0);
  const profile = {
    ...(shapes[0] !== undefined && { shape: shapes[0] }),
    ...(metrics !== undefined && { metricSet: metrics }),
  };
  const common = { ...(device !== undefined && { options: { deviceId: device } }), kernel };
  const action = actionOf(form);
  if (action === 'tune') {
    const tuned = tunedValues(form, defaults).map(({ name, values }) => ({ name, values: values.map(BigInt) }));
    return {
      method: 'tune',
      request: { ...common, shapes, seed: 1, parameters: parameters.length === 0 ? [] : tuned },
    };
  }
  return jobRequest(action, {
    common: {
      ...common,
      variant: {
        parameters: Object.fromEntries(parameters),
        config: chosen('config') ?? '',
        arch: chosen('arch') ?? '',
        ...(registers !== undefined && { maxRegisters: Number(registers) }),
        ...(fastMath !== undefined && { fastMath: fastMath === ON }),
      },
    },
    verify: {
      ...(caseSet === undefined ? { shapes } : { caseSet }),
      seedCount: Number(chosen('seeds') ?? 0),
      ...(tolerance !== undefined && { tolerance: { profile: tolerance } }),
      ...(chosen('sanitizer') !== undefined && { sanitize: true }),
    },
    benchmark: {
      shapes,
      ...((seconds !== undefined || samples > 0) && {
        protocol: {
          ...(seconds !== undefined && { maxSeconds: Number(seconds) }),
          ...(samples > 0 && { minSamples: samples, maxSamples: samples }),
        },
      }),
      ...(champion !== undefined && champion !== NONE && { champion: { kernel: namedKernel(champion) } }),
    },
    ...(Object.keys(profile).length > 0 && { profile }),
    experiment: {
      ...(plan !== undefined && { plan }),
      ...(champion === NONE && { noChampion: true }),
    },
  });
}
