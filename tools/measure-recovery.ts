// Measures how long a device needs to recover from a kill. It kills a worker with SIGKILL while its kernel spins, and
// waits until a new worker has run the canary kernel. node tools/measure-recovery.ts --library libcuda.so.1 --reference
// REF.so --endless ENDLESS.cubin --canary CANARY.cubin [--times 20] Prints one JSON object: the milliseconds from the
// kill to the end of the process, and to the canary's correct result.
import { fork, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { parseShape, shapeFields } from '@flashcore/shared/kernels';

const { values: options } = parseArgs({
  options: {
    library: { type: 'string' },
    reference: { type: 'string' },
    endless: { type: 'string' },
    canary: { type: 'string' },
    times: { type: 'string', default: '20' },
  },
});
const WORKER = fileURLToPath(new URL('../apps/runner/dist/worker.js', import.meta.url));
if (!existsSync(WORKER)) throw new Error(`Build the worker first: ${WORKER} is not there`);
const SHAPE = shapeFields(parseShape('1x4x128x64'));
const tensors = ['Q', 'K', 'V', 'O'].map((tensor) => ({ kind: 'tensor', tensor }));
const endless = {
  image: options.endless,
  shape: SHAPE,
  launchLimitMs: 60_000,
  plan: {
    launches: [
      {
        entry: 'endless_loop',
        grid: [2, 4, 1],
        block: [64, 1, 1],
        sharedBytes: 0,
        l2Persist: [],
        arguments: [
          ...tensors,
          { kind: 'int32', value: 128 },
          { kind: 'float32', value: 0.125 },
          { kind: 'int32', value: 0 },
        ],
      },
    ],
    dtype: 'fp16',
    workspace: [],
  },
};
const input = {
  seed: '1',
  rule: { name: 'normal', q: 'normal', k: 'normal', v: 'normal', logitScale: 1, valueScale: 1 },
};
/** How long the kernel spins on the device before its process is killed. */
const SPIN_MS = 300;

const rounds = [];
for (let i = 0; i < Number(options.times); ++i) {
  const spinning = await openWorker();
  spinning.child.send({ type: 'run-once', candidate: endless, input });
  await spinning.until((message) => message.type === 'step' && message.what === 'the kernel');
  await sleep(SPIN_MS);
  const killed = performance.now();
  const exited = new Promise((resolve) => spinning.child.once('exit', resolve));
  spinning.child.kill('SIGKILL');
  await exited;
  const goneMs = performance.now() - killed;
  const next = await openWorker();
  next.child.send({ type: 'canary', image: options.canary });
  const answer = await next.until((message) => ['done', 'failed', 'fault'].includes(message.type));
  rounds.push({ goneMs, servesMs: performance.now() - killed, canary: answer.type });
  next.child.kill('SIGKILL');
}
console.log(
  JSON.stringify(
    {
      spinMs: SPIN_MS,
      rounds,
      slowest: {
        goneMs: Math.max(...rounds.map((round) => round.goneMs)),
        servesMs: Math.max(...rounds.map((round) => round.servesMs)),
      },
    },
    null,
    1,
  ),
);

/** A message of the worker: its type and, for a step, what the worker is doing. */
interface Notice {
  type: string;
  what?: string;
}

interface OpenedWorker {
  child: ChildProcess;
  /** Resolves with the first message that `wanted` accepts. Rejects if the worker ends before it. */
  until: (wanted: (message: Notice) => boolean) => Promise<Notice>;
}

async function openWorker(): Promise<OpenedWorker> {
  const child = fork(WORKER, [], {
    serialization: 'advanced',
    execArgv: [],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const until = (wanted: (message: Notice) => boolean): Promise<Notice> =>
    new Promise((resolve, reject) => {
      const onMessage = (message: unknown): void => {
        if (!wanted(message as Notice)) return;
        child.off('message', onMessage);
        child.off('exit', onExit);
        resolve(message as Notice);
      };
      const onExit = (code: number | null, signal: NodeJS.Signals | null): void =>
        reject(new Error(`the worker ended early: ${code ?? signal}`));
      child.on('message', onMessage);
      child.on('exit', onExit);
    });
  child.send({
    type: 'open',
    library: options.library,
    deviceOrdinal: 0,
    referenceLibrary: options.reference,
    nvmlLibrary: '',
    clockStampImage: '',
  });
  const opened = await until((message) => ['done', 'failed', 'fault'].includes(message.type));
  if (opened.type !== 'done') throw new Error(`the device could not be opened: ${JSON.stringify(opened)}`);
  return { child, until };
}
