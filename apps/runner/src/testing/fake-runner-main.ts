/**
 * A daemon as a separate process that tests can kill. `node fake-runner-main.ts serve --data <folder> --address
 * unix:/path` has the fake planner. `node fake-runner-main.ts gateway <fleet.yaml> <folder> serve --data …` is a
 * gateway whose scheduler is a folder, with a file for each pilot that was submitted and has not ended, containing the
 * pilot's token.
 */
import '../memory.ts';
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readFleetFile } from '../fleet/fleet-file.ts';
import { createGateway } from '../fleet/gateway.ts';
import type { Scheduler } from '../fleet/scheduler.ts';
import { createLogger } from '../log.ts';
import { parseOptions } from '../options.ts';
import type { RunnerOptions } from '../serve-options.ts';
import { startRunner } from '../runner.ts';
import { armFailpoint, armStoreFault } from './store-fault.ts';
import { fakePlanner } from './fake-planner.ts';
import { REPOSITORY_ROOT } from './test-runner.ts';

const given = process.argv.slice(2);
const [, path, folder] = given[0] === 'gateway' ? (given.splice(0, 3) as [string, string, string]) : [];
const options = parseOptions(given, { version: '0.0.0', repositoryRoot: REPOSITORY_ROOT, environment: process.env });
if (!options) throw new Error('no options');
if (process.env['FLASHCORE_FAILPOINT']) armFailpoint(process.env['FLASHCORE_FAILPOINT']);
if (process.env['FLASHCORE_STORE_FAULT']) armStoreFault(process.env['FLASHCORE_STORE_FAULT'], options.dataDirectory);
const runner = await startRunner({
  ...options,
  version: '0.0.0',
  buildId: 'test',
  repositoryRoot: REPOSITORY_ROOT,
  logger: createLogger(process.env['FLASHCORE_LOG_LEVEL'] ?? 'silent'),
  ...(path === undefined || folder === undefined
    ? { createPlanner: ({ decisions }) => fakePlanner({ decisions }) }
    : gatewayOf(path, folder)),
});
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => runner.stop());
// With --expose-gc, prints the memory in use after a garbage collection.
process.on('SIGUSR2', () => {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  process.stdout.write(`${heapUsed + external}\n`);
});
process.stdout.write(`${runner.address}\n`);
await runner.ended;
process.exit(0);

function gatewayOf(path: string, folder: string): Pick<RunnerOptions, 'fleet' | 'createPlanner'> {
  const fleet = readFleetFile(path, 'slurm');
  const scheduler: Scheduler = {
    submit: (_, token) => {
      const id = `${Date.now()}${Math.floor(Math.random() * 1e6)}`;
      writeFileSync(join(folder, id), token);
      return Promise.resolve(id);
    },
    pilots: () => Promise.resolve(new Set(readdirSync(folder))),
    whyEnded: () => Promise.resolve(undefined),
    cancel: (ids) => {
      for (const id of ids) rmSync(join(folder, id), { force: true });
      return Promise.resolve();
    },
  };
  return {
    fleet,
    createPlanner: (planner) =>
      createGateway(planner, { file: fleet, scheduler: () => scheduler, tls: undefined, roundMs: 50 }),
  };
}
