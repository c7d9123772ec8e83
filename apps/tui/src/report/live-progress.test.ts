import { create } from '@bufbuild/protobuf';
import { JobEventSchema, Phase, Verdict, type JobEvent } from '@flashcore/shared';
import { expect, test } from 'vitest';
import { PLAIN } from './fixtures.ts';
import { LiveProgress } from './live-progress.ts';


const shape = { batch: 1, heads: 8, sequenceLength: 512, headDim: 64 };

function recorder(isTTY: boolean) {
  const written: string[] = [];
  return { written, stream: { isTTY, write: (text: string) => void written.push(text) } };
}

const EVENTS: JobEvent[] = [
  create(JobEventSchema, { payload: { case: 'created', value: { job: { name: 'jobs/1' } } } }),
  create(JobEventSchema, { payload: { case: 'phaseStarted', value: { phase: Phase.BUILD, variant: 'USE_WMMA=1' } } }),
  create(JobEventSchema, { payload: { case: 'logLine', value: { source: 'nvcc', text: 'ptxas info \u001b[31m: 40 registers' } } }),
  create(JobEventSchema, { payload: { case: 'verifyProgress', value: { caseIndex: 0, caseCount: 7, seedIndex: 1, seedCount: 5, shape } } }),
  create(JobEventSchema, { payload: { case: 'caseResult', value: { shape, verdict: Verdict.PASS, maxAbsError: 4.88e-4, meanAbsError: 1.31e-5, elements: 1n } } }),
];

test('in a log progress is lines, without escape sequences of the compiler', () => {
  const { written, stream } = recorder(false);
  const progress = new LiveProgress(stream, PLAIN);
  EVENTS.forEach((each) => progress.show(each));
  progress.stop();
  expect(written.join('')).toBe(['jobs/1', 'build  USE_WMMA=1', '  nvcc: ptxas info [31m: 40 registers', '  1x8x512x64  pass  max 4.88e-4  mean 1.31e-5', ''].join('\n'));
});

test('in a terminal the status line is redrawn below the lines and gone at the end', () => {
  const { written, stream } = recorder(true);
  const progress = new LiveProgress(stream, PLAIN);
  EVENTS.forEach((each) => progress.show(each));
  progress.line('a line');
  progress.stop();
  const text = written.join('');
  expect(text).toContain('verify case 1/7 1x8x512x64 seed 2/5');
  expect(written.at(-1)).toBe('\r\u001b[2K');
  expect(written.filter((piece) => piece.endsWith('\n')).every((piece) => !piece.startsWith('\r'))).toBe(true);
});

test('unknown events are passed over', () => {
  const { written, stream } = recorder(false);
  new LiveProgress(stream, PLAIN).show(create(JobEventSchema));
  expect(written).toEqual([]);
});
