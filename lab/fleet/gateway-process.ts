/** A gateway in a separate process. When its scheduler needs a pilot, it asks the parent process to start one. */
// Sets the heap limits that the daemon uses.
import '@flashcore/runner/memory';
import { createGateway, parseFleet, startTestRunner, type Scheduler } from '@flashcore/runner/testing-daemon';

/** Messages between a gateway's process and the program that measures it. */
export type FromGateway =
  | { type: 'serves'; address: string }
  /** Asks the parent process to start a pilot. */
  | { type: 'pilot'; token: string }
  | { type: 'use'; rssMib: number; cpuMs: number };

export type ToGateway = { type: 'use' } | { type: 'end' };

const [listen = ''] = process.argv.slice(2);
const tell = (message: FromGateway): void => void process.send!(message);
let pilots = 0;
const scheduler: Scheduler = {
  submit: (_, token) => {
    pilots += 1;
    tell({ type: 'pilot', token });
    return Promise.resolve(String(pilots));
  },
  pilots: () => Promise.resolve(new Set(Array.from({ length: pilots }, (_, index) => String(index + 1)))),
  whyEnded: () => Promise.resolve(undefined),
  cancel: () => Promise.resolve(),
};
const file = parseFleet(
  `{ listen: ${listen}, reach: ${listen}, bundle: /opt/flashcore, builds: { at: pilots }, partitions: [{ partition: gpu, device: NVIDIA L4, max: 1, min: 1, idle_seconds: 3600 }] }`,
  'fleet.yaml',
);
const { runner } = await startTestRunner({
  createPlanner: (options) =>
    createGateway(options, { file, scheduler: () => scheduler, tls: undefined, roundMs: 100 }),
  fleet: file,
  maxQueued: 20_000,
  maxStreamsPerClient: 2_000,
});
process.on('message', (message: ToGateway) => {
  if (message.type === 'end') process.exit(0);
  const { user, system } = process.cpuUsage();
  tell({ type: 'use', rssMib: process.memoryUsage.rss() / 1024 ** 2, cpuMs: (user + system) / 1000 });
});
tell({ type: 'serves', address: runner.address });
