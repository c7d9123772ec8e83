/**
 * Entries that a manifest names by a C++ spelling such as `fwd<64, true>`. The compiler itself reveals their compiled
 * names.
 */
import { isSpelledEntry } from '@flashcore/shared/kernels';
import type { SnapshotFile } from './source-snapshot.ts';

const MARKER = 'flashcore_entry_';
/** File name in diagnostics about spellings; their line is the entry's number, from 1. */
export const SPELLING_FILE = 'kernel.yaml';
const SUBSTITUTION = /S([0-9A-Z]*)_/g;

/**
 * The sources, with a marker after the unit's last line for each spelled entry. A marker is a template instance that
 * names the entry.
 */
export function withMarkers(
  files: readonly SnapshotFile[],
  unit: string,
  entries: readonly string[],
): readonly SnapshotFile[] {
  if (!entries.some(isSpelledEntry)) return files;
  const markers = entries.map((entry, index) =>
    isSpelledEntry(entry)
      ? `template <auto* F> __global__ void ${MARKER}${index}() {}
#line ${index + 1} "${SPELLING_FILE}"
template __global__ void ${MARKER}${index}<&${entry}>();\n`
      : '',
  );
  return files.map((file) => (file.path === unit ? { ...file, text: `${file.text}\n${markers.join('')}` } : file));
}

export const isMarker = (symbol: string): boolean => /^_Z\d+flashcore_entry_\d+I/.test(symbol);

/**
 * The compiled names of entries: of each spelled entry, and of each entry that is named without its parameters and is
 * not `extern "C"`. Entries with no match or several matches are left out.
 */
export function symbolsOfSpelled(entries: readonly string[], symbols: readonly string[]): Map<string, string> {
  const kernels = symbols.filter((symbol) => !isMarker(symbol));
  return new Map(
    entries.flatMap((entry, index) => {
      if (!isSpelledEntry(entry)) {
        const found = symbols.includes(entry) ? [] : kernels.filter((kernel) => isNamed(kernel, entry));
        return found.length === 1 ? [[entry, found[0]!] as const] : [];
      }
      const head = new RegExp(`^_Z\\d+${MARKER}${index}I(TnPDa)?XadL_Z(.+)EEEvv$`);
      const marker = symbols.map((symbol) => head.exec(symbol)).find((match) => match !== null);
      if (!marker) return [];
      // The marker itself is a substitution, and so is the type of its parameter if the name contains that type. The
      // entry's own substitutions are numbered after them. A kernel with C linkage appears as `XadL_Z4name`, as in C++.
      const shift = marker[1] === undefined ? 1 : 2;
      const found = kernels.filter((kernel) => isSame(kernel, `_Z${marker[2]!}`, shift));
      return found.length === 1 ? [[entry, found[0]!] as const] : [];
    }),
  );
}

/** Whether a compiled name is that of a C++ function with this name outside of namespaces. */
const isNamed = (kernel: string, name: string): boolean => kernel.startsWith(`_Z${name.length}${name}`);

/** Whether a kernel's compiled name equals the name in a marker, apart from the shifted numbers of substitutions. */
function isSame(kernel: string, inMarker: string, shift: number): boolean {
  if (kernel.replaceAll(SUBSTITUTION, 'S_') !== inMarker.replaceAll(SUBSTITUTION, 'S_')) return false;
  const shifted = [...inMarker.matchAll(SUBSTITUTION)];
  return [...kernel.matchAll(SUBSTITUTION)].every(
    ([own, digits = ''], at) => own === shifted[at]![0] || ordinal(shifted[at]![1]!) === ordinal(digits) + shift,
  );
}

/** `S_` is the first substitution, `S0_` the second; the digits are base 36. */
const ordinal = (digits: string): number => (digits === '' ? 0 : parseInt(digits, 36) + 1);
