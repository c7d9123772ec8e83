import { TimingMode, type Shape } from '@flashcore/shared/contract';

/** Names a series of samples: "2x8x512x64 HOT candidate". */
export function benchmarkKey(shape: Shape | undefined, mode: TimingMode, subject: string): string {
  const place =
    shape === undefined
      ? ''
      : [shape.batch, shape.heads, shape.sequenceLength, shape.headDim, shape.causal ? 'c' : ''].join('x');
  return `${place} ${TimingMode[mode]} ${subject}`;
}
