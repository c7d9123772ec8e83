import { FindingKind } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import type { WorkerOutcome } from '../workers/worker-process.ts';
import { findingOf } from './fault-findings.ts';

const crashed = (signalName: string, lastWords = ''): WorkerOutcome<unknown> => ({
  ...{ status: 'crashed', step: 'the launch', exitCode: null, signalName, lastWords },
});

test('the finding about an unexplained SIGKILL says that the host may have sent it', () => {
  const message = (outcome: WorkerOutcome<unknown>) => findingOf(outcome, parseShape('1x1x64x64'))?.message;
  expect(message(crashed('SIGKILL'))).toMatch(
    /by SIGKILL\. Either the kernel did that, or the host for lack of memory: run it again/,
  );
  expect(message(crashed('SIGKILL', 'it needed more memory'))).not.toContain('Either the kernel');
  expect(message(crashed('SIGSEGV'))).not.toContain('not known');
});

test.each(['toString', 'constructor', '__proto__'])(
  'a fault of kind %s, which a candidate may forge, is reported as a failed launch',
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

test('the finding about an access outside a tensor gives the distance, and warns that the line of a read may be that of a store', () => {
  const told = (access: string, buffer: string, bytes: number) => {
    const emulator = { kind: 'OUT_OF_BOUNDS', message: '', access, bytes, thread: [32, 0, 0], block: [1, 0, 0] };
    const fault = {
      call: 'cuLaunchKernel',
      arguments: '',
      description: '',
      name: 'CUDA_ERROR_ILLEGAL_ADDRESS',
      buffer,
    };
    const { message, remedy } = findingOf(
      { status: 'fault', fault: { ...fault, emulator: { ...emulator, place: 'k.cu:30' } } },
      parseShape('1x1x64x64'),
    )!;
    return `${message.replace('Thread (32,0,0) of block (1,0,0) ', '')}; ${/a read may be reported/.test(remedy)}`;
  };
  expect([
    told('read', '1,024 bytes past the end of K', 16),
    told('write', '1 byte before O', 1),
    told('write', 'the first byte past the end of O', 2),
  ]).toEqual([
    'read 16 bytes, 1,024 bytes past the end of K, at k.cu:30; true',
    'wrote 1 byte, 1 byte before O, at k.cu:30; false',
    'wrote 2 bytes at the first byte past the end of O, at k.cu:30; false',
  ]);
});

test('distances are not read as widths, large numbers have commas, and a race names the element', () => {
  const told = (kind: string, message: string, bytes: number) => {
    const threads = [{ thread: [96, 0, 0], waits_at: 'write at ./k.cu:39' }];
    const emulator = { kind, message, bytes, thread: [96, 0, 0], block: [0, 0, 0], threads };
    const fault = { call: 'cuLaunchKernel', arguments: '', description: '', name: 'CUDA_ERROR_UNKNOWN', emulator };
    const finding = findingOf({ status: 'fault', fault }, parseShape('1x1x64x64'))!;
    return [finding.message, finding.threads[0]?.place];
  };
  expect([
    told('OUT_OF_BOUNDS', "wrote 1152 bytes past the end of the block's 18432 bytes of shared memory", 2)[0],
    told('RACE', 'thread (96,0,0) writes byte 1728 of V_smem (static shared memory) at ./k.cu:39', 2),
  ]).toEqual([
    "wrote 2 bytes, 1,152 bytes past the end of the block's 18,432 bytes of shared memory",
    [
      'thread (96,0,0) writes byte 1,728 of V_smem (element 864 of 2 bytes, static shared memory) at k.cu:39',
      'writes at k.cu:39',
    ],
  ]);
});

test('the remedy for an access outside a shared array is about the array, and the one for a tensor names the launch', () => {
  const told = (message: string, buffer?: string) => {
    const emulator = { kind: 'OUT_OF_BOUNDS', message, bytes: 8, thread: [0, 0, 0], block: [0, 0, 0] };
    const fault = { call: 'cuLaunchKernel', arguments: '', description: '', name: 'CUDA_ERROR_ILLEGAL_ADDRESS' };
    const found = findingOf({ status: 'fault', fault: { ...fault, buffer, emulator } }, parseShape('1x1x64x64'))!;
    return [found.message, found.remedy];
  };
  expect(
    told('read 8 bytes at byte 9216 of the shared array Q_smem, which has 9216: this lies in another array'),
  ).toEqual([
    'read 8 bytes at byte 9,216 of the shared array Q_smem, which has 9,216 bytes: this lies in another array',
    "Check this index against the array's extent: strides, tile extents and the number of threads decide it",
  ]);
  expect(told('', '2 bytes past the end of O')[1]).toMatch(/tensor's extent.*kernel\.yaml: its grid and the order of/);
});
