import { FlashcoreError } from '@flashcore/shared/contract';

const HOW_TO_GET = {
  nvcc: "Install the CUDA toolkit on the runner's host: a GPU needs nvcc to build for, and none was found on PATH or in CUDA_HOME",
  ptx: "The emulator's PTX engine needs a compiler that makes PTX, nvcc or clang, and there is neither on PATH: install clang 16 or later (apt-get install clang-19, brew install llvm), or serve with --emulator-engine fibres",
  'g++':
    "No C++ compiler on PATH, which the emulator and the CPU reference need: install g++ 12 or clang++ 15 or later on the runner's host",
};

/** COMPILER_MISSING, and what to do about it. */
export const missingCompiler = (wanted: keyof typeof HOW_TO_GET): FlashcoreError =>
  new FlashcoreError('COMPILER_MISSING', { wanted }, HOW_TO_GET[wanted]);
