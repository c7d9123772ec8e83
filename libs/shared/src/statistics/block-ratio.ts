import { Random } from './random.ts';
import type { Interval } from './statistics.ts';

export interface BlockRatio extends Interval {
  readonly ratio: number;
}

const RESAMPLES = 4_000;
const DEFAULT_SEED = 0x666c_6173;

interface BootstrapOptions {
  perBlock: number;
  confidence?: number;
  resamples?: number;
  seed?: number;
}

/**
 * median(numerator) / median(denominator) of samples from interleaved blocks, with its 95 % bootstrap percentile
 * interval. Whole blocks are resampled, because a slow stretch of the device affects both builds of a block and leaves
 * their ratio unchanged. A block has `perBlock` consecutive samples of each build. The seed is fixed, so the same
 * samples give the same interval. Errors: RangeError if there are no samples or they do not form whole blocks.
 */
export function blockRatioInterval(
  numerator: ArrayLike<number>,
  denominator: ArrayLike<number>,
  options: BootstrapOptions,
): BlockRatio {
  const { perBlock, confidence = 0.95, resamples = RESAMPLES, seed = DEFAULT_SEED } = options;
  const blocks = numerator.length / perBlock;
  if (blocks < 1 || !Number.isInteger(blocks) || denominator.length !== numerator.length) {
    throw new RangeError(
      `Both must have whole blocks of ${perBlock} samples, got ${numerator.length} and ${denominator.length} samples`,
    );
  }
  const [above, below] = [new BlockSamples(numerator, perBlock), new BlockSamples(denominator, perBlock)];
  const random = new Random(seed);
  const weights = new Uint32Array(blocks);
  const ratios = Float64Array.from({ length: resamples }, () => {
    weights.fill(0);
    for (let drawn = 0; drawn < blocks; ++drawn) weights[Math.floor(random.uniform() * blocks)]! += 1;
    return above.median(weights) / below.median(weights);
  }).sort();
  const at = (share: number): number => ratios[Math.round(share * (resamples - 1))]!;
  const once = new Uint32Array(blocks).fill(1);
  return {
    ratio: above.median(once) / below.median(once),
    low: at((1 - confidence) / 2),
    high: at((1 + confidence) / 2),
  };
}

/** Samples with their order and their blocks, sorted once for all resamples. */
class BlockSamples {
  readonly #sorted: Float64Array;
  readonly #blocks: Uint32Array;

  constructor(samples: ArrayLike<number>, perBlock: number) {
    const order = Uint32Array.from({ length: samples.length }, (_, index) => index).sort(
      (a, b) => samples[a]! - samples[b]!,
    );
    this.#sorted = Float64Array.from(order, (index) => samples[index]!);
    this.#blocks = Uint32Array.from(order, (index) => Math.floor(index / perBlock));
  }

  /** The median if block b occurs weights[b] times; the weights must sum up to the number of blocks. */
  median(weights: Uint32Array): number {
    const count = this.#sorted.length;
    const lower = Math.floor((count + 1) / 2);
    let seen = 0;
    let first = Number.NaN;
    for (let place = 0; place < count; ++place) {
      seen += weights[this.#blocks[place]!]!;
      if (seen < lower) continue;
      if (Number.isNaN(first)) first = this.#sorted[place]!;
      if (count % 2 === 1) return first;
      if (seen > lower) return (first + this.#sorted[place]!) / 2;
    }
    return first;
  }
}
