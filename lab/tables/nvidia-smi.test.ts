import { readFileSync } from 'node:fs';
import { measuredFolder } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { parseNvidiaSmi, quantity } from './host-tables.ts';

// Recorded output of nvidia-smi -q, with driver 580.159.04 on hosts with one and with two H200 (sm_90).
const recorded = (folder: string) => parseNvidiaSmi(readFileSync(`${measuredFolder(folder)}/nvidia-smi.txt`, 'utf8'));
const NAMES = [
  'Performance State',
  'Clocks Event Reasons/HW Slowdown/HW Thermal Slowdown',
  'ECC Mode/Current',
  'Max Clocks/SM',
  'GPU Power Readings/Current Power Limit',
  'Module Power Readings/Current Power Limit',
];

test('reads values by section, even if two sections have a value of the same name', () => {
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

test('reads every GPU of a host', () => {
  expect(recorded('h200-x2-2026-11-21').map(({ id, values }) => [id, values.get('Max Clocks/Memory')])).toEqual([
    ['00000000:00:06.0', '3201 MHz'],
    ['00000000:00:07.0', '3201 MHz'],
  ]);
});

test('parses quantities with units, and gives undefined for N/A', () => {
  expect(['1980 MHz', '78.54 W', '-8 C', 'N/A', undefined].map(quantity)).toEqual([
    1980,
    78.54,
    -8,
    undefined,
    undefined,
  ]);
});
