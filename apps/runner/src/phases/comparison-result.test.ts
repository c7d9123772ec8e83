import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ComparisonVerdict } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, onTestFinished, test } from 'vitest';
import type { ComparisonReport, PairedSamples } from '../../worker/messages/measuring.ts';
import { ArtifactStore } from '../store/artifacts.ts';
import { shapeComparison } from './comparison-result.ts';

const BLOCKS = 60;
const RIGHT = { passed: true, detail: 'right', launches: 1 };

interface Series {
  candidateUs: number;
  /** The candidate's time in dropped blocks. */
  droppedUs?: number;
  droppedBlocks?: number;
}

/** Two samples a block, with a jitter that differs between neighbors; the champion takes 20 us. */
function series({ candidateUs, droppedUs = candidateUs, droppedBlocks = 0 }: Series): PairedSamples {
  const of = (us: number, slowUs: number): Float32Array =>
    Float32Array.from({ length: 2 * BLOCKS }, (_, index) => {
      const jitter = 1 + 0.0001 * (index % 7);
      return index < 2 * droppedBlocks ? -slowUs * jitter : us * jitter;
    });
  const mhz = new Float32Array(2 * BLOCKS).fill(1900);
  return {
    championUs: of(20, 20),
    candidateUs: of(candidateUs, droppedUs),
    championMhz: mhz,
    candidateMhz: mhz,
    stopReason: 'CONVERGED',
  };
}

function judged(pairs: Series, checks: Partial<ComparisonReport> = {}): [verdict: string, reason: string] {
  const folder = mkdtempSync(join(tmpdir(), 'fc-compared-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const report: ComparisonReport = {
    mode: 'hot',
    launchesPerSample: 1,
    self: series({ candidateUs: 20 }),
    pairs: series(pairs),
    clockSource: 'clock64 over globaltimer',
    championCheck: RIGHT,
    candidateCheck: RIGHT,
    conditions: {} as ComparisonReport['conditions'],
    ...checks,
  };
  const { verdict, reason } = shapeComparison(new ArtifactStore(folder), {
    report,
    shape: parseShape('1x2x64x64'),
    simulated: false,
  });
  return [ComparisonVerdict[verdict], reason];
}

test('a few dropped blocks do not change the verdict', () => {
  const [verdict, reason] = judged({ candidateUs: 10, droppedUs: 30, droppedBlocks: 10 });
  expect(verdict).toBe('FASTER');
  expect(reason).not.toContain('dropped');
});

test('with many dropped blocks, the verdict holds only if including them gives the same verdict', () => {
  const [verdict, reason] = judged({ candidateUs: 10, droppedBlocks: 24 });
  expect(verdict).toBe('FASTER');
  expect(reason).toContain('48 of 240 samples of each build were dropped, because the device slowed down; with them');
});

test.each<[what: string, droppedUs: number, droppedBlocks: number]>([
  ['a candidate that is faster only in the blocks kept', 40, 31],
  ['a candidate whose speed in the dropped blocks is unknown', Number.NaN, 31],
])('%s is not judged', (_, droppedUs, droppedBlocks) => {
  const [verdict, reason] = judged({ candidateUs: 10, droppedUs, droppedBlocks });
  expect(verdict).toBe('NOT_JUDGED');
  expect(reason).toMatch(/^62 of 240 samples .* and with them the answer is another: /);
});

test('a wrong output is reported rather than dropped samples', () => {
  const [verdict, reason] = judged(
    { candidateUs: 10, droppedBlocks: 31 },
    { candidateCheck: { passed: false, detail: 'at 1x2x64x64', launches: 1 } },
  );
  expect([verdict, reason]).toEqual(['NOT_JUDGED', "the candidate's output was wrong at 1x2x64x64"]);
});
