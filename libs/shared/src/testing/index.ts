/** Helpers that the tests of several projects need. */
export { ALL_TESTS, inFull, type HostProgram, missing, missingIn } from './host-programs.ts';
export { edited } from './edited.ts';
export { freePort, childrenOf, Sshd } from './sshd.ts';
export { cpuMs } from '../text/deadline.ts';
export { measuredFolder, RESULTS, unpackedFolder } from './measured.ts';
export { growth, REPEATED, slowPieces } from './linear-time.ts';
export { hostileMessage } from './hostile-message.ts';
export { JOB, recordedEvents, replay, serve, type FakeRunner } from './fake-runner.ts';
export { PATIENT_MS, until, waitFor } from './wait-for.ts';
export { temporaryFolder } from './temporary-folder.ts';
