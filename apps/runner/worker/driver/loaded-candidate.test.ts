import type { PlannedLaunch } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import type { DeviceImage } from '../messages/launchable.ts';
import type { CudaDriver } from './cuda-driver.ts';
import { LoadedCandidate } from './loaded-candidate.ts';

/** The driver calls for an image whose plan launches these entries. */
function callsFor(image: DeviceImage, entries: readonly string[]): string[] {
  const calls: string[] = [];
  const driver = {
    facts: { clusters: true },
    loadModule: (path: string) => (calls.push(`load ${path}`), path),
    function: (module: string, entry: string) => void calls.push(`${entry} of ${module}`),
    unloadModule: (module: string) => void calls.push(`unload ${module}`),
  } as unknown as CudaDriver;
  const launches = entries.map((entry) => ({ entry, l2Persist: [] }) as unknown as PlannedLaunch);
  const candidate = { image, shape: {}, plan: { launches }, launchLimitMs: 0 } as never;
  new LoadedCandidate(driver, candidate).unload();
  return calls;
}

test('loads a file once, however many of its entries are launched', () => {
  expect(callsFor('k', ['a', 'b'])).toEqual(['load k', 'a of k', 'b of k', 'unload k']);
});

test('loads only those separately compiled entries that are launched', () => {
  expect(callsFor({ a: '1', b: '2', c: '1', d: '3' }, ['a', 'b', 'c'])).toEqual([
    'load 1',
    'a of 1',
    'load 2',
    'b of 2',
    'c of 1',
    'unload 1',
    'unload 2',
  ]);
  expect(() => callsFor({ a: '1' }, ['b'])).toThrow('No part of the build has b');
});
