import { create } from '@bufbuild/protobuf';
import { BenchmarkResultSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { busyHost } from './benchmark-phase.ts';

test('a host with far more work than CPUs is reported; a GPU, or an emulator that fills its host, is not', () => {
  const result = (conditions: { hostLoad?: number; hostCpus?: number }) =>
    create(BenchmarkResultSchema, { conditions });
  expect(busyHost([result({ hostLoad: 7.94, hostCpus: 2 })])).toBe(
    "the host is busy: load 7.9 on 2 CPUs; the emulator's times vary with it",
  );
  expect([busyHost([result({ hostLoad: 2.4, hostCpus: 2 })]), busyHost([result({})]), busyHost([])]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});
