import { expect, test } from 'vitest';
import { fakeRunner } from '../../testing/fake-runner.ts';
import { plainLines } from '../plain/plain-painter.ts';
import { hostBlocks } from './host.ts';

test('fa-tui host lists plans with measurements and gates, case sets with shapes, and tolerances', async () => {
  const response = await fakeRunner().getHost();
  const lines = plainLines(hostBlocks(response.host!, response), { width: 80, colors: false, ascii: false });
  const from = lines.findIndex((line) => line.startsWith('Plans'));
  expect(lines.slice(from, lines.indexOf('Tools')).filter((line) => line !== '')).toEqual([
    'Plans  fa-tui run --plan NAME',
    '  plan             cases   times      modes     counters  champion  accepts',
    '  merge (default)  parity  canonical  cold hot  gates     compared  yes',
    '    May be merged: compiles without spills, parity, not slower than the',
    '    champion, documented; hard gates: spills, correctness; 1 other only warns',
    '  explore          parity  canonical  hot       none      -         -',
    '    Is it right: correctness only; the rest is shown; hard gate: correctness',
    'Case sets  --cases NAME, --shapes NAME',
    '  parity     1x4x128x64 1x4x128x64c',
    '  canonical  2x8x512x64',
    'Tolerances  --tolerance NAME, as they are for fp16',
    '  parity     |out - ref| <= 0.01 + 0.01 |ref|',
    '  strict     |out - ref| <= 0.001 + 0.001 |ref|',
  ]);
});
