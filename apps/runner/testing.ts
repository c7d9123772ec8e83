/** The parts of the runner that tests of the driver API (cu*) use: compilers and the driver, without the daemon. */
export { CompileCache, type Compilation } from './src/build/compile-cache.ts';
export type { CompileUnit } from './src/build/compile-unit.ts';
export { emulatorUnit } from './src/build/emulator-unit.ts';
export { emulatorLibraryUnit, readSources } from './src/build/host-libraries.ts';
export { nvccUnit } from './src/build/nvcc-unit.ts';
export { SharedBuilds } from './src/build/shared-builds.ts';
export { snapshotSources } from './src/build/source-snapshot.ts';
export { chooseVectorPath, hostProcessorFeatures, type VectorsWanted } from './src/build/vector-path.ts';
export { Toolchain } from './src/build/toolchain.ts';
export { ArtifactStore } from './src/store/artifacts.ts';
export { CudaDriver, type DevicePointer, type Handle } from './worker/driver/cuda-driver.ts';
export { addressOf } from './worker/driver/declarations.ts';
export { TEST_HOST } from './src/testing/test-host.ts';
export { BuildTools } from './src/build/build-tools.ts';
export { ColdSampler, EventPair, HotSampler, type Sampler } from './worker/benchmark/samplers.ts';
export type { TimedBuild } from './worker/benchmark/timed-build.ts';
export { LoadedCandidate } from './worker/driver/loaded-candidate.ts';
export type { Candidate } from './worker/messages/launchable.ts';
export type { Filling, ProfileOnceJob } from './worker/messages/profiling.ts';
export { RunBuffers } from './worker/verify/buffers.ts';
export { compareOutput, wrongPlaces, type CompareOptions, type Comparison } from './worker/verify/output-comparison.ts';
export { NORMAL, drawInputs } from './worker/verify/inputs.ts';
export { compareOutputs, judgeOutputs, roundingLimitOf, roundingOf } from './worker/verify/judgement.ts';
export { ClockStamps } from './worker/benchmark/clock-stamps.ts';
export { Conditions } from './worker/benchmark/conditions.ts';
export { HOPPER } from './worker/timing/machine.ts';
export { blocksToTrace, kernelCycles } from './worker/timing/multiprocessor.ts';
export { operationsOf, type Operation } from './worker/timing/operations.ts';
export { readTrace, type TracedLaunch } from './worker/timing/trace.ts';
export { DrawnAhead, Judge } from './worker/benchmark/judge.ts';
export { OutputLedger } from './worker/benchmark/output-ledger.ts';
export { countersOf } from './src/profile/counters.ts';
export { ReferenceBook } from './worker/verify/reference-book.ts';
export { loadReference, type Reference } from './worker/driver/reference.ts';
export {
  outputOf,
  outputsOf,
  tensorOf,
  valuesOfBits,
  type OutputExtent,
  type TensorsByName,
} from './worker/driver/tensor-bits.ts';
