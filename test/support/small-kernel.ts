import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './home.ts';

const FROM = join(ROOT, 'kernels/faulty/missing_syncthreads');

/**
 * Writes a small correct kernel that builds in a second: kernels/faulty/missing_syncthreads with its barriers, and with
 * the rows of a tile as a parameter, TILE. It supports only short sequences, so only the probe with 197 rows runs,
 * which is a quarter of the work of all probes.
 */
export function layOutSmallKernel(folder: string, { source = 'missing_syncthreads.cu' } = {}): void {
  mkdirSync(folder);
  const manifest = readFileSync(join(FROM, 'kernel.yaml'), 'utf8')
    .replace(/^faulty:.*$/m, '')
    .replace(/^source: .*$/m, `source: ${source}`)
    .replace(
      /^limits:$/m,
      `$&\n  - { require: "S <= 256", because: "a test looks at the whole of a job, not at sizes" }`,
    )
    .replace(/^launches:$/m, `parameters:\n  TILE: { values: [32, 16, 8], default: 32, about: "rows of a tile" }\n$&`);
  writeFileSync(join(folder, 'kernel.yaml'), manifest);
  writeFileSync(join(folder, source), rightSource().replace('BLOCK_KV = 32;', 'BLOCK_KV = TILE;'));
}

/** The source of kernels/faulty/missing_syncthreads with the barriers added. */
export const rightSource = (): string =>
  readFileSync(join(FROM, 'missing_syncthreads.cu'), 'utf8').replace(
    /\/\/ (__syncthreads\(\) belongs|and) here/g,
    '__syncthreads();',
  );
