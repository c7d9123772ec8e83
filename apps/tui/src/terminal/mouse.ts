/** Mouse events as terminals report them on request (SGR, 1006): wheel and left button. */

export type MouseEvent =
  | { readonly kind: 'wheel'; readonly by: 1 | -1 }
  // Column and row of the cell, from 0.
  | { readonly kind: 'click'; readonly column: number; readonly row: number };

export const MOUSE_ON = '\u001b[?1000h\u001b[?1006h';
export const MOUSE_OFF = '\u001b[?1006l\u001b[?1000l';

const SGR_EVENT = /\u001b\[<(\d+);(\d+);(\d+)([Mm])/g;
const WHEEL_UP = 64;
const WHEEL_DOWN = 65;
const LEFT = 0;

/** The events in a chunk of input; releases and other buttons are ignored. */
export function mouseEvents(input: string): MouseEvent[] {
  return [...input.matchAll(SGR_EVENT)].flatMap(([, button, column, row, action]): MouseEvent[] => {
    if (Number(button) === WHEEL_UP) return [{ kind: 'wheel', by: -1 }];
    if (Number(button) === WHEEL_DOWN) return [{ kind: 'wheel', by: 1 }];
    return Number(button) === LEFT && action === 'M'
      ? [{ kind: 'click', column: Number(column) - 1, row: Number(row) - 1 }]
      : [];
  });
}
