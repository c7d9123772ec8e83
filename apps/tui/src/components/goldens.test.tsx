/**
 * Goldens of whole screens: every scene at three sizes, in 24-bit color, 16 colors, without color, and in ASCII. `npm
 * run goldens` rewrites them.
 */
import { inFull } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { cellWidth } from '../present/cells/cell-text.ts';
import { STATE_SCENES, VIEW_SCENES, enterScene, type Scene } from '../testing/scenes.ts';
import { openTerminal } from '../testing/terminal.tsx';
import { toAscii, type Theme } from '../present/cells/theme.ts';

const ALL_SIZES = [
  [80, 24],
  [120, 40],
  [200, 60],
] as const;
const [SMALLEST] = ALL_SIZES;
/** The short form has the smallest size, because most mistakes of a layout show where there is least room. */
const SIZES = inFull(ALL_SIZES, (size) => size === SMALLEST);
const MODES = {
  'no colour': { colors: 'none', ascii: false },
  ascii: { colors: 'none', ascii: true },
  '16 colours': { colors: '16', ascii: false },
  truecolor: { colors: 'truecolor', ascii: false },
} as const satisfies Record<string, Theme>;

interface Shown {
  readonly text: string;
  readonly styles: readonly string[];
}

async function show(scene: Scene, [columns, rows]: readonly [number, number], theme: Theme): Promise<Shown> {
  const terminal = openTerminal({ columns, rows, theme });
  try {
    await enterScene(terminal, scene);
    const text = await terminal.screen();
    expectWhole(text, columns, rows);
    return { text, styles: terminal.styles() };
  } finally {
    terminal.close();
  }
}

/** Checks that no row is wider than the screen and that the panes' borders are complete. */
function expectWhole(screen: string, columns: number, rows: number): void {
  const lines = screen.split('\n');
  expect(lines).toHaveLength(rows);
  expect(lines.filter((line) => cellWidth(line) > columns)).toEqual([]);
  expect(lines[2]).toMatch(/^[╭+].*[╮+]$/);
  expect(lines.slice(2, -2).filter((line) => cellWidth(line) !== columns && /^[│╭╰|+]/.test(line))).toEqual([]);
}

/** Replaces the characters of heat-map cells with spaces, in rows that consist of a label such as "s16" and cells. */
const withoutInk = (screen: string): string =>
  screen.replace(/(?<=│ |  )s\d+ +[^│]*/g, (row) => row.replace(/[ .:\-=+*#%@]+/g, ' '));

const section = (title: string, lines: readonly string[]): string =>
  `== ${title}\n${lines.filter((line) => line !== '').join('\n')}\n`;

describeScenes(VIEW_SCENES, async (scene, size) => {
  const [plain, ascii, sixteen, full] = (await Promise.all(
    Object.values(MODES).map((theme) => show(scene, size, theme)),
  )) as [Shown, Shown, Shown, Shown];
  // Color changes no character except in a heat map, whose cells have a background color instead of characters in
  // 24-bit color.
  expect(sixteen.text).toBe(plain.text);
  expect(withoutInk(full.text)).toBe(withoutInk(plain.text));
  expect(ascii.text).toMatch(/^[\x20-\x7e\n]*$/);
  const asciiRows = ascii.text.split('\n');
  const translated = plain.text.split('\n').map(toAscii);
  return [
    `${plain.text}\n`,
    size === SMALLEST
      ? `== ASCII\n${ascii.text}\n`
      : section(
          'ASCII, rows that are not the ones above character by character',
          asciiRows.flatMap((line, row) =>
            line === translated[row] ? [] : [`${String(row + 1).padStart(3)}  ${line}`],
          ),
        ),
    section('styles without colour', plain.styles),
    section('styles in 16 colours', sixteen.styles),
    section(
      'styles in 24-bit colour, rows that differ from 16 colours',
      full.styles.filter((line, row) => line !== sixteen.styles[row]),
    ),
  ].join('\n');
});

describeScenes(STATE_SCENES, async (scene, size) => `${(await show(scene, size, MODES['no colour'])).text}\n`);

function describeScenes(
  scenes: Record<string, Scene>,
  render: (scene: Scene, size: readonly [number, number]) => Promise<string>,
): void {
  for (const [name, scene] of Object.entries(scenes)) {
    for (const size of SIZES) {
      const place = `${name}-${size.join('x')}`;
      test.concurrent(place, async ({ expect: own }) => {
        await own(await render(scene, size)).toMatchFileSnapshot(`./goldens/${place}.txt`);
      });
    }
  }
}
