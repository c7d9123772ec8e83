/**
 * A host with NVRTC and CUDA's headers but without nvcc. `npm run front-ends` compares more results with those of nvcc.
 * Skipped if the machine has no NVRTC, which comes with CUDA's toolkit or with `pip install --no-deps --target
 * node_modules/.cache/nvrtc nvidia-cuda-nvrtc==13.0.88`.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { FindingKind } from '@flashcore/shared/contract';
import { formatShape, parseManifest } from '@flashcore/shared/kernels';
import { nvrtcFolder, withNvrtcOnly } from './builds.ts';
import { Home, ROOT } from '../support/home.ts';

const LIMIT_MS = 600_000;

test(
  "with NVRTC's PTX a fault has its line, and the result has the registers, and the tools in its provenance",
  async ({ skip }) => {
    if (nvrtcFolder() === undefined) return skip('no NVRTC here, or no headers of CUDA: install cuda-toolkit');
    await using home = new Home();
    Object.assign(home.env, withNvrtcOnly(home.path));
    const { address } = await home.startDaemonAt(`unix:${join(home.path, 'runner.sock')}`, '--emulator-engine', 'auto');
    const path = join(ROOT, 'kernels/faulty/out_of_bounds/kernel.yaml');
    const shape = formatShape(parseManifest(readFileSync(path, 'utf8'), path).faulty!.shape);
    const args = ['verify', 'out_of_bounds', '--seeds', '1', '--shape', shape, '--runner', address];
    const { result } = home.runJson(args, { timeoutMs: LIMIT_MS }).response;
    const { build, findings } = result!.variants[0]!;
    expect(findings.find(({ kind }) => kind === FindingKind.OUT_OF_BOUNDS)?.location).toMatchObject({
      file: 'out_of_bounds.cu',
      line: 10,
    });
    expect(build!.runs.map(({ compiler }) => compiler)).toEqual(['nvrtc']);
    expect(build!.entries[0]!.registersPerThread).toBeGreaterThan(0);
    expect(result!.provenance!.tools.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['nvrtc', 'emulator', 'CUDA headers']),
    );
  },
  LIMIT_MS,
);
