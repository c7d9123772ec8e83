/**
 * Compares the fibre engine, which hosts with only g++ use, with the PTX engine: both give the same verdicts, and their
 * outputs have the same error against the reference. The full run covers every kernel of the ladder that fibres can
 * run.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Verdict } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { inFull, missing } from '@flashcore/shared/testing';
import { ladderSteps } from '@flashcore/tools/ladder-steps';
import { Home } from '../support/home.ts';
import { fewShapesOf } from './builds.ts';

const ENGINES = ['ptx', 'fibres'] as const;
const LIMIT_MS = 300_000;

const steps = inFull(
  (await ladderSteps()).filter(({ emulated }) => emulated === true),
  ({ id }) => id === 'flashcore_v6',
);

describe.skipIf(missing('nvcc') && missing('clang'))('the fibre engine agrees with the PTX engine', () => {
  const home = { ptx: new Home(), fibres: new Home() };
  const address = { ptx: '', fibres: '' };
  beforeAll(async () => {
    for (const engine of ENGINES) {
      const socket = `unix:${join(home[engine].path, 'runner.sock')}`;
      address[engine] = (await home[engine].startDaemonAt(socket, '--emulator-engine', engine)).address;
    }
  });
  afterAll(() => Promise.all(ENGINES.map((engine) => home[engine][Symbol.asyncDispose]())));

  test.each(steps.map((step) => [step.id, step] as const))(
    '%s',
    (id, step) => {
      const few = fewShapesOf(step);
      const shapes = inFull(few, (shape) => shape === few[0]).flatMap((shape) => ['--shape', shape]);
      const by = (engine: (typeof ENGINES)[number]) => {
        const args = ['verify', id, '--seed', 'c0ffee', ...shapes, '--runner', address[engine]];
        const { result } = home[engine].runJson(args, { timeoutMs: LIMIT_MS }).response;
        return {
          engine: result!.provenance!.tools.find(({ name }) => name === 'emulator')?.version,
          cases: result!.variants[0]!.verify!.cases,
        };
      };
      const [ptx, fibres] = [by('ptx'), by('fibres')];
      expect([ptx.engine, fibres.engine]).toEqual(['PTX engine', 'fibre engine']);
      const judged = ({ cases }: typeof ptx) =>
        cases.map(({ shape, verdict, flashAttentionRule }) => [formatShape(shape!), verdict, flashAttentionRule]);
      expect(judged(fibres)).toEqual(judged(ptx));
      expect(ptx.cases.every(({ verdict }) => verdict === Verdict.PASS)).toBe(true);
      for (const [at, { meanAbsError }] of fibres.cases.entries()) {
        const ofPtx = ptx.cases[at]!.meanAbsError;
        // With a single key both errors are 0.
        expect(Math.abs(meanAbsError - ofPtx)).toBeLessThanOrEqual(0.1 * ofPtx);
      }
    },
    LIMIT_MS,
  );
});
