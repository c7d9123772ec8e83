import { invalidRequest, type BenchmarkRequest, type Device, type Shape } from '@flashcore/shared/contract';
import {
  attention,
  formatShape,
  isPlainAttention,
  isSmall,
  isTensorDtype,
  problemCase,
  valuesOf,
  type Cases,
  type Problem,
  type TensorDtype,
} from '@flashcore/shared/kernels';
import { RIVALS, SDPA_BACKENDS } from '@flashcore/shared/rivals';
import { didYouMean } from '@flashcore/shared/text';
import type { TimingModeName } from '../../worker/messages/measuring.ts';
import { planProtocol, type BenchmarkProtocolSpec } from './benchmark-protocol.ts';
import { chooseDevice, type DeviceChoice } from './choose-device.ts';
import { caseSet, requestedCases, uniqueShapes } from './choose-shapes.ts';

/** SDPA measured without a kernel, with every default filled in. */
export interface SdpaSpec {
  device: Device;
  shapes: Shape[];
  /** Dtype of the tensors. */
  dtype: TensorDtype;
  modes: TimingModeName[];
  protocol: BenchmarkProtocolSpec;
  /** For example "flash"; empty: all. */
  backends: string[];
}

interface SdpaContext extends DeviceChoice {
  cases: Cases;
}

/** Errors: INVALID_REQUEST, also for a kind of device without PyTorch. */
export function planSdpa({ options, settings }: BenchmarkRequest, { devices, cases, load }: SdpaContext): SdpaSpec {
  const device = chooseDevice({ devices, load }, options?.deviceId ?? '');
  if (device.simulated)
    throw invalidRequest({
      field: 'options.device_id',
      description: `must be a GPU to measure SDPA without a kernel: PyTorch can't run on ${device.name}`,
    });
  const { modes, protocol } = planProtocol(settings?.protocol, device);
  const { shapes: asked = [], dtype = '' } = settings ?? {};
  const shapes = uniqueShapes(
    asked.length > 0 ? requestedCases(asked, cases) : caseSet(settings?.shapeSet || 'canonical', cases, 'shape_set'),
  );
  const other = shapes.find((shape) => !isPlainAttention(problemCase(attention(), valuesOf(shape), 'fp16')));
  if (other)
    throw invalidRequest({
      field: asked.length > 0 ? 'shapes' : 'shape_set',
      description: `must be plain attention to measure SDPA without a kernel, got ${formatShape(other)}: leave out other heads, lengths and forms`,
    });
  return {
    device,
    shapes,
    dtype: sdpaDtype(dtype),
    modes,
    protocol,
    backends: sdpaBackendsOf(settings?.sdpaBackends ?? []),
  };
}

/** Why PyTorch's SDPA is not measured along with a kernel on this shape; undefined if it is. */
export function whyNotSdpa(problem: Problem, shape: Shape, dtype: TensorDtype): string | undefined {
  const isPlain = isPlainAttention(problemCase(problem, valuesOf(shape), dtype));
  const isNamed = problem.baselines.includes('sdpa');
  if (isPlain && isNamed) return undefined;
  const reason = isPlain ? ', whose problem.yaml does not name it in `baselines`' : '';
  return `SDPA is not called for ${formatShape(shape)} of ${problem.id}${reason}`;
}

/** Errors: INVALID_REQUEST for formats of 8 bits, which PyTorch's SDPA does not take. */
function sdpaDtype(text: string): TensorDtype {
  const dtype = isTensorDtype(text) ? text : 'fp16';
  if (isSmall(dtype))
    throw invalidRequest({ field: 'dtype', description: `must be fp16, bf16 or fp32 for SDPA, got ${dtype}` });
  return dtype;
}

/** Names with or without "sdpa/"; "sdpa" means all. Errors: INVALID_REQUEST naming the backends. */
export const sdpaBackendsOf = (asked: readonly string[]): string[] =>
  asked.includes('sdpa') ? [] : namesOf(asked, { field: 'sdpa_backends', known: SDPA_BACKENDS });

/** Names of rivals; "all" means all of them. Errors: INVALID_REQUEST naming them. */
export const rivalsOf = (asked: readonly string[]): string[] =>
  asked.includes('all') ? [...RIVALS] : [...new Set(namesOf(asked, { field: 'rivals', known: RIVALS }))];

function namesOf(asked: readonly string[], { field, known }: { field: string; known: readonly string[] }): string[] {
  return asked.map((text) => {
    const name = text.replace(/^sdpa\//, '');
    if (known.includes(name)) return name;
    throw invalidRequest({
      field,
      description: `must be some of ${known.join(', ')}, got "${text}"${didYouMean(name, known)}`,
    });
  });
}
