import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { lockGpus } from './gpu-lock.ts';
import { temporaryFolder } from './testing/test-runner.ts';

const take = (scratch: string, gpus: string, { node = 'gpu1', withinMs = 1 } = {}): Promise<() => void> =>
  lockGpus({ scratch, environment: { SLURM_JOB_GPUS: gpus, SLURMD_NODENAME: node }, withinMs });

test('at most one pilot holds each GPU of a node, even if two pilots were given the same GPUs', async () => {
  using folder = temporaryFolder();
  const letGo = await take(folder.path, '0,2-3');
  for (const gpus of ['0', '3', '1,2'])
    await expect(take(folder.path, gpus)).rejects.toThrow(/End the process that has GPU [023] of this node/);
  // The refused pilot has unlocked the GPU that it had already locked.
  (await take(folder.path, '1'))();
  (await take(folder.path, '0', { node: 'gpu2' }))();
  letGo();
  (await take(folder.path, '0-3'))();
});

test('a process that still runs after its node was declared down keeps its GPU until it has ended', async () => {
  using folder = temporaryFolder();
  const module = new URL('./gpu-lock.ts', import.meta.url).href;
  const script = `
    const { lockGpus } = await import(${JSON.stringify(module)});
    await lockGpus({ scratch: ${JSON.stringify(folder.path)}, environment: { SLURM_JOB_GPUS: '0', SLURMD_NODENAME: 'gpu1' } });
    console.log('has it');
    setInterval(() => {}, 1000);`;
  const former = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    await once(former.stdout, 'data');
    await expect(take(folder.path, '0')).rejects.toThrow('End the process that has GPU 0');
    const waiting = take(folder.path, '0', { withinMs: 20_000 });
    former.kill('SIGKILL');
    (await waiting)();
  } finally {
    former.kill('SIGKILL');
  }
});
