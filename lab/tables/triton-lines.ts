/** Compares ncu's counts for each source line of a Triton kernel with the emulator's. */
import { markdownTable } from './markdown.ts';

interface LineCounters {
  /** Wavefronts of shared memory, without those of cp.async. */
  wavefronts: number;
  /** Wavefronts beyond the number that accesses of this width need. */
  conflicts: number;
  /** Sectors of global memory. */
  sectors: number;
}

export interface ComparedLines {
  /** The line, or several lines if they share the code of one function of Triton's library, such as "14, 15". */
  lines: string;
  ncu: LineCounters;
  modelled: LineCounters;
}

export interface NcuFiles {
  /** Output of `ncu --csv --page source --print-source sass`. */
  csv: string;
  /** Output of `nvdisasm -g -c` for the cubin. */
  sass: string;
  ptx: string;
  /** The name that the kernel's source has in the PTX. */
  file: string;
}

/** The emulator's counts by source line, such as "kernel.py:14". */
export type EmulatorLines = Readonly<Record<string, Readonly<Record<string, number>>>>;

const FIGURES = ['conflicts', 'wavefronts', 'sectors'] as const;
const MAX_APART = 0.01;
const ELSEWHERE = 'elsewhere';

/**
 * Compares the lines that access memory. Errors: if the CSV lacks the columns, or its code differs from the cubin's.
 */
export function compareLines({ csv, sass, ptx, file }: NcuFiles, emulated: EmulatorLines): ComparedLines[] {
  const groups = new LineGroups(ptx, file);
  const ncu = new Map<string, LineCounters>();
  const modelled = new Map<string, LineCounters>();
  const places = placesOf(sass);
  for (const { offset, ...counters } of instructionsOf(csv)) {
    const place = places.get(offset);
    if (place === undefined) throw new Error(`Wanted each instruction of the CSV in the cubin; ${offset} is not there`);
    add(ncu, groups.nameOf(place), counters);
  }
  for (const [place, counts] of Object.entries(emulated)) add(modelled, groups.nameOf(place), fromEmulator(counts));
  const none = { wavefronts: 0, conflicts: 0, sectors: 0 };
  return [...new Set([...ncu.keys(), ...modelled.keys()])]
    .map((lines) => ({ lines, ncu: ncu.get(lines) ?? none, modelled: modelled.get(lines) ?? none }))
    .filter((row) => FIGURES.some((name) => row.ncu[name] > 0 || row.modelled[name] > 0))
    .toSorted((a, b) => a.lines.localeCompare(b.lines, 'en', { numeric: true }));
}

/** The largest difference of a figure, relative to ncu's. */
export const furthestApart = ({ ncu, modelled }: ComparedLines): number =>
  Math.max(
    ...FIGURES.map((name) => (ncu[name] === modelled[name] ? 0 : Math.abs(modelled[name] - ncu[name]) / ncu[name])),
  );

export const isWithin = (row: ComparedLines): boolean => furthestApart(row) <= MAX_APART;

export function linesTable(kernels: Readonly<Record<string, readonly ComparedLines[]>>): string {
  const rows = Object.entries(kernels).flatMap(([kernel, lines]) =>
    lines.map((row) => [
      kernel,
      row.lines,
      ...FIGURES.flatMap((name) => [String(row.ncu[name]), String(row.modelled[name])]),
      Number.isFinite(furthestApart(row)) ? `${(100 * furthestApart(row)).toFixed(1)} %` : 'ncu has none',
    ]),
  );
  const head = ['kernel', 'line', ...FIGURES.flatMap((name) => [`${name}, ncu`, 'modelled']), 'furthest apart'];
  return markdownTable(head, rows);
}

/**
 * Finds the line of the kernel's file for each instruction. Debug information places inlined code in Triton's library
 * (standard.py), and comments in Triton's PTX say which line called it. Lines that call the same library line cannot be
 * told apart, so they form a group.
 */
class LineGroups {
  readonly #callers = new Map<string, Set<string>>();
  readonly #groups = new Map<string, Set<string>>();
  readonly #file: string;

  constructor(ptx: string, file: string) {
    this.#file = file;
    for (const [, comment] of ptx.matchAll(/^\t\.loc\t[^\n/]*\/\/ ([^\n]*)/gm)) {
      const chain = [...comment!.matchAll(/([^\s[\]]+:\d+):\d+/g)].map(([, place]) => place!);
      const caller = this.#lineOf(chain.at(-1)!);
      if (caller === undefined) continue;
      const callers = this.#callers.get(chain[0]!) ?? new Set();
      this.#callers.set(chain[0]!, callers.add(caller));
    }
    for (const callers of this.#callers.values()) {
      const joined = new Set([...callers].flatMap((line) => [line, ...(this.#groups.get(line) ?? [])]));
      for (const line of joined) this.#groups.set(line, joined);
    }
  }

  nameOf(place: string): string {
    const line = this.#lineOf(place) ?? [...(this.#callers.get(place) ?? [])][0];
    if (line === undefined) return ELSEWHERE;
    const group = this.#groups.get(line) ?? new Set([line]);
    return [...group].toSorted((a, b) => Number(a) - Number(b)).join(', ');
  }

  #lineOf(place: string): string | undefined {
    const at = place.lastIndexOf(':');
    return place.slice(0, at) === this.#file ? place.slice(at + 1) : undefined;
  }
}

/** The source line of each instruction, by the instruction's offset in bytes. */
function placesOf(sass: string): Map<number, string> {
  const places = new Map<number, string>();
  let place = ELSEWHERE;
  for (const line of sass.split('\n')) {
    const marker = /^\s*\/\/## File "(?:.*\/)?([^"/]+)", line (\d+)/.exec(line);
    if (marker) place = `${marker[1]}:${marker[2]}`;
    const instruction = /^\s*\/\*([0-9a-f]{4,})\*\/\s+\S/.exec(line);
    if (instruction) places.set(parseInt(instruction[1]!, 16), place);
  }
  return places;
}

const WAVEFRONTS = 'L1 Wavefronts Shared';
const IDEAL = 'L1 Wavefronts Shared Ideal';
const SECTORS = 'L2 Theoretical Sectors Global';
/**
 * cp.async and wgmma. ncu counts wavefronts of shared memory for these instructions, but includes them in neither its
 * loads nor its stores. The model has none.
 */
const NO_LOAD_OR_STORE = /^\s*(?:@\S+\s+)?(?:LDGSTS|HGMMA)/;

function instructionsOf(csv: string): (LineCounters & { offset: number })[] {
  const rows = csv
    .split(/\r?\n/)
    .map((line) => [...line.matchAll(/"((?:[^"]|"")*)"/g)].map(([, field]) => field!))
    .filter((row) => row.length > 2);
  const head = rows.findIndex((row) => row.includes('Address') && row.includes(SECTORS));
  if (head < 0) throw new Error(`Wanted columns Address and "${SECTORS}" of ncu's source page; the CSV has none`);
  const column = (row: readonly string[], name: string): string => row[rows[head]!.indexOf(name)] ?? '';
  const count = (row: readonly string[], name: string): number => Number(column(row, name).replaceAll(',', '')) || 0;
  const instructions = rows.slice(head + 1).filter((row) => /^(0x)?[0-9a-f]+$/i.test(column(row, 'Address')));
  const address = (row: readonly string[]): number => parseInt(column(row, 'Address').replace(/^0x/i, ''), 16);
  return instructions.map((row) => {
    const isOther = NO_LOAD_OR_STORE.test(column(row, 'Source'));
    const wavefronts = isOther ? 0 : count(row, WAVEFRONTS);
    return {
      offset: address(row) - address(instructions[0]!),
      wavefronts,
      conflicts: isOther ? 0 : wavefronts - count(row, IDEAL),
      sectors: count(row, SECTORS),
    };
  });
}

function fromEmulator(counts: Readonly<Record<string, number>>): LineCounters {
  const sum = (...names: string[]): number => names.reduce((all, name) => all + (counts[name] ?? 0), 0);
  return {
    wavefronts: sum('shared_load_wavefronts', 'shared_store_wavefronts'),
    conflicts: sum('shared_load_conflicts', 'shared_store_conflicts'),
    sectors: sum('global_load_sectors', 'global_store_sectors', 'async_copy_sectors'),
  };
}

function add(sums: Map<string, LineCounters>, line: string, { wavefronts, conflicts, sectors }: LineCounters): void {
  const sum = sums.get(line) ?? { wavefronts: 0, conflicts: 0, sectors: 0 };
  sums.set(line, {
    wavefronts: sum.wavefronts + wavefronts,
    conflicts: sum.conflicts + conflicts,
    sectors: sum.sectors + sectors,
  });
}
