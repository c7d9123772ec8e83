/**
 * The order of test files. Vitest takes project after project; here those whose files have a process each are mixed,
 * and the largest files come first: tests that compute run beside tests that wait, and none of minutes is left for the
 * end. Files that share a process stay together, for only the next one is given to it.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node';

export default class MixedOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const alone = sorted.filter(({ project }) => project.config.isolate);
    return [...inTurns(alone), ...sorted.filter(({ project }) => !project.config.isolate)];
  }
}

/** Each file at its place in its own project, as a part of that project's length: the order within a project stays. */
export function inTurns<File extends { project: { name: string } }>(files: readonly File[]): File[] {
  const placed = [...Map.groupBy(files, ({ project }) => project.name).values()].flatMap((group) =>
    group.map((file, index) => ({ file, place: index / group.length })),
  );
  return placed.sort((a, b) => a.place - b.place).map(({ file }) => file);
}
