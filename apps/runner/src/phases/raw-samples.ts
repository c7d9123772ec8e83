import { ArtifactKind, type Sha256, type Shape } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import type { TimingModeName } from '../../worker/messages/measuring.ts';
import type { ArtifactStore } from '../store/artifacts.ts';

export interface StoredSamples {
  sha256: Sha256;
  kind: ArtifactKind;
  fileName: string;
  sizeBytes: bigint;
}

interface SamplesOf {
  name: string;
  shape: Shape;
  mode: TimingModeName;
}

/**
 * Keeps raw samples, or their clocks, as little-endian float32. `name` is "samples", "sm-clocks" …, the beginning of
 * the file's name.
 */
export function storeRaw(
  artifacts: ArtifactStore,
  values: Float32Array,
  { name, shape, mode }: SamplesOf,
): StoredSamples {
  const bytes = Buffer.alloc(values.length * 4);
  values.forEach((value, index) => bytes.writeFloatLE(value, index * 4));
  const clocks = name.endsWith('sm-clocks');
  return {
    sha256: artifacts.put(bytes),
    kind: clocks ? ArtifactKind.SM_CLOCKS : ArtifactKind.SAMPLES,
    fileName: `${name}.${formatShape(shape)}.${mode}.f32`,
    sizeBytes: BigInt(bytes.length),
  };
}
