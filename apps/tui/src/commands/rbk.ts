import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { GetJobResponse } from '@flashcore/shared/contract';
import { parseRbkConfig } from '../handover/rbk-config.ts';
import { rbkReports } from '../handover/rbk-report.ts';
import { readNamed } from '../named-files.ts';
import { UsageError } from '../usage-error.ts';
import type { JobCommandOptions } from './options.ts';

/** A benchmark with the settings of `--rbk`. */
export interface RbkRun {
  readonly options: Pick<JobCommandOptions, 'shape' | 'dtype' | 'samples'>;
  readonly write: (response: GetJobResponse) => void;
}

/** Reads rbk_config.yaml. Errors: UsageError, INVALID_MANIFEST with file, line and key. */
export function readRbk(file: string, given: JobCommandOptions): RbkRun {
  const doubled = [
    given.shape && '--shape',
    given.samples && '--samples',
    given.shapes && '--shapes',
    given.dtype && '--dtype',
  ].filter(Boolean);
  if (doubled.length > 0) throw new UsageError(`--rbk ${file} with ${doubled.join(', ')}: give one of them`);
  if (given.detach) throw new UsageError('--rbk with --detach: its report needs the job to its end');
  const config = parseRbkConfig(readNamed('--rbk', file).toString('utf8'), file);
  return {
    options: {
      shape: config.shapes.map(({ shape }) => shape),
      dtype: config.dtype,
      ...(config.iterations !== undefined && { samples: String(config.iterations) }),
    },
    write(response) {
      mkdirSync(config.outputFolder, { recursive: true });
      for (const [name, text] of Object.entries(rbkReports(config, response)))
        writeFileSync(path.join(config.outputFolder, name), text);
    },
  };
}
