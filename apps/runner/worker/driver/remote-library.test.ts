import { expect, test } from 'vitest';
import { ExecutorEnded, RemoteLibrary } from './remote-library.ts';

test.runIf(process.platform === 'linux')(
  'an executor whose box breaks ends before it answered: that is not held against a candidate',
  async () => {
    const broken = { program: '/bin/sh', args: ['-c', 'echo bwrap: no permission >&2; exit 1'], env: {} };
    using library = new RemoteLibrary(broken, 'libcuda_emu.so');
    const ended = await Promise.resolve()
      .then(() => library.has('cuInit'))
      .catch((error: unknown) => error as ExecutorEnded);
    expect(ended).toBeInstanceOf(ExecutorEnded);
    expect(await (ended as ExecutorEnded).end).toMatchObject({ answered: false, exitCode: 1 });
  },
);
