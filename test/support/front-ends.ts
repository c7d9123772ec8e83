/** What a runner sees of this machine's compilers. */
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** A machine without a CUDA toolkit: clang makes the emulator's PTX, with headers of the project's own. */
export const withoutToolkit = (): Record<string, string> => ({
  // A toolkit that is named and not there: none is looked for elsewhere.
  CUDA_HOME: '/none',
  CUDA_PATH: '',
  PATH: (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter((folder) => !existsSync(join(folder, 'nvcc')))
    .join(delimiter),
});
