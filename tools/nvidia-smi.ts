// Parses the output of `nvidia-smi -q`: sections by indentation, with "name : value" lines in them.

export interface SmiGpu {
  /** PCI address: 00000000:00:06.0. */
  id: string;
  /**
   * By path, for example "Max Clocks/SM" → "1980 MHz". If a name occurs twice in a section the first value is kept.
   */
  values: Map<string, string>;
}

/** The GPUs of a report. */
export function parseNvidiaSmi(text: string): SmiGpu[] {
  const gpus: SmiGpu[] = [];
  let path: string[] = [];
  for (const line of text.split(/\r?\n/)) {
    const gpu = /^GPU ([0-9A-Fa-f:.]+)\s*$/.exec(line);
    if (gpu) {
      gpus.push({ id: gpu[1]!, values: new Map() });
      path = [];
      continue;
    }
    const found = /^( {4,})(\S.*?)\s*(?: : (.*))?$/.exec(line);
    const values = gpus.at(-1)?.values;
    if (!found || !values) continue;
    const depth = found[1]!.length / 4 - 1;
    path = [...path.slice(0, depth), found[2]!];
    const key = path.join('/');
    if (found[3] !== undefined && !values.has(key)) values.set(key, found[3].trim());
  }
  return gpus;
}

/** "1980 MHz" or "54.25 W" as a number; undefined for "N/A" and missing values. */
export function quantity(text: string | undefined): number | undefined {
  const found = /^(-?[\d.]+)(?:\s|$)/.exec(text ?? '');
  return found ? Number(found[1]) : undefined;
}
