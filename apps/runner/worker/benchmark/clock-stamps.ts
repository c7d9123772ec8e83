import { parameterArray } from '../driver/arguments.ts';
import type { CudaDriver, DevicePointer, Handle } from '../driver/cuda-driver.ts';

/** clock-stamp.cu writes nanoseconds, cycles and the SM. */
const STAMP_WORDS = 3;
const STAMP_BYTES = STAMP_WORDS * 8;
/** Samples whose stamps fit in the buffer. A batch of a tenth of a second has fewer. */
const CAPACITY = 8_192;

/**
 * The SM clock of every sample. A one-thread kernel stamps time and cycles twice per sample, outside the event pair.
 * The stamps stay on the device until a batch is over, so nothing is read between two samples.
 */
export class ClockStamps {
  readonly #driver: CudaDriver;
  readonly #module: Handle;
  readonly #function: Handle;
  readonly #buffer: DevicePointer;
  readonly #argument = Buffer.alloc(8);
  readonly #parameters: BigUint64Array;
  #taken = 0;

  /** `image` is clock-stamp.cu, compiled. */
  constructor(driver: CudaDriver, image: string) {
    this.#driver = driver;
    this.#module = driver.loadModule(image);
    this.#function = driver.function(this.#module, 'flashcore_clock_stamp', { sharedBytes: 0, cluster: false });
    this.#buffer = driver.allocate(2 * CAPACITY * STAMP_BYTES);
    this.#parameters = parameterArray([this.#argument]);
  }

  /** Enqueues one stamp. Every sample has two. */
  stamp(): void {
    if (this.#taken === 2 * CAPACITY) throw new Error(`clock stamps are read after at most ${CAPACITY} samples`);
    this.#argument.writeBigUInt64LE(this.#buffer + BigInt(this.#taken * STAMP_BYTES));
    this.#driver.launch({
      function: this.#function,
      grid: [1, 1, 1],
      block: [1, 1, 1],
      sharedBytes: 0,
      stream: this.#driver.stream,
      parameters: this.#parameters,
    });
    this.#taken += 1;
  }

  /**
   * MHz of every sample since the last call, in order; 0 if the two stamps ran on different SMs. Waits for the stream.
   */
  read(): number[] {
    const samples = this.#taken / 2;
    this.#taken = 0;
    if (samples === 0) return [];
    const words = new BigUint64Array(2 * samples * STAMP_WORDS);
    this.#driver.synchronize();
    this.#driver.download(words, this.#buffer);
    return Array.from({ length: samples }, (_, sample) =>
      clockMhz(words.subarray(2 * sample * STAMP_WORDS, 2 * (sample + 1) * STAMP_WORDS)),
    );
  }

  close(): void {
    this.#driver.free(this.#buffer);
    this.#driver.unloadModule(this.#module);
  }
}

/** Cycles per microsecond between two stamps; 0 if unknown. */
export function clockMhz(stamps: BigUint64Array): number {
  const [startNs, startCycles, startSm, endNs, endCycles, endSm] = stamps as unknown as [
    bigint,
    bigint,
    bigint,
    bigint,
    bigint,
    bigint,
  ];
  if (startSm !== endSm || endNs <= startNs || endCycles <= startCycles) return 0;
  return (1000 * Number(endCycles - startCycles)) / Number(endNs - startNs);
}
