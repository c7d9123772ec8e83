/** What a runner sees of this machine's compilers. */
import { existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
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

/** Where test/ladder/nvrtc.test.ts says to put the wheel nvidia-cuda-nvrtc, and where a toolkit has it. */
const NVRTC = [join(import.meta.dirname, '../../node_modules/.cache/nvrtc/nvidia/cu13/lib'), '/usr/local/cuda/lib64'];
const HEADERS = '/usr/local/cuda/include';

/** The folder of this machine's NVRTC; undefined: it has none, or no headers of CUDA. */
export const nvrtcFolder = (): string | undefined =>
  existsSync(join(HEADERS, 'cuda_fp16.h'))
    ? NVRTC.find((folder) => existsSync(folder) && readdirSync(folder).some((name) => name.startsWith('libnvrtc.so')))
    : undefined;

/** A machine without nvcc: a toolkit, laid into `folder`, that has NVRTC and CUDA's headers only. */
export function withNvrtcOnly(folder: string): Record<string, string> {
  const toolkit = join(folder, 'toolkit');
  mkdirSync(toolkit);
  symlinkSync(nvrtcFolder()!, join(toolkit, 'lib'));
  symlinkSync(HEADERS, join(toolkit, 'include'));
  return { ...withoutToolkit(), CUDA_HOME: toolkit };
}
