import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import type { WorkerOutcome } from '../workers/worker-process.ts';
import { findingOf } from './fault-findings.ts';

const crashed = (signalName: string, lastWords = ''): WorkerOutcome<unknown> => ({
  ...{ status: 'crashed', step: 'the launch', exitCode: null, signalName, lastWords },
});

test('a kill that nothing explains may be the host, and the finding says so', () => {
  const message = (outcome: WorkerOutcome<unknown>) => findingOf(outcome, parseShape('1x1x64x64'))?.message;
  expect(message(crashed('SIGKILL'))).toMatch(/by SIGKILL\. Whether the kernel did that or the host.*is not known/);
  expect(message(crashed('SIGKILL', 'it wanted more memory'))).not.toContain('not known');
  expect(message(crashed('SIGSEGV'))).not.toContain('not known');
});
