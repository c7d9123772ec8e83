/**
 * The whole path with real input: kernel folder → daemon → compilers → emulator → gates, through fa-tui called as a
 * user calls it.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { Outcome, Verdict } from '@flashcore/shared/contract';
import { Home, ROOT } from '../support/home.ts';

const PARITY_SHAPES = [
  '1x8x512x64',
  '2x8x512x64',
  '1x8x512x64c',
  '2x8x512x64c',
  '1x4x128x64',
  '1x16x256x64',
  '4x8x512x64',
];
const home = new Home();
afterAll(() => home[Symbol.asyncDispose]());

// first-steps.test.ts tests what `npm start` runs.
test.each(['fa_v2_wmma', 'flashcore_v6'])(
  '%s passes the seven parity cases and answers every gate',
  (kernel) => {
    const { response, exitCode, stderr } = home.runJson(['run', kernel, '--seeds', '1', '--max-seconds', '0.3']);
    const [variant] = response.result!.variants;
    expect(variant!.verify!.cases.map(({ shape, verdict }) => [shapeText(shape!), Verdict[verdict]])).toEqual(
      PARITY_SHAPES.map((shape) => [shape, 'PASS']),
    );
    for (const { maxAbsError, meanAbsError, nanCount, unwrittenCount } of variant!.verify!.cases) {
      // The parity profile allows 1e-2. An online softmax with fp32 accumulation stays far below that.
      expect(maxAbsError).toBeLessThan(2e-3);
      expect(meanAbsError).toBeLessThan(1e-4);
      expect([nanCount, unwrittenCount]).toEqual([0n, 0n]);
    }
    const gates = variant!.gates;
    expect(gates.map(({ gateId }) => gateId)).toEqual(gateIds());
    expect(gates.filter(({ verdict, detail }) => verdict === Verdict.NOT_MEASURED && detail === '')).toEqual([]);
    expect(gates.find(({ gateId }) => gateId === 'latency')).toMatchObject({
      verdict: Verdict.NOT_MEASURED,
      detail: expect.stringContaining('emulator') as string,
    });
    expect(variant!.benchmarks.every(({ simulated, tflops }) => simulated && tflops === undefined)).toBe(true);
    expect(Outcome[response.job!.outcome], stderr).toBe('PASSED');
    expect(exitCode).toBe(0);
  },
  180_000,
);

interface ShapeJson {
  batch: number;
  heads: number;
  sequenceLength: number;
  headDim: number;
  causal: boolean;
}

function shapeText(shape: ShapeJson): string {
  return `${shape.batch}x${shape.heads}x${shape.sequenceLength}x${shape.headDim}${shape.causal ? 'c' : ''}`;
}

function gateIds(): string[] {
  return [...readFileSync(join(ROOT, 'kernels/gates.yaml'), 'utf8').matchAll(/^ {2}- id: (\w+)$/gm)].map(
    (match) => match[1]!,
  );
}
