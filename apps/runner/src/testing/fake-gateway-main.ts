/**
 * A gateway as a separate process that tests can kill. Its scheduler is a folder, with a file for each pilot that was
 * submitted and has not ended, containing the pilot's token. `node fake-gateway-main.ts <fleet.yaml> <folder> serve
 * --data …`.
 */
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readFleetFile } from '../fleet/fleet-file.ts';
import { createGateway } from '../fleet/gateway.ts';
import type { Scheduler } from '../fleet/slurm.ts';
import { createLogger } from '../log.ts';
import { parseOptions } from '../options.ts';
import { startRunner } from '../runner.ts';
import { armStoreFault } from './store-fault.ts';
import { REPOSITORY_ROOT } from './test-runner.ts';

const [path, folder, ...flags] = process.argv.slice(2) as [string, string, ...string[]];
const file = readFleetFile(path);
const options = parseOptions(flags, { version: '0.0.0', repositoryRoot: REPOSITORY_ROOT, environment: process.env })!;
if (process.env['FLASHCORE_STORE_FAULT']) armStoreFault(process.env['FLASHCORE_STORE_FAULT'], options.dataDirectory);
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
const runner = await startRunner({
  ...options,
  fleet: file,
  version: '0.0.0',
  buildId: 'test',
  repositoryRoot: REPOSITORY_ROOT,
  logger: createLogger(process.env['FLASHCORE_LOG_LEVEL'] ?? 'silent'),
  createPlanner: (planner) => createGateway(planner, { file, scheduler: () => scheduler, tls: undefined, roundMs: 50 }),
});
process.on('SIGTERM', () => runner.stop());
process.stdout.write(`${runner.address}\n`);
await runner.ended;
process.exit(0);
