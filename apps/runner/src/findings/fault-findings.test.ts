import { FindingKind } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import type { WorkerOutcome } from '../workers/worker-process.ts';
import { findingOf } from './fault-findings.ts';

const crashed = (signalName: string, lastWords = ''): WorkerOutcome<unknown> => ({
  ...{ status: 'crashed', step: 'the launch', exitCode: null, signalName, lastWords },
});

test('the finding of an unexplained SIGKILL says that the host may have sent it', () => {
  const message = (outcome: WorkerOutcome<unknown>) => findingOf(outcome, parseShape('1x1x64x64'))?.message;
  expect(message(crashed('SIGKILL'))).toMatch(/by SIGKILL\. Whether the kernel did that or the host.*is not known/);
  expect(message(crashed('SIGKILL', 'it wanted more memory'))).not.toContain('not known');
  expect(message(crashed('SIGSEGV'))).not.toContain('not known');
});

test.each(['toString', 'constructor', '__proto__'])(
  'a fault of kind %s, which a candidate may claim, is a launch that failed',
  (word) => {
    const emulator = { kind: word, message: 'a word of its own', access: word, thread: [0, 0, 0], block: [0, 0, 0] };
    const faults = [{ name: word }, { name: 'CUDA_ERROR_UNKNOWN', emulator, buffer: 'Q' }];
    for (const fault of faults) {
      const outcome = {
        status: 'fault' as const,
        fault: { call: 'cuLaunchKernel', arguments: '', description: '', ...fault },
      };
      const { kind, message, remedy } = findingOf(outcome, parseShape('1x1x64x64'))!;
      expect([kind, typeof remedy]).toEqual([FindingKind.LAUNCH_FAILED, 'string']);
      expect(message).not.toContain('native code');
    }
  },
);
