/**
 * What tests across projects take of the daemon: a runner in this process or as a child that can be killed, with
 * scripted or real planners.
 */
export { createPlanner } from './src/experiment/planner.ts';
export { LATE_MS } from './src/testing/fake-planner.ts';
export { startChildRunner, startChildRunnerIn, type ChildRunner } from './src/testing/child-runner.ts';
export {
  collect,
  finished,
  firstEvent,
  kernel,
  startTestRunner,
  temporaryFolder,
  until,
  type TestRunner,
} from './src/testing/test-runner.ts';
export {
  simulateCluster,
  type RecordedExperiment,
  type Simulation,
  type SimulationOptions,
} from './src/testing/simulated-cluster.ts';
export { ATTACKS, FIRST_LENGTH, HOSTILE_MANIFEST, chosenAttack, hostileSource } from './src/testing/hostile-kernel.ts';
export { BadFrame, REPLY_BYTES, decodeReply } from './worker/driver/frames.ts';
export { ExecutorEnded, RemoteLibrary } from './worker/driver/remote-library.ts';
