/**
 * A host without a CUDA toolkit: clang makes the emulator's PTX with the project's own headers. The full run covers
 * every kernel of the ladder and the findings of faulty kernels. `npm run front-ends` compares all these results with
 * those of nvcc.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FindingKind, Outcome, type GetJobResponse } from '@flashcore/shared/contract';
import { formatShape, parseManifest } from '@flashcore/shared/kernels';
import { inFull, missing } from '@flashcore/shared/testing';
import { ladderSteps } from '@flashcore/tools/ladder-steps';
import { withoutToolkit, coveringBuilds, fewShapesOf, variantArguments } from './builds.ts';
import { Home, ROOT } from '../support/home.ts';

const SHORT = 'flashcore_v6';
const LIMIT_MS = 600_000;
// Each fault is found at the same line as with nvcc. None of these findings needs ptxas.
const FAULTY = ['out_of_bounds', 'missing_syncthreads', 'static_smem_69kb', 'missing_entry', 'syntax_error'];

const builds = inFull(await ladderSteps(), ({ id }) => id === SHORT).flatMap((step) =>
  inFull(coveringBuilds(step), ({ parameters }) => Object.keys(parameters).length === 0).map((build) => ({
    title: `${step.id} ${variantArguments(build).join(' ')}`.trim(),
    step,
    build,
  })),
);

describe.skipIf(missing('clang'))('PTX that clang makes without a CUDA toolkit', () => {
  const home = new Home(withoutToolkit());
  let address = '';
  beforeAll(async () => {
    ({ address } = await home.startDaemonAt(`unix:${join(home.path, 'runner.sock')}`, '--emulator-engine', 'auto'));
  });
  afterAll(() => home[Symbol.asyncDispose]());
  const ask = (args: string[]): GetJobResponse =>
    home.runJson([...args, '--runner', address], { timeoutMs: LIMIT_MS }).response;

  test.each(builds)(
    '$title is correct',
    ({ step, build }) => {
      const shapes = inFull(fewShapesOf(step), (shape) => shape === fewShapesOf(step)[0]);
      const cases = shapes.flatMap((shape) => ['--shape', shape]);
      const { job, result } = ask(['verify', step.id, ...variantArguments(build), '--seeds', '1', ...cases]);
      expect(Outcome[job!.outcome]).toBe('PASSED');
      expect(result!.variants[0]!.build!.runs.map(({ compiler }) => compiler)).toEqual(['clang++']);
      expect(result!.provenance!.tools.map(({ name }) => name)).toEqual(
        expect.arrayContaining(['clang++', 'emulator', 'device headers']),
      );
      // Long enough for the first test, which also compiles the emulator.
    },
    LIMIT_MS,
  );

  test.each(inFull(FAULTY, (id) => id === 'out_of_bounds'))(
    '%s is found',
    (id) => {
      const path = join(ROOT, 'kernels/faulty', id, 'kernel.yaml');
      const { finding, shape } = parseManifest(readFileSync(path, 'utf8'), path).faulty!;
      const { result } = ask(['verify', id, '--seeds', '1', '--shape', formatShape(shape)]);
      const found = result!.variants[0]!.findings.find(({ kind }) => kind === finding);
      expect(FindingKind[found?.kind ?? 0]).toBe(FindingKind[finding]);
      if (id === 'out_of_bounds') expect(found!.location).toMatchObject({ file: 'out_of_bounds.cu', line: 10 });
    },
    LIMIT_MS,
  );
});
