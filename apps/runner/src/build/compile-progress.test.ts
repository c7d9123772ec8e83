import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { CompileProgress } from './compile-progress.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('while compilations take long, a line says which are left, how many are done, and the time', async () => {
  const said: string[] = [];
  const progress = new CompileProgress({ say: (text) => said.push(text), everyMs: 10_000 });
  const compilations = ['emulator.so', 'judge.so', 'known.so'].map((name) => {
    const { promise, resolve } = Promise.withResolvers<string>();
    return { resolve, followed: progress.follow(name, promise) };
  });
  compilations[2]!.resolve('known');
  await vi.advanceTimersByTimeAsync(10_000);
  compilations[1]!.resolve('judge');
  await vi.advanceTimersByTimeAsync(10_000);
  compilations[0]!.resolve('emulator');
  expect(await Promise.all(compilations.map(({ followed }) => followed))).toEqual(['emulator', 'judge', 'known']);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(said).toEqual([
    'compiling emulator.so, judge.so: 1 of 3 done, 10 s',
    'compiling emulator.so: 2 of 3 done, 20 s',
    'compilations: 3 of 3 done, 20 s',
  ]);
});

test('compilations from the cache print nothing, and a failed one counts as done', async () => {
  const said: string[] = [];
  const progress = new CompileProgress({ say: (text) => said.push(text), everyMs: 10_000 });
  await progress.follow('a.so', Promise.resolve(1));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(said).toEqual([]);
  const { promise, reject } = Promise.withResolvers<void>();
  const followed = expect(progress.follow('b.so', promise)).rejects.toThrow('no compiler');
  await vi.advanceTimersByTimeAsync(10_000);
  reject(new Error('no compiler'));
  await followed;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(said).toEqual(['compiling b.so: 0 of 1 done, 10 s', 'compilations: 1 of 1 done, 10 s']);
});
