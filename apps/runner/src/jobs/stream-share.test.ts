import { afterEach, expect, test, vi } from 'vitest';
import { StreamShare } from './stream-share.ts';

afterEach(() => void vi.useRealTimers());

test('no watcher waits unless a job floods its log', async () => {
  const share = new StreamShare();
  share.stored(100);
  const turn = share.watcher(256);
  expect(await Promise.all([turn(), turn(), turn(), turn(), turn(), turn()])).toEqual([16, 32, 64, 128, 256, 256]);
});

test('during a flood, watchers share the saved-up budget of events, then a fixed rate; afterwards no watcher waits', async () => {
  vi.useFakeTimers();
  const share = new StreamShare();
  const got = [0, 0, 0, 0];
  let flooding = true;
  const watchers = got.map(async (_, index) => {
    const turn = share.watcher(256);
    while (flooding) got[index]! += await turn();
  });
  const started = performance.now();
  while (performance.now() - started < 500) {
    share.stored(1_000);
    await vi.advanceTimersByTimeAsync(5);
  }
  flooding = false;
  const sum = got.reduce((total, events) => total + events, 0);
  expect(sum).toBeGreaterThan(100);
  expect(sum).toBeLessThan(64 + 250 * ((performance.now() - started) / 1000) + 200);
  expect(Math.max(...got) - Math.min(...got)).toBeLessThan(600);
  await vi.advanceTimersByTimeAsync(300);
  await Promise.all(watchers);
  const turn = share.watcher(256);
  expect([await turn(), await turn()]).toEqual([16, 32]);
});
