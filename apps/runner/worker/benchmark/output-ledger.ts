import { elementsOfTensor, type ProblemCase, type TensorExtent } from '@flashcore/shared/kernels';
import { outputOf } from '../driver/tensor-bits.ts';
import type { LatencyReport } from '../messages/measuring.ts';
import type { Found } from './judge-kernels.ts';

/** What the checks of all samples of a build found. */
export class OutputLedger {
  readonly #output: TensorExtent;
  #launches = 0;
  #elements = 0;
  #problem: string | undefined;
  #wrongSamples = 0;

  constructor(timed: ProblemCase) {
    this.#output = outputOf(timed);
  }

  /** Errors: where fewer elements were compared than the launches have. */
  add(found: Found, { launches, inputNames }: { launches: number; inputNames: readonly string[] }): void {
    const elements = launches * elementsOfTensor(this.#output);
    if (found.compared !== elements) throw new Error(`the judge compared ${found.compared} elements of ${elements}`);
    this.#launches += launches;
    this.#elements += elements;
    const problem = problemOf(found, { elements, inputNames, output: this.#output });
    if (problem === undefined) return;
    this.#wrongSamples += 1;
    this.#problem ??= problem;
  }

  report(): LatencyReport['outputCheck'] {
    const checked = `${this.#launches} ${this.#launches === 1 ? 'launch' : 'launches'}`;
    if (this.#problem === undefined)
      return { passed: true, detail: `right: every output of ${checked}, each on inputs of its own` };
    const samples = `${this.#wrongSamples} ${this.#wrongSamples === 1 ? 'sample' : 'samples'} of ${checked}`;
    return { passed: false, detail: `in ${samples}; the first: ${this.#problem}` };
  }
}

interface Judged {
  elements: number;
  inputNames: readonly string[];
  output: TensorExtent;
}

function problemOf(
  { outside, first, changed, guards }: Found,
  { elements, inputNames, output }: Judged,
): string | undefined {
  const inputs = inputNames.filter((_, index) => changed[index]! > 0);
  const parts = [
    ...(inputs.length > 0 ? [`the kernel changed ${inputs.join(', ')}`] : []),
    ...(guards > 0 ? ['the kernel changed guard bytes around its buffers'] : []),
    ...(outside > 0
      ? [`${outside} of ${elements} elements are outside the tolerance, the first in ${elementName(output, first)}`]
      : []),
  ];
  return parts.length > 0 ? parts.join('; ') : undefined;
}

const INDEX_NAMES = ['column', 'row', 'head', 'batch'];

/** "launch 2, batch 0, head 3, row 17, column 5" of an index in [launches, ...dims]. */
function elementName({ dims }: TensorExtent, index: number): string {
  let rest = index;
  const places = dims.toReversed().map((extent, place) => {
    const at = rest % extent;
    rest = Math.floor(rest / extent);
    return `${INDEX_NAMES[place] ?? `index ${dims.length - place}`} ${at}`;
  });
  return [...places, `launch ${rest + 1}`].toReversed().join(', ');
}
