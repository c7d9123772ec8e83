/** Parses styles such as "bold green", "#ff8800 underline" or "208" into the SGR codes that open and close them. */
import { entryOf } from '@flashcore/shared/text';

export type ColorDepth = 'truecolor' | '256' | '16' | 'none';

export type Codes = readonly (readonly [on: number | string, off: number])[];

const COLORS = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
const ATTRIBUTES: Readonly<Record<string, readonly [number, number]>> = {
  bold: [1, 22],
  dim: [2, 22],
  italic: [3, 23],
  underline: [4, 24],
  inverse: [7, 27],
};

/** Words for styles, besides numbers and #rrggbb. */
export const STYLE_WORDS: readonly string[] = [...Object.keys(ATTRIBUTES), ...COLORS, 'bright-red …', 'default'];

const words = (style: string): string[] => style.toLowerCase().split(/\s+/).filter(Boolean);

export const isStyle = (style: string): boolean =>
  words(style).every((word) => codeOf(word, 'truecolor') !== undefined);

/** The codes of a style. A color that the terminal lacks becomes the nearest available one, or none. */
export const codesOf = (style: string, colors: ColorDepth): Codes =>
  words(style).flatMap((word) => codeOf(word, colors) ?? []);

/** The codes of a word; undefined if it is not a word for a style. */
function codeOf(word: string, colors: ColorDepth): Codes | undefined {
  if (word === 'default') return [];
  const attribute = entryOf(ATTRIBUTES, word);
  if (attribute !== undefined) return [attribute];
  const named = COLORS.indexOf(word.replace(/^bright-/, ''));
  if (named >= 0) return foreground(String((word.startsWith('bright-') ? 90 : 30) + named), colors);
  if (/^\d{1,3}$/.test(word) && Number(word) <= 255) return indexed(Number(word), colors);
  const channels = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/
    .exec(word)
    ?.slice(1)
    .map((hex) => Number.parseInt(hex, 16));
  if (channels === undefined) return undefined;
  return colors === 'truecolor'
    ? foreground(`38;2;${channels.join(';')}`, colors)
    : indexed(nearestIndex(channels), colors);
}

const foreground = (on: string, colors: ColorDepth): Codes => (colors === 'none' ? [] : [[on, 39]]);

function indexed(index: number, colors: ColorDepth): Codes {
  if (colors !== '16') return foreground(`38;5;${index}`, colors);
  if (index < 16) return foreground(String(index < 8 ? 30 + index : 82 + index), colors);
  const channels =
    index >= 232
      ? [0, 0, 0].map(() => 8 + (index - 232) * 10)
      : [36, 6, 1].map((unit) => Math.floor((index - 16) / unit) % 6).map((step) => (step === 0 ? 0 : 55 + step * 40));
  // A channel is set in the nearest of the 16 colors if it is more than half as strong as the strongest channel.
  const most = Math.max(...channels);
  const bits = channels.reduce((sum, channel, place) => sum + (channel * 2 > most && most > 60 ? 1 << place : 0), 0);
  return foreground(String((most > 191 ? 90 : 30) + bits), colors);
}

/** Index in the 6 x 6 x 6 cube of the 256 colors. */
const nearestIndex = (channels: readonly number[]): number =>
  channels.reduce((index, channel) => index * 6 + Math.round(channel / 51), 0) + 16;
