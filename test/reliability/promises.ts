/**
 * flashcore's promises, and the tests that show that it keeps them. docs/reliability.md is made from this table and
 * from the figures of the last soak.
 */
export const PROMISES = {
  'jobs-survive': {
    promise:
      "A job's name, once returned, survives kill -9 of the daemon; the job ends exactly once; jobs that ran at a crash are resolved within 5 s of the restart",
    tests: [
      'test/reliability/kill.test.ts',
      'test/reliability/fleet.test.ts',
      'test/reliability/search.test.ts',
      'test/e2e/crash.test.ts',
      'apps/runner/src/store/database.test.ts',
    ],
  },
  'power-cut': {
    promise: 'Jobs, events and uploads that a client was told of survive a power cut',
    tests: ['test/reliability/power-loss.test.ts', 'apps/runner/src/store/blob-store.test.ts'],
  },
  histories: {
    promise:
      'Accepting, undoing, cancelling and leasing by concurrent clients and pilots have one order that explains every answer, also across kill -9',
    tests: ['test/reliability/history.test.ts', 'test/reliability/lease-history.test.ts'],
  },
  'watch-resumes': {
    promise: 'A watch resumes without gap or repeat from any event number',
    tests: [
      'test/reliability/streams.test.ts',
      'test/interop/python-client.test.ts',
      'apps/runner/src/rpc/jobs.test.ts',
    ],
  },
  'requests-are-jobs': {
    promise: 'The same request_id and body give the same job; the same id with another body gives ALREADY_EXISTS',
    tests: ['test/reliability/requests.test.ts', 'apps/runner/src/rpc/jobs.test.ts'],
  },
  'slow-watchers': {
    promise: 'A slow or dead watcher neither slows a job nor grows memory',
    tests: [
      'test/reliability/watchers.test.ts',
      'test/reliability/unread.test.ts',
      'apps/runner/src/jobs/stream-share.test.ts',
      'apps/runner/src/rpc/open-streams.test.ts',
    ],
  },
  cancel: {
    promise:
      'After a cancel the whole process tree is dead within 2 s and the device is free; a cancel may be repeated',
    tests: [
      'test/reliability/cancel.test.ts',
      'apps/runner/src/rpc/jobs.test.ts',
      'apps/runner/src/sandbox/box.test.ts',
    ],
  },
  limits: {
    promise: 'Waiting and running have separate limits; no run is unbounded',
    tests: [
      'apps/runner/src/jobs/jobs.test.ts',
      'apps/runner/src/rpc/jobs.test.ts',
      'apps/runner/src/experiment/worker-life.test.ts',
      'apps/runner/src/experiment/faulty-kernels.test.ts',
    ],
  },
  drain: {
    promise:
      'After SIGTERM health is NOT_SERVING, no new work is taken, running work ends within the grace period, and the exit status is 0',
    tests: ['apps/runner/src/daemon.test.ts', 'test/reliability/overload.test.ts'],
  },
  isolation: {
    promise: "One job's crash, hang, use of all memory, children or sticky CUDA error never changes another's result",
    tests: [
      'test/reliability/faulty.test.ts',
      'test/e2e/faulty.test.ts',
      'apps/runner/src/experiment/worker-life.test.ts',
    ],
  },
  boundary: {
    promise:
      'Host code of a kernel, and bytes from its process, can at most end that process; jobs, runner and verdicts are unaffected',
    tests: [
      'apps/runner/src/experiment/hostile-kernels.test.ts',
      'test/reliability/frames.test.ts',
      'test/reliability/hostile.test.ts',
      'apps/runner/src/sandbox/box.test.ts',
      'apps/runner/src/sandbox/groups.test.ts',
    ],
  },
  protocols: {
    promise:
      'No pilot, coding agent, proposer or client can lead a reader out of a folder or end it: each name and frame is accepted or refused, nothing is deleted, and the reader keeps serving',
    tests: [
      'test/reliability/pilot-frames.test.ts',
      'test/reliability/protocols.test.ts',
      'test/reliability/hostile-names.test.ts',
      'apps/runner/src/store/blob-store.test.ts',
    ],
  },
  devices: {
    promise:
      'A device runs one job at a time; a device that a process does not release is quarantined, and a canary runs before it serves again',
    tests: [
      'apps/runner/src/jobs/jobs.test.ts',
      'apps/runner/src/workers/device-worker.test.ts',
      'apps/runner/src/experiment/worker-life.test.ts',
    ],
  },
  cache: {
    promise:
      "A cache hit's bytes are verified by digest; failures, time-outs and cancelled builds are never cached; the key covers everything that changes the output",
    tests: ['test/reliability/cache.test.ts', 'apps/runner/src/build/compile-cache.test.ts'],
  },
  'bad-input': {
    promise: 'Bad input gets the right status within 1 s, without a hang, UNKNOWN, a stack trace or a path of the host',
    tests: [
      'test/reliability/bad-requests.test.ts',
      'test/reliability/fuzz.test.ts',
      'apps/runner/src/rpc/requests.test.ts',
    ],
  },
  'store-failure': {
    promise:
      'A full disk, an input/output error or a locked database ends no runner: it still serves reads, says NOT_SERVING, takes no new work, and recovers by itself; damage is reported, never hidden',
    tests: [
      'test/reliability/store.test.ts',
      'apps/runner/src/store/damage.test.ts',
      'apps/runner/src/store/database.test.ts',
    ],
  },
  overload: {
    promise:
      'Under overload the queue is bounded, RESOURCE_EXHAUSTED says when to try again, and health checks are answered',
    tests: ['test/reliability/overload.test.ts', 'apps/runner/src/rpc/jobs.test.ts'],
  },
  results: {
    promise: 'Stored results and raw samples survive kill -9',
    tests: ['test/e2e/crash.test.ts', 'test/reliability/kill.test.ts', 'apps/runner/src/store/blob-store.test.ts'],
  },
  'no-leak': {
    promise: 'No leak: memory, descriptors, processes and temporary files are flat over a soak with faults',
    tests: ['test/reliability/leak.test.ts'],
  },
  measurement: {
    promise:
      'A kernel that cheats the measurement or attacks the compiler gets the verdict of its manifest, and gains nothing',
    tests: ['apps/runner/src/experiment/cheating-kernels.test.ts', 'apps/runner/src/experiment/drawn-shapes.test.ts'],
  },
  mistakes: {
    promise:
      'The known kinds of mistakes that N(0, 1) hides are found on the default cases, and no kernel of the ladder is blamed',
    tests: [
      'apps/runner/src/experiment/probes.test.ts',
      'test/reliability/matrix.test.ts',
      'test/ladder/ladder.test.ts',
    ],
  },
  fairness: {
    promise:
      "Clients share a device by their recent use; a client's used and promised device time, jobs, calls, uploads and streams are limited",
    tests: [
      'apps/runner/src/jobs/jobs.test.ts',
      'apps/runner/src/access/roles.test.ts',
      'apps/runner/src/rpc/open-streams.test.ts',
    ],
  },
} as const satisfies Record<string, { promise: string; tests: readonly string[] }>;

export type PromiseId = keyof typeof PROMISES;
