/** Helpers that the tests of several projects need. */
export { ALL_TESTS, inFull } from './host-programs.ts';
export { edited } from './edited.ts';
export { freePort } from './sshd.ts';
export { type HostProgram, missing, missingIn } from './host-programs.ts';
export { cpuMs } from '../text/deadline.ts';
export { measuredFolder, RESULTS, unpackedFolder } from './measured.ts';
export { growth, REPEATED, slowPieces } from './linear-time.ts';
export { hostileMessage } from './hostile-message.ts';
export { JOB, recordedEvents, replay, serve, type FakeRunner } from './fake-runner.ts';
export { childrenOf, Sshd } from './sshd.ts';
export { PATIENT_MS, until, waitFor } from './wait-for.ts';
export { temporaryFolder } from './temporary-folder.ts';
