/** The page of searches over variants that `fa-tui tune --json` has recorded. */
import type { GetJobResponse, TunedVariant } from '@flashcore/shared/contract';
import { fixed, markdownTable } from './markdown.ts';
import { experimentOf, filesOf } from './results.ts';

const FILES = /^tune\..*\.json$/;
const AGAIN = /\.again\.json$/;
/** The number of rows shown. These are the fastest of the timed variants; the file has the others. */
const SHOWN = 20;

interface Search {
  readonly file: string;
  readonly found: GetJobResponse;
}

/** The page of a folder with searches; undefined for other folders. */
export function tunePage(folder: string): string | undefined {
  const searches = filesOf(folder, FILES).flatMap((file): Search[] => {
    const found = experimentOf(folder, file);
    return found?.result?.tune ? [{ file, found }] : [];
  });
  // A repeated search comes after the first.
  searches.sort((a, b) => searchOf(a.file).localeCompare(searchOf(b.file)) || Number(isAgain(a)) - Number(isAgain(b)));
  const [first] = searches;
  if (first === undefined) return undefined;
  const device = first.found.result!.provenance!.device!.name;
  return [
    `# ${folder}`,
    '',
    `Searches over variants (\`fa-tui tune\`) on one ${device}; the commands are in [commands.txt](commands.txt). A time is`,
    "of the variant's last round; the ratio beside it is that round's leader's time over the variant's.",
    '',
    ...searches.map(searchMarkdown),
  ].join('\n');
}

const searchOf = (file: string): string => file.replace(AGAIN, '.json');
const isAgain = ({ file }: Search): boolean => AGAIN.test(file);

function searchMarkdown(search: Search): string {
  const { job, result } = search.found;
  const { variants, combinations, complete } = result!.tune!;
  const seconds = fixed(result!.deviceSeconds, result!.deviceSeconds < 1 ? 2 : 0);
  const size = `${variants.length} variants of ${combinations} combinations in ${seconds} s of the device`;
  if (isAgain(search)) {
    const known = variants.filter(({ reused }) => reused).length;
    return `Asked for again (${search.file}): ${size}; ${known} of ${variants.length} were known from before.\n`;
  }
  const timed = variants.filter(({ p50Us }) => p50Us !== undefined).toSorted((a, b) => a.p50Us! - b.p50Us!);
  const more = timed.length > SHOWN ? [`The ${SHOWN} fastest of ${timed.length} that were timed.`, ''] : [];
  return [
    `## ${job!.kernelId}`,
    '',
    `${size}${complete ? '' : ', not to its end'}. ${dropsText(variants)} Result: ${job!.summary}.`,
    '',
    markdownTable(
      ['variant', 'p50 us', '95 %', 'x leader', 'registers', 'SMEM B', 'CTAs/SM', 'dropped'],
      timed.slice(0, SHOWN).map(rowOf),
    ),
    ...more,
  ].join('\n');
}

const rowOf = (variant: TunedVariant): string[] => {
  const { label, p50Us, p50LowUs, p50HighUs, ratio, registers, smemBytes, ctasPerSm, rank, dropped = '' } = variant;
  return [
    rank === 1 ? `**${label}**` : label,
    fixed(p50Us, 2),
    `${fixed(p50LowUs, 2)} to ${fixed(p50HighUs, 2)}`,
    fixed(ratio?.ratio, 3),
    String(registers),
    String(smemBytes),
    String(ctasPerSm),
    dropped.split(':')[0]!,
  ];
};

/** Text such as "Dropped: 60 wrong, 3 spilling registers, 56 slower." */
function dropsText(variants: readonly TunedVariant[]): string {
  const count = (pattern: RegExp): number => variants.filter(({ dropped }) => pattern.test(dropped ?? '')).length;
  const [wrong, spilled, slower] = [count(/^wrong/), count(/spilled$/), count(/^(slower|in the slower)/)];
  const other = variants.filter(({ dropped }) => dropped !== undefined).length - wrong - spilled - slower;
  const parts = [
    [wrong, 'wrong'],
    [spilled, 'spilling registers'],
    [slower, 'slower'],
    [other, 'for another reason'],
  ].filter(([number]) => number !== 0);
  return parts.length === 0
    ? 'None was dropped.'
    : `Dropped: ${parts.map(([number, what]) => `${number} ${what}`).join(', ')}.`;
}
