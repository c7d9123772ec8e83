/**
 * The daemon with the fake planner, as a separate process that tests can kill: `node fake-runner-main.ts serve --data
 * <folder> --address unix:/path`.
 */
import '../heap-growth.ts';
import { createLogger } from '../log.ts';
import { parseOptions } from '../options.ts';
import { startRunner } from '../runner.ts';
import { armFailpoint } from './failpoint.ts';
import { armStoreFault } from './store-fault.ts';
import { fakePlanner } from './fake-planner.ts';
import { REPOSITORY_ROOT } from './test-runner.ts';

const options = parseOptions(process.argv.slice(2), {
  version: '0.0.0',
  repositoryRoot: REPOSITORY_ROOT,
  environment: process.env,
});
if (!options) throw new Error('no options');
if (process.env['FLASHCORE_FAILPOINT']) armFailpoint(process.env['FLASHCORE_FAILPOINT']);
if (process.env['FLASHCORE_STORE_FAULT']) armStoreFault(process.env['FLASHCORE_STORE_FAULT'], options.dataDirectory);
const runner = await startRunner({
  ...options,
  version: '0.0.0',
  buildId: 'test',
  repositoryRoot: REPOSITORY_ROOT,
  logger: createLogger(process.env['FLASHCORE_LOG_LEVEL'] ?? 'silent'),
  createPlanner: ({ decisions }) => fakePlanner({ decisions }),
});
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => runner.stop());
// With --expose-gc: memory in use, without uncollected garbage.
process.on('SIGUSR2', () => {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  process.stdout.write(`${heapUsed + external}\n`);
});
process.stdout.write(`${runner.address}\n`);
await runner.ended;
process.exit(0);
