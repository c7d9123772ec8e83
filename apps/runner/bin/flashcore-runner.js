#!/usr/bin/env node
import { realpathSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { startProgram } from '../../../tools/start-program.mjs';

const here = path.dirname(realpathSync(fileURLToPath(import.meta.url)));
await startProgram(path.join(here, '..', 'dist', 'main.js'));
