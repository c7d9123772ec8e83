/** Names of keys as the command table writes them: "j", "G", "enter", "ctrl+d", "shift+tab". */
import type { Key } from 'ink';
import { entryOf } from '@flashcore/shared/text';

/**
 * Names of the pressed keys: usually one, several if a terminal sends keys in one chunk. A terminal sends Alt and a key
 * as Escape and the key, so a combination that has no meaning (`isBound`) is these two, typed fast.
 */
export function keyNames(input: string, key: Key, isBound: (name: string) => boolean = () => false): string[] {
  const special = specialName(key);
  // Ink takes Escape and Enter in one chunk for one key. Enter alone would decide what Escape was to close.
  if (special === 'enter' && key.meta) return ['escape', 'enter'];
  if (special !== undefined) return [special];
  if (key.ctrl) return [`ctrl+${input}`];
  if (key.meta && isBound(`alt+${input}`)) return [`alt+${input}`];
  if (key.meta) return ['escape', ...plainNames(input)];
  return plainNames(input);
}

const plainNames = (input: string): string[] =>
  Array.from(input, (character) => entryOf(CONTROL_NAMES, character) ?? letterWithControl(character) ?? character);

/** The name of a control character, such as ctrl+u for U+0015. */
function letterWithControl(character: string): string | undefined {
  const code = character.charCodeAt(0);
  return code >= 1 && code <= 26 ? `ctrl+${String.fromCharCode('a'.charCodeAt(0) + code - 1)}` : undefined;
}

// Ink leaves these characters in a chunk with several keys.
const CONTROL_NAMES: Record<string, string> = {
  '\r': 'enter',
  '\n': 'enter',
  '\t': 'tab',
  '\u007f': 'backspace',
  '\b': 'backspace',
  '\u001b': 'escape',
  ' ': 'space',
};

function specialName(key: Key): string | undefined {
  if (key.tab) return key.shift ? 'shift+tab' : 'tab';
  if (key.return) return 'enter';
  if (key.escape) return 'escape';
  if (key.backspace) return key.meta ? 'alt+backspace' : 'backspace';
  if (key.delete) return 'delete';
  if (key.upArrow) return 'up';
  if (key.downArrow) return 'down';
  if (key.leftArrow) return 'left';
  if (key.rightArrow) return 'right';
  if (key.pageUp) return 'pageup';
  if (key.pageDown) return 'pagedown';
  if (key.home) return 'home';
  return key.end ? 'end' : undefined;
}
