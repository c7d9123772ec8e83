/**
 * What executes blocks in libcuda_emu.so: fibres running the C++ compiler's code, or the engine for PTX from nvcc or
 * clang.
 */
export type EmulatorEngine = 'fibres' | 'ptx';

export const ENGINE_NAMES: Record<EmulatorEngine, string> = { fibres: 'fibre engine', ptx: 'PTX engine' };

/** The value of `serve --emulator-engine`; auto: PTX if a front end makes it. */
export type EngineWanted = EmulatorEngine | 'auto';

export const ENGINES_WANTED: readonly EngineWanted[] = ['auto', 'ptx', 'fibres'];

export const DEFAULT_ENGINE: EngineWanted = 'auto';

/** The first line of a PTX image that is to be checked for races (libs/emulator/ptx/parse.cpp). */
export const LOOK_FOR_RACES = '// flashcore: races\n';
