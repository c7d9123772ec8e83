/** The compiled sources of a variant, to which its findings refer. */
import type { CodeFrame, Finding } from '@flashcore/shared/contract';
import { codeFrame, type Place, type SourceText } from '../build/code-frame.ts';

export class FrameBook {
  #files: readonly SourceText[] = [];

  open(files: readonly SourceText[]): void {
    this.#files = files;
  }

  ofFinding({ location, threads }: Finding): CodeFrame | undefined {
    const places = [
      ...(location === undefined ? [] : [{ file: location.file, line: location.line, column: 0 }]),
      ...threads.flatMap(({ place }) => placeIn(place) ?? []),
    ];
    return places.map((place) => codeFrame(this.#files, place)).find((frame) => frame !== undefined);
  }

  /** A line of the sources; empty if the place is not in these files. */
  lineAt(file: string, line: number): string {
    const frame = codeFrame(this.#files, { file, line, column: 0 });
    return frame?.lines[line - frame.firstLine] ?? '';
  }
}

/** The place in a text such as "waits at __syncthreads, divergent_barrier.cu:31". */
function placeIn(text: string): Place | undefined {
  const [, file, line, column] = /([^\s:(),]+):(\d+)(?::(\d+))?/.exec(text) ?? [];
  return file === undefined ? undefined : { file, line: Number(line), column: Number(column ?? 0) };
}
