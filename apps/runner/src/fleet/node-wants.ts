import { FlashcoreError } from '@flashcore/shared/contract';
import type { JobSpec } from '../spec/job-spec.ts';

/** What a job wants of its node, by the names of tools. */
export interface NodeWants {
  /** Without one of these it can't run there. */
  needs: readonly string[];
  /** Without one of these it runs, and says what was not measured. */
  likes: readonly string[];
}

/** Of a job that runs anywhere. */
export const NO_WANTS: NodeWants = { needs: [], likes: [] };

/** What a job wants; `built`: its kernel is there already. */
export function wantsOf({ device, profile, verify, fallback, resolved }: JobSpec, built: boolean): NodeWants {
  if (device.simulated) return { needs: built ? [] : ['g++'], likes: [] };
  return {
    needs: built ? [] : ['nvcc'],
    likes: [
      ...(profile ? ['ncu'] : []),
      ...(verify?.sanitize ? ['compute-sanitizer'] : []),
      ...(resolved.keepSass ? ['cuobjdump'] : []),
      // It is built where the first variant fails on the node.
      ...(built && fallback ? ['nvcc'] : []),
    ],
  };
}

interface Node {
  node: string;
  /** Names of the tools that it does not have. */
  missing: ReadonlySet<string>;
}

interface PartitionPilots<Pilot extends Node> {
  partition: string;
  free: readonly Pilot[];
  all: readonly Pilot[];
}

/**
 * The free pilot that a job is to have: on a node that lacks no more of what the job likes than any that could have it,
 * and of those alike the one that can least for others. Undefined: it waits. Errors: COMPILER_MISSING where no node can
 * run it.
 */
export function fittest<Pilot extends Node>(
  wants: NodeWants,
  { free, all, partition }: PartitionPilots<Pilot>,
): Pilot | undefined {
  const able = all.filter(({ missing }) => !wants.needs.some((tool) => missing.has(tool)));
  if (all.length > 0 && able.length === 0) throw nobodyHas(wants.needs, { all, partition });
  const lacked = ({ missing }: Pilot): number => wants.likes.filter((tool) => missing.has(tool)).length;
  const least = Math.min(...able.map(lacked));
  return free
    .filter((pilot) => able.includes(pilot) && lacked(pilot) === least)
    .toSorted((a, b) => b.missing.size - a.missing.size)[0];
}

function nobodyHas(
  needs: readonly string[],
  { all, partition }: Pick<PartitionPilots<Node>, 'all' | 'partition'>,
): Error {
  const nodes = [...new Set(all.map(({ node }) => node))].join(', ');
  return new FlashcoreError(
    'COMPILER_MISSING',
    { wanted: needs.join(', ') },
    `Install ${needs.join(' and ')} on the gateway, which then builds, or on the nodes of ${partition}: its pilots' nodes have none (${nodes})`,
  );
}
