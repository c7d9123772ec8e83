/**
 * Parts of the daemon for tests across projects: a runner in this process or as a child that can be killed, with
 * scripted or real planners.
 */
export { createPlanner, type PlannerOptions } from './src/experiment/planner.ts';
export type { JobBody } from './src/jobs/job-context.ts';
export { LATE_MS, fakePlanner, FAKE_DEVICE } from './src/testing/fake-planner.ts';
export {
  residentMib,
  startChildGateway,
  startChildRunner,
  startChildRunnerIn,
  unreadConnection,
  unreadWatch,
  type ChildRunner,
} from './src/testing/child-runner.ts';
export {
  collect,
  finished,
  firstEvent,
  kernel,
  startTestRunner,
  temporaryFolder,
  type TestRunner,
  ownersKernels,
} from './src/testing/test-runner.ts';
export { parseFleet } from './src/fleet/fleet-file.ts';
export { createGateway } from './src/fleet/gateway.ts';
export { flyPilot } from './src/fleet/pilot.ts';
export type { Scheduler } from './src/fleet/scheduler.ts';
export { createLogger } from './src/log.ts';
export { simulateCluster, type RecordedExperiment, type Simulation } from './src/testing/simulated-cluster.ts';
export { ATTACKS, FIRST_LENGTH, HOSTILE_MANIFEST, chosenAttack, hostileSource } from './src/testing/hostile-kernel.ts';
export { BadFrame, REPLY_BYTES, decodeReply } from './worker/driver/frames.ts';
export { ExecutorEnded, RemoteLibrary } from './worker/driver/remote-library.ts';
