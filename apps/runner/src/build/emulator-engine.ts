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

/**
 * A first line like it, for PTX that another compiler made: an entry with an instruction that the engine does not carry
 * fails to load. CUDA C++ may have such instructions behind a branch that no thread takes.
 */
export const REFUSE_WHAT_IS_NOT_CARRIED = '// flashcore: complete\n';
