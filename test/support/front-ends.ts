/** Environments that change which of this machine's compilers a runner finds. */
import { existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** A machine without a CUDA toolkit: clang makes the emulator's PTX with the project's own headers. */
export const withoutToolkit = (): Record<string, string> => ({
  // A toolkit that is named but missing keeps the runner from looking elsewhere.
  CUDA_HOME: '/none',
  CUDA_PATH: '',
  PATH: (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter((folder) => !existsSync(join(folder, 'nvcc')))
    .join(delimiter),
});

/** The folder where test/ladder/nvrtc.test.ts says to install the wheel nvidia-cuda-nvrtc, and that of a toolkit. */
const NVRTC = [join(import.meta.dirname, '../../node_modules/.cache/nvrtc/nvidia/cu13/lib'), '/usr/local/cuda/lib64'];
const HEADERS = '/usr/local/cuda/include';

/** The folder of this machine's NVRTC; undefined if it has none, or no CUDA headers. */
export const nvrtcFolder = (): string | undefined =>
  existsSync(join(HEADERS, 'cuda_fp16.h'))
    ? NVRTC.find((folder) => existsSync(folder) && readdirSync(folder).some((name) => name.startsWith('libnvrtc.so')))
    : undefined;

/** A machine without nvcc: makes a toolkit in `folder` that has only NVRTC and CUDA's headers. */
export function withNvrtcOnly(folder: string): Record<string, string> {
  const toolkit = join(folder, 'toolkit');
  mkdirSync(toolkit);
  symlinkSync(nvrtcFolder()!, join(toolkit, 'lib'));
  symlinkSync(HEADERS, join(toolkit, 'include'));
  return { ...withoutToolkit(), CUDA_HOME: toolkit };
}
