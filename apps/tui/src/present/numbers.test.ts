import { expect, test } from 'vitest';
import {
  counted,
  formatBytes,
  formatChange,
  formatElapsed,
  formatError,
  formatInUnit,
  formatInterval,
  formatMicroseconds,
  formatNumber,
  formatPair,
  formatPercent,
  formatSeconds,
  formatSpeedup,
} from './numbers.ts';

test('measured times have four digits, in the most readable unit or in the unit of their neighbor', () => {
  expect([
    formatMicroseconds(5.817),
    formatMicroseconds(38.04),
    formatMicroseconds(2122),
    formatMicroseconds(81_250),
    formatMicroseconds(2.5e6),
    formatMicroseconds(998, 1020),
    formatMicroseconds(1020, 998),
    formatMicroseconds(12_270.4, 5),
    formatMicroseconds(Number.NaN),
  ]).toEqual(['5.817 us', '38.04 us', '2.122 ms', '81.25 ms', '2.500 s', '0.9980 ms', '1020 us', '12270 us', '-']);
});

test('errors and shares have three digits, figures have four, and whole numbers keep all digits', () => {
  expect([
    formatError(4.884e-4),
    formatError(11.42),
    formatError(9172.6),
    formatError(0),
    formatError(Number.NaN),
    formatPercent(100 / 3),
    formatPercent(4.704),
    formatPercent(100),
    formatNumber(0.8571),
    formatNumber(1.23456),
    formatNumber(1.2345e-5),
    formatNumber(98_304),
    formatNumber(1_234_567.8),
  ]).toEqual([
    '4.88e-4',
    '11.4',
    '9.17e3',
    '0',
    'NaN',
    '33.3 %',
    '4.7 %',
    '100 %',
    '0.8571',
    '1.235',
    '1.23e-5',
    '98,304',
    '1,234,568',
  ]);
});

test('a duration has milliseconds, three digits of seconds, minutes and seconds, or hours and minutes', () => {
  expect([-0.153, 0, 0.012, 0.5, 0.9996, 1.424, 34.24, 59.96, 185, 3723].map(formatSeconds)).toEqual([
    '0 ms',
    '0 ms',
    '12 ms',
    '500 ms',
    '1.00 s',
    '1.42 s',
    '34.2 s',
    '1 min 00 s',
    '3 min 05 s',
    '1 h 02 min',
  ]);
});

test('ratios have four decimals, as in the runner’s reasons; speedups have four digits, changes three', () => {
  expect([
    formatInterval({ ratio: 1.0712, low: 1.06879, high: 1.0735 }),
    formatSpeedup(2.03456),
    formatChange(-0.0349),
    formatChange(0.2),
  ]).toEqual(['1.0712 [1.0688, 1.0735]', '2.035 x', '-3.49 %', '+20 %']);
});

test('bytes use powers of 1024, each unit has its own number of digits, and a noun agrees with its number', () => {
  expect([
    formatBytes(49_152),
    formatBytes(24 * 2 ** 30),
    formatInUnit(-512, 'bytes'),
    formatInUnit(0.8571, 'share'),
    formatInUnit(1, 'registers'),
    formatInUnit(25, 'us'),
    counted(1, 'case'),
    counted(12_302, 'line'),
    counted(2, 'process'),
    formatElapsed(41),
    formatElapsed(3723),
    ...formatPair(-4.07031, -4.07231),
  ]).toEqual([
    '48 KiB',
    '24 GiB',
    '-512 B',
    '85.7 %',
    '1 register',
    '25.00 us',
    '1 case',
    '12,302 lines',
    '2 processes',
    '41 s',
    '1 h 02 min',
    '-4.0703',
    '-4.0723',
  ]);
});

test('a duration has one rounding, whether it is shown in whole seconds or not', () => {
  const both = (seconds: number): string[] => [formatSeconds(seconds), formatElapsed(seconds)];
  expect([both(87.6), both(59.96), both(41.6)]).toEqual([
    ['1 min 28 s', '1 min 28 s'],
    ['1 min 00 s', '1 min 00 s'],
    ['41.6 s', '42 s'],
  ]);
});
