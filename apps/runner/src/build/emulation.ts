import type { EmulatorEngine, EngineWanted } from './emulator-engine.ts';
import { findFrontEnd, type FoundFrontEnd, type FrontEnd, type FrontEndOptions } from './front-end.ts';
import type { Toolchain } from './toolchain.ts';

/** The emulator's engine and front end, determined once for the runner's life. */
export interface Emulation {
  readonly engine: EmulatorEngine;
  /** The front end that makes PTX; undefined if there is none. Without one, the PTX engine can't build kernels. */
  readonly frontEnd: FrontEnd['kind'] | undefined;
  /** Why this engine was chosen, for people: "nvcc 13.0.88". */
  readonly because: string;
  /** Why an installed nvcc makes no code for the emulator; undefined if it does or is missing. */
  readonly nvccProblem: string | undefined;
}

/** The reason if the user chose the engine. */
export const BY_OPTION = 'by --emulator-engine';

/** Errors: as findFrontEnd(). */
export async function chooseEmulation(
  wanted: EngineWanted,
  toolchain: Toolchain,
  options: FrontEndOptions,
): Promise<Emulation> {
  const found = await findFrontEnd(toolchain, options);
  const { frontEnd, nvccProblem } = found;
  if (wanted === 'fibres') return { engine: 'fibres', frontEnd: undefined, because: BY_OPTION, nvccProblem };
  const engine = wanted === 'ptx' || frontEnd ? 'ptx' : 'fibres';
  return { engine, frontEnd: frontEnd?.kind, because: becauseOf(found), nvccProblem };
}

function becauseOf({ frontEnd, nvccProblem, nvrtcProblem, clangProblem }: FoundFrontEnd): string {
  const problems = [nvccProblem, nvrtcProblem, clangProblem].filter((problem) => problem !== undefined);
  const found = frontEnd ? `${frontEnd.compiler.name} ${frontEnd.compiler.version}` : 'no nvcc or clang makes PTX';
  if (!frontEnd && problems.length === 0) return 'no nvcc or clang found';
  return [found, ...problems].join('; ');
}
