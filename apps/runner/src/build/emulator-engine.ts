/** What runs blocks in libcuda_emu.so: fibres over code of the C++ compiler, or the PTX that nvcc or clang makes. */
export type EmulatorEngine = 'fibres' | 'ptx';

export const ENGINE_NAMES: Record<EmulatorEngine, string> = { fibres: 'fibre engine', ptx: 'PTX engine' };

/** As `serve --emulator-engine` says it; auto: PTX where a front end makes it. */
export type EngineWanted = EmulatorEngine | 'auto';

export const ENGINES_WANTED: readonly EngineWanted[] = ['auto', 'ptx', 'fibres'];

export const DEFAULT_ENGINE: EngineWanted = 'auto';

/** What an image of PTX begins with when races are to be looked for (libs/emulator/ptx/parse.cpp). */
export const LOOK_FOR_RACES = '// flashcore: races\n';
