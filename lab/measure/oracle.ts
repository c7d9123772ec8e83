/**
 * `npm run oracle [rounds]`: seconds in which inputs are drawn and the oracle answers large cases with their roundings,
 * on all processors. Prints wall and processor time of each round; on a busy host, look at the processor time over the
 * number of processors.
 */
import { availableParallelism, loadavg } from 'node:os';
import { drawInputs, NORMAL } from '@flashcore/runner/testing';
import { installedProblem, problemCase, type TensorDtype } from '@flashcore/shared/kernels';
import { compiledReference } from '@flashcore/test/support/reference';

const DTYPE: TensorDtype = 'bf16';
const CASES = [
  ['attention_decode', { B: 32, H: 32, Hkv: 8, Skv: 8192, D: 128 }],
  ['attention', { B: 1, H: 32, Hkv: 8, S: 4096, D: 128, causal: 1 }],
  ['attention_backward', { B: 1, H: 32, Hkv: 8, S: 2048, D: 128, causal: 1 }],
] as const;

const reference = await compiledReference();
console.log(`${availableParallelism()} processors, load ${loadavg()[0]!.toFixed(1)}, ${DTYPE}`);
for (const [id, values] of CASES)
  for (let round = 0; round < Number(process.argv[2] ?? 3); round += 1) {
    const computed = problemCase(installedProblem(id), values, DTYPE);
    const drawing = performance.now();
    const inputs = drawInputs(computed, { seed: `${round}`, rule: NORMAL }, reference);
    const before = process.cpuUsage();
    const began = performance.now();
    reference.answers(inputs, computed);
    const wall = (performance.now() - began) / 1000;
    const { user, system } = process.cpuUsage(before);
    console.log(
      `${id} ${JSON.stringify(values)}: ${wall.toFixed(1)} s, ${((user + system) / 1e6).toFixed(1)} s of processors; inputs ${((began - drawing) / 1000).toFixed(1)} s`,
    );
  }
