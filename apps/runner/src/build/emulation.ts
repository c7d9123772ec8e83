import type { EmulatorEngine, EngineWanted } from './emulator-engine.ts';
import { findFrontEnd, type FoundFrontEnd, type FrontEnd, type FrontEndOptions } from './front-end.ts';
import type { Toolchain } from './toolchain.ts';

/** What the emulator runs kernels with: found out once, and kept for the runner's life. */
export interface Emulation {
  readonly engine: EmulatorEngine;
  /** What makes its PTX; undefined: nothing, and with the PTX engine no kernel is built. */
  readonly frontEnd: FrontEnd['kind'] | undefined;
  /** Why the engine is this one, for people: "nvcc 13.0.88". */
  readonly because: string;
  /** Why nvcc, which is there, makes no code for the emulator; undefined: it does, or is not there. */
  readonly nvccProblem: string | undefined;
}

/** Why the engine is the one that somebody asked for. */
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
