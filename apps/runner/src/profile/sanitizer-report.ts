/** One error that compute-sanitizer reports. */
export interface SanitizerError {
  /** The first line, for example "Invalid __global__ write of size 2 bytes". */
  title: string;
  /** Places in the source, without duplicates, in the reported order: both sides of a race. */
  places: { file: string; line: number }[];
  thread?: [number, number, number];
  block?: [number, number, number];
  /** All lines as one text. */
  text: string;
}

const PREFIX = /^=+ ?/;
const TITLE =
  /^(Error: |Warning: )?(Race reported|Potential (RAW|WAR|WAW) hazard|Barrier error|Invalid |Uninitialized |Misaligned |Unused )/;

/** Parses the output of compute-sanitizer: lines that begin with "=========", with an empty one between two errors. */
export function parseSanitizerReport(lines: readonly string[]): SanitizerError[] {
  const blocks: string[][] = [[]];
  for (const line of lines) {
    if (!line.startsWith('=====')) continue;
    const text = line.replace(PREFIX, '').trim();
    if (text === '' || TITLE.test(text)) blocks.push([]);
    if (text !== '') blocks.at(-1)!.push(text);
  }
  return blocks.filter(([title]) => title !== undefined && TITLE.test(title)).map(errorOf);
}

function errorOf(block: string[]): SanitizerError {
  // Removes the source location at the end of a race's title, because `places` has it too.
  const title = block[0]!.replace(/^(Error|Warning): /, '').replace(/ (?:at|by) [^ ]+\(.*$| at \S+\+0x.*$/, '');
  // The host's call stack after the device's says nothing about the kernel.
  const host = block.findIndex((line) => /^Saved host backtrace|^Host Frame/.test(line));
  const device = host < 0 ? block : block.slice(0, host);
  const named = device.flatMap((line) =>
    [...line.matchAll(/(?: in |\()([^\s()]+\.(?:cu|cuh|h)):(\d+)/g)].map(([, file, number]) => ({
      file: file!.split('/').at(-1)!,
      line: Number(number),
    })),
  );
  const places = [...new Map(named.map((place) => [`${place.file}:${place.line}`, place])).values()];
  const by = /by thread \((\d+),(\d+),(\d+)\) in block \((\d+),(\d+),(\d+)\)/
    .exec(device.join(' '))
    ?.slice(1)
    .map(Number);
  return {
    title,
    places,
    text: device.join(' '),
    ...(by && { thread: [by[0]!, by[1]!, by[2]!], block: [by[3]!, by[4]!, by[5]!] }),
  };
}
