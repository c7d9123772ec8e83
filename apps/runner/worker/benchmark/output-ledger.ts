import { elementsOfTensor, type ProblemCase, type TensorExtent } from '@flashcore/shared/kernels';
import { outputsOf } from '../driver/tensor-bits.ts';
import type { LatencyReport } from '../messages/measuring.ts';
import type { FoundInOutput } from './launch-pool.ts';

/** Collects the check results of all samples of a build. */
export class OutputLedger {
  readonly #outputs: readonly TensorExtent[];
  #launches = 0;
  #problem: string | undefined;
  #wrongSamples = 0;

  constructor(timed: ProblemCase) {
    this.#outputs = outputsOf(timed);
  }

  /** Throws if fewer elements were compared than the launches have. */
  add(checked: readonly FoundInOutput[], { launches, inputNames }: AddedLaunches): void {
    const problems = this.#outputs.flatMap((output) => {
      const judged = checked.find((each) => each.output.name === output.name);
      const elements = launches * elementsOfTensor(output);
      if (judged?.found.compared !== elements)
        throw new Error(`the judge compared ${judged?.found.compared ?? 0} elements of ${elements} of ${output.name}`);
      return problemsOf(judged, { elements, inputNames, named: this.#outputs.length > 1 });
    });
    this.#launches += launches;
    if (problems.length === 0) return;
    this.#wrongSamples += 1;
    this.#problem ??= problems.join('; ');
  }

  /** Number of checked launches. */
  get launches(): number {
    return this.#launches;
  }

  report(): LatencyReport['outputCheck'] {
    const checked = `${this.#launches} ${this.#launches === 1 ? 'launch' : 'launches'}`;
    const launches = this.#launches;
    if (this.#problem === undefined)
      return { passed: true, detail: `right: every output of ${checked}, each on inputs of its own`, launches };
    const samples = `${this.#wrongSamples} ${this.#wrongSamples === 1 ? 'sample' : 'samples'} of ${checked}`;
    return { passed: false, detail: `in ${samples}; the first: ${this.#problem}`, launches };
  }
}

interface AddedLaunches {
  launches: number;
  inputNames: readonly string[];
}

interface Judged {
  elements: number;
  inputNames: readonly string[];
  /** Whether the text names the output. */
  named: boolean;
}

function problemsOf(
  { output, roundingLimit, tampered, found: { outside, first, changed, guards, rounding } }: FoundInOutput,
  { elements, inputNames, named }: Judged,
): string[] {
  const of = named ? ` of ${output.name}` : '';
  const inputs = inputNames.filter((_, index) => changed[index]! > 0);
  return [
    ...(inputs.length > 0 ? [`the kernel changed ${inputs.join(', ')}`] : []),
    ...(tampered ? ["the kernel changed the judge's own memory"] : []),
    ...(guards > 0 ? ['the kernel changed guard bytes around its buffers'] : []),
    ...(outside > 0
      ? [
          `${outside} of ${elements} elements${of} are outside the tolerance, the first in ${elementName(output, first)}`,
        ]
      : []),
    ...(outside === 0 && rounding > roundingLimit
      ? [
          `each element${of} is within the tolerance, but over rows of a launch the error is ${rounding.toPrecision(3)} times what rounding explains, and at most ${roundingLimit.toPrecision(3)} times is right`,
        ]
      : []),
  ];
}

const INDEX_NAMES = ['column', 'row', 'head', 'batch'];

/** Formats an index in [launches, ...dims in memory] as "launch 2, batch 0, head 3, row 17, column 5". */
function elementName({ dims, layout = [...dims.keys()] }: TensorExtent, index: number): string {
  let rest = index;
  const at = dims.map(() => 0);
  for (const dim of layout.toReversed()) {
    at[dim] = rest % dims[dim]!;
    rest = Math.floor(rest / dims[dim]!);
  }
  const places = at
    .toReversed()
    .map((found, place) => `${INDEX_NAMES[place] ?? `index ${dims.length - place}`} ${found}`);
  return [...places, `launch ${rest + 1}`].toReversed().join(', ');
}
