import koffi from 'koffi';
import type { ShapeFields } from '@flashcore/shared/kernels';

/** fp16 bit patterns. */
export type HalfBits = Uint16Array<ArrayBuffer>;

export interface AttentionInputs {
  Q: HalfBits;
  K: HalfBits;
  V: HalfBits;
}

/** Attention on the CPU (kernels/reference/attention_reference.h), through its C ABI. */
export interface Reference {
  /** softmax(Q Kᵀ / sqrt(D)) V in double precision; [B, H, S, D]. */
  fp64(inputs: AttentionInputs, shape: ShapeFields): Float64Array;
  /** The same as a plain fp16 implementation computes it. */
  fp16(inputs: AttentionInputs, shape: ShapeFields): HalfBits;
  /**
   * Fills with N(0, 1) times scale, as CounterRandom.fillNormal() with this key and stream does: the same bits on all
   * threads of the host.
   */
  normal(values: HalfBits, source: NormalSource): HalfBits;
}

export interface NormalSource {
  key: number;
  stream: number;
  scale: number;
}

const SIGNATURE =
  '(const void *q, const void *k, const void *v, void *out, int32_t B, int32_t H, int32_t S, int32_t D, float scale, int32_t causal, int32_t threads)';
const STATUS = ['OK', 'BAD_ARGUMENT', 'OUT_OF_MEMORY'];

type NativeReference = (
  q: HalfBits,
  k: HalfBits,
  v: HalfBits,
  out: Float64Array | HalfBits,
  ...numbers: number[]
) => number;

type NativeNormal = (
  out: HalfBits,
  count: number,
  key: number,
  stream: number,
  scale: number,
  threads: number,
) => number;

export function loadReference(path: string): Reference {
  const library = koffi.load(path);
  const fp64 = library.func(`int flashcore_reference_fp64${SIGNATURE}`) as unknown as NativeReference;
  const fp16 = library.func(`int flashcore_reference_fp16${SIGNATURE}`) as unknown as NativeReference;
  const normal = library.func(
    'int flashcore_reference_normal(void *out, int64_t count, uint32_t key, uint32_t stream, double scale, int32_t threads)',
  ) as unknown as NativeNormal;
  const call = <Out extends Float64Array | HalfBits>(
    native: NativeReference,
    inputs: AttentionInputs,
    out: Out,
    shape: ShapeFields,
  ): Out => {
    const elements = elementsOf(shape);
    for (const tensor of [inputs.Q, inputs.K, inputs.V, out])
      if (tensor.length !== elements)
        throw new RangeError(`the reference wants tensors of ${elements} elements, got ${tensor.length}`);
    // 0 threads: as many as the machine has.
    const status = native(
      inputs.Q,
      inputs.K,
      inputs.V,
      out,
      shape.batch,
      shape.heads,
      shape.sequenceLength,
      shape.headDim,
      scaleOf(shape),
      shape.causal ? 1 : 0,
      0,
    );
    return checked(status, out);
  };
  return {
    fp64: (inputs, shape) => call(fp64, inputs, new Float64Array(elementsOf(shape)), shape),
    fp16: (inputs, shape) => call(fp16, inputs, new Uint16Array(elementsOf(shape)), shape),
    normal: (values, { key, stream, scale }) => checked(normal(values, values.length, key, stream, scale, 0), values),
  };
}

function checked<Out>(status: number, out: Out): Out {
  if (status !== 0) throw new Error(`the CPU reference failed: ${STATUS[status] ?? status}`);
  return out;
}

export function elementsOf(shape: ShapeFields): number {
  return shape.batch * shape.heads * shape.sequenceLength * shape.headDim;
}

/** 1 / sqrt(D) as the float that the kernel gets. */
export function scaleOf(shape: ShapeFields): number {
  return Math.fround(1 / Math.sqrt(shape.headDim));
}
