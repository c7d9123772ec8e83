/**
 * The order of test files. By itself, vitest runs one project after another. This order mixes the projects in which
 * each file has its own process, so that tests that compute run next to tests that wait. The largest files come first,
 * so that no test of minutes is left for the end. With FLASHCORE_TESTS=all, files with a longer form come first
 * whatever their size. Files that share a process stay together, because a process takes files only in sequence.
 */
import { readFileSync } from 'node:fs';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { isLong } from './long-tests.ts';

export default class MixedOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = longFirst(await super.sort(files));
    const alone = sorted.filter(({ project }) => project.config.isolate);
    return [...longFirst(inTurns(alone)), ...sorted.filter(({ project }) => !project.config.isolate)];
  }
}

function longFirst(files: TestSpecification[]): TestSpecification[] {
  if (process.env['FLASHCORE_TESTS'] !== 'all') return files;
  const { long = [], others = [] } = Object.groupBy(files, ({ moduleId }) =>
    isLong(moduleId, readFileSync(moduleId, 'utf8')) ? 'long' : 'others',
  );
  return [...long, ...others];
}

/** Orders files by their relative position in their own project, so that the order within a project is kept. */
export function inTurns<File extends { project: { name: string } }>(files: readonly File[]): File[] {
  const placed = [...Map.groupBy(files, ({ project }) => project.name).values()].flatMap((group) =>
    group.map((file, index) => ({ file, place: index / group.length })),
  );
  return placed.sort((a, b) => a.place - b.place).map(({ file }) => file);
}
