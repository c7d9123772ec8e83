import { FlashcoreError } from '@flashcore/shared/contract';

/** How a user gets a front end for the emulator's PTX engine. */
export const HOW_TO_GET_PTX = 'install clang 16 or later (apt-get install clang-19, brew install llvm)';

const HOW_TO_GET = {
  nvcc: "Install the CUDA toolkit on the runner's host: a GPU needs nvcc to build for, and none was found on PATH or in CUDA_HOME",
  ptx: `The emulator's PTX engine needs an nvcc or clang that makes PTX, and there is none on PATH: ${HOW_TO_GET_PTX}, or serve without --emulator-engine ptx`,
  triton:
    "No Python with Triton was found on the runner's host: run pip install triton there and name that Python in FLASHCORE_PYTHON, or run fa-tui compile where Triton is, which makes a kernel folder of PTX (docs/languages.md)",
  box: "There is no box on the runner's host, and a kernel's Python runs only in one: install bubblewrap there, or run fa-tui compile where Triton is, which makes a kernel folder of PTX (docs/languages.md)",
  'g++':
    "No C++ compiler on PATH, which the emulator and the CPU reference need: install g++ 12 or clang++ 15 or later on the runner's host",
};

/** COMPILER_MISSING, and what to do about it. */
export const missingCompiler = (wanted: keyof typeof HOW_TO_GET): FlashcoreError =>
  new FlashcoreError('COMPILER_MISSING', { wanted }, HOW_TO_GET[wanted]);
