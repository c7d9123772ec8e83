/**
 * Measures whether the kernels that stamp the clock around a sample change the measured times. Takes hot and cold
 * samples on the same inputs with and without these kernels, in blocks A B B A, and compares the clock frequencies from
 * the stamps with NVML's.
 *   node clock-stamps.js --library libcuda.so.1 --kernel ID [--shape 2x8x512x64] [--blocks 100]
 *     [--nvml libnvidia-ml.so.1]
 * Prints one JSON object.
 */
import { parseArgs } from 'node:util';
import { ClockStamps, ColdSampler, Conditions, HotSampler, type Sampler } from '@flashcore/runner/testing';
import { formatShape, parseShape } from '@flashcore/shared/kernels';
import { blockRatioInterval, describe, quantile } from '@flashcore/shared/statistics';
import { onDevice, timedKernel, type MeasuredDevice } from './device.ts';

const BLOCK = [0, 1, 1, 0] as const;

const { values: options } = parseArgs({
  options: {
    library: { type: 'string', default: 'libcuda.so.1' },
    nvml: { type: 'string', default: '' },
    kernel: { type: 'string', default: 'flashcore_v6' },
    shape: { type: 'string', default: '2x8x512x64' },
    blocks: { type: 'string', default: '100' },
  },
});
await onDevice(options.library, main);

async function main(device: MeasuredDevice): Promise<void> {
  const { tools, driver } = device;
  const listener = { signal: AbortSignal.timeout(300_000) };
  const { arch, simulated } = driver.facts;
  const shape = parseShape(options.shape);
  const { judge, single, several, launchesPerSample } = await timedKernel(device, options.kernel, shape);
  const stamps = new ClockStamps(driver, await tools.libraries.clockStamp({ arch, emulated: simulated }, listener));
  const hot = [
    new HotSampler(driver, { build: several, judge: judge.kernels }),
    new HotSampler(driver, { build: several, judge: judge.kernels, stamps }),
  ] as const;
  const cold = [new ColdSampler(driver, single), new ColdSampler(driver, single, stamps)] as const;
  const nvml = new Conditions(options.nvml, driver);
  const modes = { hot: measure(hot, stamps), cold: measure(cold, stamps) };
  console.log(
    JSON.stringify(
      {
        device: driver.facts,
        kernel: options.kernel,
        shape: formatShape(shape),
        launchesPerSample,
        nvml: nvml.read([]),
        modes,
      },
      null,
      1,
    ),
  );
}

/** Takes samples without clock stamps (A) and with them (B). */
function measure(samplers: readonly [Sampler, Sampler], stamps: ClockStamps): object {
  const samples: [number[], number[]] = [[], []];
  const clocks: number[] = [];
  for (let warmUp = 0; warmUp < 20; ++warmUp) for (const sampler of samplers) sampler.sample();
  stamps.read();
  for (let block = 0; block < Number(options.blocks); ++block) {
    for (const which of BLOCK) samples[which].push(samplers[which].sample());
    clocks.push(...stamps.read());
  }
  const known = clocks.filter((mhz) => mhz > 0);
  const { ratio, low, high } = blockRatioInterval(samples[1], samples[0], { perBlock: 2 });
  const spread = known.length > 0 && {
    medianMhz: quantile(known, 0.5),
    p1Mhz: quantile(known, 0.01),
    p99Mhz: quantile(known, 0.99),
    minMhz: Math.min(...known),
    maxMhz: Math.max(...known),
  };
  return {
    withoutUs: describe(samples[0]).p50Us,
    withUs: describe(samples[1]).p50Us,
    withOverWithout: { ratio, low, high },
    clocks: { samples: clocks.length, known: known.length, ...spread },
  };
}
