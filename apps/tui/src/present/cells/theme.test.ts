import { expect, test } from 'vitest';
import { ROLES } from '../roles.ts';
import { paletteOf, themeOf } from './theme.ts';

const CUBE = [0, 95, 135, 175, 215, 255];

/** Relative luminance of a color of the 6 x 6 x 6 cube, as WCAG 2 defines it. */
function luminance(index: number): number {
  const [red = 0, green = 0, blue = 0] = [36, 6, 1]
    .map((unit) => (CUBE[Math.floor((index - 16) / unit) % 6] ?? 0) / 255)
    .map((channel) => (channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

test('every color of a light terminal has a contrast of at least 4.5 on white', () => {
  const palette = paletteOf({ colors: '256', ascii: false, light: true });
  const codes = ROLES.flatMap((role) => palette[role].map(([on]) => String(on)));
  const indices = codes.flatMap((on) => (on.startsWith('38;5;') ? [Number(on.slice('38;5;'.length))] : []));
  expect(indices.length).toBeGreaterThan(5);
  expect(indices.filter((index) => 1.05 / (luminance(index) + 0.05) < 4.5)).toEqual([]);
  // A light terminal gets none of the sixteen colors here, because the terminal decides how they look.
  expect(codes.filter((on) => /^(3[0-7]|9[0-7])$/.test(on))).toEqual([]);
});

test('a light terminal with 16 colors gets neither yellow nor cyan', () => {
  const palette = paletteOf({ colors: '16', ascii: false, light: true });
  const codes = ROLES.flatMap((role) => palette[role].map(([on]) => Number(on)));
  expect(codes.filter((on) => [33, 36, 37, 93, 96, 97].includes(on))).toEqual([]);
});

test('the setting `background` chooses the palette of a light terminal', () => {
  const environment = { TERM: 'xterm-256color' };
  expect(themeOf(environment, { background: 'light' })).toEqual({ colors: '256', ascii: false, light: true });
  expect(themeOf(environment, { background: 'auto' })).toEqual({ colors: '256', ascii: false });
});
