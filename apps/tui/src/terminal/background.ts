/**
 * Asks the terminal for its background color with OSC 11, so that a light terminal gets colors that are readable on it.
 * xterm's reply is "ESC ] 11 ; rgb:ffff/ffff/ffff", ended by BEL or ST (ESC \), with one to four hex digits per
 * channel. It can arrive between keys, in pieces, late (over ssh) or never. It must not be mistaken for keys: Ink's
 * parser would report Alt+] and the rest as typed text. So the reply is removed before Ink reads it, however late it
 * comes.
 */
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';

const QUERY = '\u001b]11;?\u001b\\';
const REPLY = /\u001b\]11;([^\u0007\u001b]*)(?:\u0007|\u001b\\)/;
// The beginning of a reply at the end of a chunk. Its first two characters may also be the keys Esc and Alt+].
const BEGUN = /\u001b(?:\](?:1(?:1(?:;[^\u0007\u001b]{0,64}\u001b?)?)?)?)?$/;
// Ink itself waits 20 ms for the rest of an escape sequence.
const HOLD_MS = 30;
// Long enough for a terminal behind a slow ssh. The user waits this long only when exiting or opening an editor right
// after the start.
const REPLY_WITHIN_MS = 1_000;

/**
 * The luminance above which black text has more contrast than white text. The relative luminance of white is 1 (WCAG
 * 2).
 */
const LIGHT_LUMINANCE = 0.179;

export interface Background {
  /** Resolves when a reply can no longer reach another program: either it has arrived or the time limit is over. */
  readonly settled: () => Promise<void>;
}

interface BackgroundQuestion {
  /** Must be in raw mode, so that the kernel does not echo the reply. */
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: NodeJS.WriteStream;
  readonly onLight: () => void;
}

/** Asks once. Replies are removed from what `stdin.read()` returns. */
export function askBackground({ stdin, stdout, onLight }: BackgroundQuestion): Background {
  const read = stdin.read.bind(stdin);
  const askedAt = performance.now();
  const answered = new AbortController();
  let held = '';
  let isReleased = false;
  let release: NodeJS.Timeout | undefined;
  const give = (): void => {
    isReleased = true;
    const text = held;
    held = '';
    stdin.unshift(text);
  };
  stdin.read = (size?: number): string | null => {
    clearTimeout(release);
    const chunk = read(size) as string | Buffer | null;
    if (chunk === null) {
      if (isKeys(held)) release = setTimeout(give, HOLD_MS);
      return null;
    }
    const text = held + String(chunk);
    held = '';
    const reply = REPLY.exec(text);
    if (reply !== null) {
      stdin.read = read;
      answered.abort();
      if (isLight(reply[1] ?? '')) onLight();
      return text.replace(REPLY, '');
    }
    if (!isReleased) held = BEGUN.exec(text)?.[0] ?? '';
    isReleased = false;
    return text.slice(0, text.length - held.length);
  };
  stdout.write(QUERY);
  return {
    settled: async () => {
      const left = askedAt + REPLY_WITHIN_MS - performance.now();
      if (answered.signal.aborted || left <= 0) return;
      const drain = (): void => {
        while (stdin.read() !== null);
      };
      stdin.setRawMode(true);
      stdin.on('readable', drain);
      await Promise.race([once(answered.signal, 'abort'), wait(left, undefined, { signal: answered.signal })]).catch(
        () => undefined,
      );
      stdin.off('readable', drain);
      stdin.setRawMode(false);
    },
  };
}

/** True if the held text may also be keys. A longer beginning can only be a reply. */
const isKeys = (text: string): boolean => text !== '' && text.length <= 2;

/**
 * True for a light color. False also for a reply in another form, for example if a terminal that does not know the
 * query echoes it.
 */
export function isLight(color: string): boolean {
  const channels = /^rgba?:([\da-f]{1,4})\/([\da-f]{1,4})\/([\da-f]{1,4})/i.exec(color)?.slice(1);
  if (channels === undefined) return false;
  const [red = 0, green = 0, blue = 0] = channels.map((hex) =>
    linear(Number.parseInt(hex, 16) / (16 ** hex.length - 1)),
  );
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > LIGHT_LUMINANCE;
}

/** An sRGB channel without its gamma, as WCAG 2 defines it. */
const linear = (channel: number): number => (channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4);
