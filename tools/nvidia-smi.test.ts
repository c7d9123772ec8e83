import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parseNvidiaSmi, quantity } from './nvidia-smi.ts';

// Recorded output: nvidia-smi -q of driver 580.159.04 on hosts with one and with two H200 (sm_90). No L4 was available.
const recorded = (folder: string) =>
  parseNvidiaSmi(readFileSync(new URL(`../docs/results/${folder}/nvidia-smi.txt`, import.meta.url), 'utf8'));
const NAMES = [
  'Performance State',
  'Clocks Event Reasons/HW Slowdown/HW Thermal Slowdown',
  'ECC Mode/Current',
  'Max Clocks/SM',
  'GPU Power Readings/Current Power Limit',
  'Module Power Readings/Current Power Limit',
];

test('values by section, also if two sections have the same name in them', () => {
  const [gpu, ...more] = recorded('h200-2026-11-21');
  expect([gpu!.id, more]).toEqual(['00000000:00:06.0', []]);
  expect(NAMES.map((name) => gpu!.values.get(name))).toEqual([
    'P0',
    'Not Active',
    'Enabled',
    '1980 MHz',
    '700.00 W',
    'N/A',
  ]);
});

test('every GPU of a host', () => {
  expect(recorded('h200-x2-2026-11-21').map(({ id, values }) => [id, values.get('Max Clocks/Memory')])).toEqual([
    ['00000000:00:06.0', '3201 MHz'],
    ['00000000:00:07.0', '3201 MHz'],
  ]);
});

test('quantities', () => {
  expect(['1980 MHz', '78.54 W', '-8 C', 'N/A', undefined].map(quantity)).toEqual([
    1980,
    78.54,
    -8,
    undefined,
    undefined,
  ]);
});
