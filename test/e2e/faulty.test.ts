/** Every fixture under kernels/faulty gets the right finding. After a fault or a hang a good kernel still passes. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { FindingKind, Outcome, type Finding } from '@flashcore/shared/contract';
import { formatShape, parseManifest } from '@flashcore/shared/kernels';
import { inFull, missing } from '@flashcore/shared/testing';
import { Home, ROOT } from '../support/home.ts';

const FOLDER = join(ROOT, 'kernels/faulty');
const fixtures = readdirSync(FOLDER, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name: id }) => {
    const path = join(FOLDER, id, 'kernel.yaml');
    const { finding, shape, needsPtxEngine } = parseManifest(readFileSync(path, 'utf8'), path).faulty!;
    return { id, finding: FindingKind[finding], shape: formatShape(shape), needsPtxEngine };
  })
  // libs/emulator/tests/probes/faulty_test.cpp tests the kernels that need the PTX engine; running them here would need
  // a second build of the emulator.
  .filter(({ needsPtxEngine }) => !needsPtxEngine);
// These faults are visible only to a GPU or in ncu's counters, so without a GPU they must not be reported.
const NEEDS_GPU = ['BANK_CONFLICTS'];
// Findings that the runner takes from ptxas.
const NEEDS_NVCC = ['REGISTER_SPILLS', 'SMEM_LIMIT', 'MISSING_ENTRY'];

const home = new Home();
afterAll(() => home[Symbol.asyncDispose]());

// The short form has one finding of the compiler, one of the race checker and one of the probes. The runner's
// faulty-kernels.test.ts tests more.
const SHORT = [
  'syntax_error',
  'missing_syncthreads',
  // This kernel is correct on the first two inputs of a case. The probes find its fault even if the run names the
  // shape.
  'fp16_sums',
];

const tried = inFull(
  fixtures.filter(({ finding }) => !NEEDS_GPU.includes(finding)),
  ({ id }) => SHORT.includes(id),
);
const TITLE = '$id gets the finding $finding and exit code 1';

/**
 * Findings of an aborted launch or of a device process that had to be replaced. After such a finding the test runs a
 * good kernel. After other findings the device is undisturbed, because the launch completed or never began.
 * reliability/faulty.test.ts runs a good kernel after some of them.
 */
const DISTURBING = ['OUT_OF_BOUNDS', 'MISALIGNED_ADDRESS', 'INVALID_WARP_MASK', 'DEADLOCK', 'RACE', 'TIMED_OUT'];

test.each(tried.filter(({ finding }) => !NEEDS_NVCC.includes(finding)))(TITLE, isNamed, 120_000);

test.skipIf(missing('nvcc')).each(tried.filter(({ finding }) => NEEDS_NVCC.includes(finding)))(TITLE, isNamed, 120_000);

function isNamed({ id, finding, shape }: (typeof fixtures)[number]): void {
  const { response, exitCode, stderr } = home.runJson([
    'run',
    id,
    '--seeds',
    '2',
    '--shape',
    shape,
    '--max-seconds',
    '0.2',
  ]);
  const findings = response.result!.variants.flatMap((variant) => variant.findings);
  expect(
    findings.map(({ kind }) => FindingKind[kind]),
    stderr,
  ).toContain(finding);
  expect(exitCode).toBe(1);
  findings.filter(({ kind }) => FindingKind[kind] === finding).forEach(expectEvidence);

  if (!DISTURBING.includes(finding)) return;
  const good = home.runJson(['verify', 'fa_v1_baseline', '--seeds', '1', '--shape', '1x1x64x64']);
  expect(Outcome[good.response.job!.outcome]).toBe('PASSED');
}

/** Checks that the finding has the figures that its kind requires. */
function expectEvidence({ kind, location, threads, message, remedy }: Finding): void {
  expect(message).not.toBe('');
  expect(remedy).not.toBe('');
  if (kind === FindingKind.OUT_OF_BOUNDS || kind === FindingKind.MISALIGNED_ADDRESS) {
    expect(location).toMatchObject({
      block: [expect.any(Number), expect.any(Number), expect.any(Number)] as number[],
      thread: [expect.any(Number), expect.any(Number), expect.any(Number)] as number[],
    });
    expect(location!.address).toMatch(/^0x[0-9a-f]+$/);
  }
  if (kind === FindingKind.DEADLOCK || kind === FindingKind.RACE) expect(threads.length).toBeGreaterThanOrEqual(2);
  if (kind === FindingKind.COMPILE_FAILED) expect(location!.line).toBeGreaterThan(0);
}
