// Reads what `nvidia-smi -q` prints: sections by indentation, "name : value" lines in them.

/**
 * The GPUs of a report: { id, values }, values by path, for example "Max Clocks/SM" → "1980 MHz". A name that stands
 * twice under one section keeps its first value.
 */
export function parseNvidiaSmi(text) {
  const gpus = [];
  let path = [];
  for (const line of text.split(/\r?\n/)) {
    const gpu = /^GPU ([0-9A-Fa-f:.]+)\s*$/.exec(line);
    if (gpu) {
      gpus.push({ id: gpu[1], values: new Map() });
      path = [];
      continue;
    }
    const found = /^( {4,})(\S.*?)\s*(?: : (.*))?$/.exec(line);
    if (!found || gpus.length === 0) continue;
    const depth = found[1].length / 4 - 1;
    path = [...path.slice(0, depth), found[2]];
    const key = path.join('/');
    const { values } = gpus.at(-1);
    if (found[3] !== undefined && !values.has(key)) values.set(key, found[3].trim());
  }
  return gpus;
}

/** "1980 MHz", "54.25 W" as a number; undefined for "N/A" and what is not there. */
export function quantity(text) {
  const found = /^(-?[\d.]+)(?:\s|$)/.exec(text ?? '');
  return found ? Number(found[1]) : undefined;
}
