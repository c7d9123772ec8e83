#!/usr/bin/env -S node --min-semi-space-size=32
// 32 MiB hold all that a start allocates: else an eighth of its processor time goes into collections that find no garbage
// (tools/bundle-runner.ts and runner-launch.ts start programs so too).
import { realpathSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { startProgram } from '../../../tools/start-program.mjs';

const here = path.dirname(realpathSync(fileURLToPath(import.meta.url)));
await startProgram(path.join(here, '..', 'dist', 'main.js'));
