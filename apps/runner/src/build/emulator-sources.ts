import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readSources } from './host-libraries.ts';
import type { SnapshotFile } from './source-snapshot.ts';

/**
 * What an emulated kernel is compiled with: the headers that stand for CUDA's, and the linker's limit on static shared
 * memory.
 */
export function emulatorHeaders(folder: string): SnapshotFile[] {
  return [
    ...readSources(join(folder, 'include'), 'emulator/include'),
    { path: 'emulator/static_shared_limit.ld', text: readFileSync(join(folder, 'static_shared_limit.ld'), 'utf8') },
  ];
}

/** CUDA's headers where clang makes PTX: those of device code, and redirections that both engines share. */
export const deviceHeaders = (folder: string): SnapshotFile[] =>
  ['device_headers', 'include'].flatMap((part) => readSources(join(folder, part), `emulator/${part}`));

/** What stands for the C and C++ library's headers where NVRTC makes PTX. */
export const standardHeaders = (folder: string): SnapshotFile[] =>
  readSources(join(folder, 'nvrtc/headers'), 'emulator/nvrtc/headers');
