/** Compares the oracle with PyTorch in fp64 on the CPU; `lab/gpu_host --sections oracle` does it on a GPU host. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { missing } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { ROOT } from '../support/home.ts';

const PROGRAM = join(ROOT, 'lab/gpu_host/programs/oracle_beside_torch.py');
const CASES = '120';

test.skipIf(missing('python3-torch'))(
  'every output of attention, attention_backward and merge is that of PyTorch in fp64, to within 1e-12',
  async () => {
    const { stdout } = await promisify(execFile)('/usr/bin/python3', [
      PROGRAM,
      join(ROOT, 'kernels'),
      '--cases',
      CASES,
    ]);
    expect(stdout).toContain('all differences are at most 1e-12');
    for (const output of ['O', 'LSE', 'dQ', 'dK', 'dV', 'dSinks', 'merged O', 'merged LSE'])
      expect(stdout).toMatch(new RegExp(`^ {2}${output} +\\S+ of \\d+ cases`, 'mv'));
  },
  600_000,
);
