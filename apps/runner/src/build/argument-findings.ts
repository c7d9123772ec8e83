/**
 * Finds launches whose arguments do not match the entry's parameters, which the driver refuses or the kernel misreads.
 */
import { create } from '@bufbuild/protobuf';
import { FindingKind, FindingSchema, type Finding } from '@flashcore/shared/contract';
import { argumentBytes, type PlannedArgument, type PlannedLaunch } from '@flashcore/shared/kernels';
import type { EntryParameters } from './entry-parameters.ts';

const POINTER_BYTES = 8;

/** A finding about the first launch whose arguments do not match; undefined if no mismatch is known. */
export function argumentFinding(
  launches: readonly Pick<PlannedLaunch, 'entry' | 'arguments'>[],
  parameters: EntryParameters,
): Finding | undefined {
  for (const { entry, arguments: given } of launches) {
    const taken = parameters.get(entry);
    const problem = taken && problemOf(given, taken);
    if (problem === undefined) continue;
    return create(FindingSchema, {
      kind: FindingKind.WRONG_ARGUMENTS,
      message: `${entry} ${problem}`,
      remedy: 'Make `arguments` of this launch in kernel.yaml the parameters of the kernel, in their order',
    });
  }
  return undefined;
}

function problemOf(given: readonly PlannedArgument[], taken: readonly number[]): string | undefined {
  const takes = `takes ${counted(taken.length, 'parameter')} (${taken.join(', ')} bytes)`;
  const gives = `the manifest gives ${counted(given.length, 'argument')}: ${given.map(nameOf).join(', ')}`;
  if (given.length !== taken.length) return `${takes}, ${gives}`;
  const wrong = given.findIndex((argument, index) => !fits(argument, taken[index]!));
  if (wrong < 0) return undefined;
  return `takes ${taken[wrong]} bytes as parameter ${wrong + 1}, where the manifest gives ${nameOf(given[wrong]!)}; it ${takes}, ${gives}`;
}

/**
 * Whether an argument fits a parameter of this size. An int also fits a parameter of another width, because integers
 * are passed in slots of 8 bytes.
 */
function fits(argument: PlannedArgument, bytes: number): boolean {
  if (argument.kind === 'struct') return bytes === argument.bytes;
  return argument.kind === 'int32' ? bytes <= POINTER_BYTES : bytes === argumentBytes(argument);
}

function nameOf(argument: PlannedArgument): string {
  switch (argument.kind) {
    case 'tensor':
      return argument.tensor;
    case 'workspace':
      return argument.name;
    case 'null':
      return 'a null pointer';
    case 'struct':
      return `a struct of ${argument.bytes} bytes`;
    case 'tensorMap':
      return `tensor map of ${argument.tensor}`;
    default:
      return `${argument.kind} ${argument.value}`;
  }
}

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;
