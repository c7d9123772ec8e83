import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readSources } from './host-libraries.ts';
import type { SnapshotFile } from './source-snapshot.ts';

/**
 * Sources for compiling an emulated kernel: substitutes for CUDA's headers, and the linker's limit on static shared
 * memory.
 */
export function emulatorHeaders(folder: string): SnapshotFile[] {
  return [
    ...readSources(join(folder, 'include'), 'emulator/include'),
    { path: 'emulator/static_shared_limit.ld', text: readFileSync(join(folder, 'static_shared_limit.ld'), 'utf8') },
  ];
}

/**
 * Substitutes for CUDA's headers when clang makes PTX: those for device code, and redirections that both engines share.
 */
export const deviceHeaders = (folder: string): SnapshotFile[] =>
  ['device_headers', 'include'].flatMap((part) => readSources(join(folder, part), `emulator/${part}`));

/** Substitutes for the headers of the C and C++ libraries when NVRTC makes PTX. */
export const standardHeaders = (folder: string): SnapshotFile[] =>
  readSources(join(folder, 'nvrtc/headers'), 'emulator/nvrtc/headers');
