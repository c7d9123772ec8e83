#!/usr/bin/env -S node --min-semi-space-size=32
// 32 MiB hold everything that a start allocates. With less, garbage collections that find nothing take an eighth of its
// processor time. tools/bundle-runner.ts and runner-launch.ts set the same size.
import { realpathSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { startProgram } from '../../../tools/start-program.mjs';

const here = path.dirname(realpathSync(fileURLToPath(import.meta.url)));
await startProgram(path.join(here, '..', 'dist', 'main.js'));
