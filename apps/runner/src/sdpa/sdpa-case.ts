/** Cases as tools/sdpa.py takes them, and the file of inputs on which it checks rivals. */
import { ELEMENTS, isPlainAttention, type ProblemCase } from '@flashcore/shared/kernels';

/**
 * A case without its optional outputs, which no rival is asked for. `drawn`: its inputs come from a file. Otherwise it
 * must be plain attention, whose heads tools/sdpa.py draws itself.
 */
export function sdpaCase(kind: ProblemCase, { drawn }: { drawn: boolean }): Record<string, unknown> {
  const { problem, dtype, values, tensors } = kind;
  const plain = isPlainAttention(kind);
  const [B, H, S, D] = tensors[0]!.dims;
  const always = tensors.filter(({ optional }) => !optional);
  return {
    // Another problem that is plain attention may name its axes differently.
    problem: plain ? 'attention' : problem,
    dtype: ELEMENTS[dtype].torch,
    values: plain ? { B, H, S, D, Hkv: H, Skv: S, Dv: D, causal: values['causal'] ?? 0 } : values,
    tensors: always.map(({ name, direction, dims, dtype: own, layout }) => ({
      name,
      direction,
      dims,
      dtype: ELEMENTS[own].torch,
      ...(layout && !(plain && !drawn) && { layout }),
    })),
    pooled: plain && !(drawn && always.some(({ layout }) => layout)),
  };
}
