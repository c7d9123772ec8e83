/** Tests that an SDPA figure from another job is never shown as this job's own. */
import { create } from '@bufbuild/protobuf';
import { SdpaResultSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { reuseText } from '../present/words.ts';
import { sdpaName } from './figures.ts';

const reused = { job: 'jobs/0123456789ab', drift: -0.0031, driftLimit: 0.015, checkSamples: 9 };

test('a reused figure has the name of its job and the result of its check', () => {
  const own = create(SdpaResultSchema, { name: 'sdpa/cudnn' });
  const other = create(SdpaResultSchema, { name: 'sdpa/cudnn', reused });
  expect([sdpaName(own), sdpaName(other), reuseText(other.reused!)]).toEqual([
    'sdpa/cudnn',
    'sdpa/cudnn of 01234567',
    'figure of jobs/0123456789ab, checked with 9 samples: -0.31 % of at most 1.5 %',
  ]);
});
