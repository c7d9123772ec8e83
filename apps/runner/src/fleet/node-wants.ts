import { FlashcoreError } from '@flashcore/shared/contract';
import type { JobSpec } from '../spec/job-spec.ts';

/** Tools that a job wants on its node, by name. */
export interface NodeWants {
  /** Tools without which the job can't run on the node. */
  needs: readonly string[];
  /** Tools without which the job runs but reports some data as not measured. */
  likes: readonly string[];
}

/** The wants of a job that can run on any node. */
export const NO_WANTS: NodeWants = { needs: [], likes: [] };

/** The tools that a job wants on its node; `built`: the gateway has already built its kernel. */
export function wantsOf({ device, profile, verify, fallback, resolved }: JobSpec, built: boolean): NodeWants {
  if (device.simulated) return { needs: built ? [] : ['g++'], likes: [] };
  return {
    needs: built ? [] : ['nvcc'],
    likes: [
      ...(profile ? ['ncu'] : []),
      ...(verify?.sanitize ? ['compute-sanitizer'] : []),
      ...(resolved.keepSass ? ['cuobjdump'] : []),
      // If the first variant fails, its fallback is built on the node.
      ...(built && fallback ? ['nvcc'] : []),
    ],
  };
}

interface Node {
  node: string;
  /** Names of the tools that are missing on the node. */
  missing: ReadonlySet<string>;
}

interface PartitionPilots<Pilot extends Node> {
  partition: string;
  free: readonly Pilot[];
  all: readonly Pilot[];
}

/**
 * The free pilot that suits a job best; undefined if the job must wait. Of the nodes that can run the job, its node has
 * the most liked tools and, among equals, the fewest other tools. Errors: COMPILER_MISSING if no node can run the job.
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
