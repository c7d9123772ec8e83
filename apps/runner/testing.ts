/** What tests of the cu* seam take of the runner: compilers and the driver, without the daemon. */
export { CompileCache, type Compilation, type CompileUnit } from './src/build/compile-cache.ts';
export { emulatorUnit } from './src/build/emulator-unit.ts';
export { emulatorLibraryUnit, readSources } from './src/build/host-libraries.ts';
export { nvccUnit } from './src/build/nvcc-unit.ts';
export { snapshotSources } from './src/build/source-snapshot.ts';
export { Toolchain } from './src/build/toolchain.ts';
export { ArtifactStore } from './src/store/artifacts.ts';
export { CudaDriver, type DevicePointer, type Handle } from './worker/driver/cuda-driver.ts';
export { addressOf } from './worker/driver/declarations.ts';
export { BuildTools } from './src/build/build-tools.ts';
export { EventPair } from './worker/benchmark/samplers.ts';
export { LoadedCandidate } from './worker/driver/loaded-candidate.ts';
export type { Candidate, ProfileOnceJob } from './worker/messages.ts';
export { RunBuffers } from './worker/verify/buffers.ts';
export { drawInputs } from './worker/verify/inputs.ts';
