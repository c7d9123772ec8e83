/** Shapes of attention problems: text form, arithmetic and traffic. */
import { create } from '@bufbuild/protobuf';
import { DTYPE_BYTES, type TensorDtype } from './dtype.ts';
import { FlashcoreError, type FieldViolation, invalidRequest } from '../contract/errors.ts';
import { type Shape, ShapeSchema } from '../generated/flashcore/runner/v1/kernel_pb.js';

const MAX_INT32 = 2 ** 31 - 1;
// Indices into a tensor are 32-bit in most kernels, and no device here holds four larger tensors.
export const MAX_TENSOR_ELEMENTS = 2 ** 31 - 1;

/** Reads "BxHxSxD", with "c" appended for a causal mask, for example "2x8x512x64c". Errors: INVALID_REQUEST. */
export function parseShape(text: string): Shape {
  const match = /^(\d{1,10})x(\d{1,10})x(\d{1,10})x(\d{1,10})(c?)$/i.exec(text.trim());
  if (!match) {
    throw new FlashcoreError(
      'INVALID_REQUEST',
      { shape: text },
      `Shape "${text}": must be such as 2x8x512x64 (batch x heads x sequence length x head dimension; append c for causal)`,
      { violations: [{ field: 'shape', description: 'not of the form BxHxSxD or BxHxSxDc' }] },
    );
  }
  const [batch, heads, sequenceLength, headDim] = match.slice(1, 5).map(Number) as [number, number, number, number];
  const violations = shapeViolations({ batch, heads, sequenceLength, headDim }, 'shape');
  if (violations.length > 0) throw invalidRequest(...violations);
  return create(ShapeSchema, { batch, heads, sequenceLength, headDim, causal: match[5] !== '' });
}

/** The fields of a shape alone, of a message of the contract. */
export const shapeFields = ({ batch, heads, sequenceLength, headDim, causal }: ShapeFields): ShapeFields => ({
  batch,
  heads,
  sequenceLength,
  headDim,
  causal,
});

/** The text that parseShape reads. */
export function formatShape({ batch, heads, sequenceLength, headDim, causal }: ShapeFields): string {
  return `${batch}x${heads}x${sequenceLength}x${headDim}${causal ? 'c' : ''}`;
}

/**
 * What is wrong with a shape before any kernel is asked: each extent at least 1, a tensor of at most 2^31 - 1 elements.
 */
export function shapeViolations(shape: Omit<ShapeFields, 'causal'>, field: string): FieldViolation[] {
  const names = {
    batch: shape.batch,
    heads: shape.heads,
    sequence_length: shape.sequenceLength,
    head_dim: shape.headDim,
  };
  const violations = Object.entries(names)
    .filter(([, extent]) => !Number.isInteger(extent) || extent < 1 || extent > MAX_INT32)
    .map(([name, extent]) => ({
      field: `${field}.${name}`,
      description: `wanted an integer of 1 to ${MAX_INT32}, found ${extent}`,
    }));
  if (violations.length === 0 && tensorElements(shape) > MAX_TENSOR_ELEMENTS) {
    violations.push({
      field,
      description: `wanted at most ${MAX_TENSOR_ELEMENTS} elements a tensor, found ${tensorElements(shape)}`,
    });
  }
  return violations;
}

/** Elements of Q (and of K, V, O): B H S D. */
export const tensorElements = ({ batch, heads, sequenceLength, headDim }: Omit<ShapeFields, 'causal'>): number =>
  batch * heads * sequenceLength * headDim;

/**
 * Floating-point operations of QK^T and PV: 4 B H S^2 D, half of it when causal (the convention of FlashAttention's
 * papers; the softmax does not count).
 */
export function attentionFlops(shape: ShapeFields): number {
  return 4 * tensorElements(shape) * shape.sequenceLength * (shape.causal ? 0.5 : 1);
}

/** Least traffic with device memory in bytes: Q, K, V and O once each. */
export const attentionBytes = (shape: ShapeFields, dtype: TensorDtype = 'fp16'): number =>
  4 * DTYPE_BYTES[dtype] * tensorElements(shape);

export const sameShape = (a: ShapeFields, b: ShapeFields): boolean => formatShape(a) === formatShape(b);

/** The fields of the proto's Shape. */
export type ShapeFields = Pick<Shape, 'batch' | 'heads' | 'sequenceLength' | 'headDim' | 'causal'>;

/** The names that manifests' expressions use for a shape. `scale` is 1 / sqrt(D), the factor of QK^T. */
export function shapeScope({
  batch,
  heads,
  sequenceLength,
  headDim,
  causal,
}: ShapeFields): Record<(typeof SHAPE_NAMES)[number], number> {
  return { B: batch, H: heads, S: sequenceLength, D: headDim, causal: causal ? 1 : 0, scale: 1 / Math.sqrt(headDim) };
}

export const SHAPE_NAMES = ['B', 'H', 'S', 'D', 'causal', 'scale'] as const;
