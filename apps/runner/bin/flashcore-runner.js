#!/usr/bin/env -S node --min-semi-space-size=32
// A young generation of 32 MiB holds everything that the daemon allocates while it starts. With less, the start spends
// an eighth of its processor time on garbage collections that free nothing. tools/bundle-runner.ts and runner-launch.ts
// set the same size.
import { realpathSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { startProgram } from '../../../tools/start-program.mjs';

const here = path.dirname(realpathSync(fileURLToPath(import.meta.url)));
await startProgram(path.join(here, '..', 'dist', 'main.js'));
