/** `fa-tui evaluate`, and the adapters in examples/, each called in the way its framework calls it. */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { missing } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Home, ROOT } from '../support/home.ts';
import { rightSource } from '../support/small-kernel.ts';

const pythonTest = test.skipIf(missing('python3'));

const FRAMEWORKS = join(ROOT, 'test/fixtures/frameworks');
const RACE = join(ROOT, 'kernels/faulty/missing_syncthreads/missing_syncthreads.cu');
const QUICK = ['--shape', '1x1x64x64', '--seeds', '1', '--samples', '10', '--max-seconds', '0.5', '--json'];

interface Evaluation {
  correct: boolean;
  stage: string;
  combined_score: number;
  metrics: Record<string, unknown>;
  text_feedback: string;
  artifacts: Record<string, string>;
  experiment: string;
  provenance: Record<string, unknown>;
}

let home: Home;
let right: string;
beforeAll(() => {
  home = new Home();
  right = join(home.path, 'right.cu');
  writeFileSync(right, rightSource());
});
afterAll(() => home[Symbol.asyncDispose]());

function evaluate(
  candidate: string,
  ...args: string[]
): { exitCode: number | null; stderr: string; found: Evaluation } {
  const done = home.faTui(['evaluate', candidate, '--base', 'missing_syncthreads', ...QUICK, ...args]);
  return { ...done, found: (done.stdout === '' ? {} : JSON.parse(done.stdout)) as Evaluation };
}

test("a wrong candidate gets exit code 0, its fault with the line, and a score below every correct candidate's", () => {
  const { exitCode, found } = evaluate(RACE);
  expect([exitCode, found.correct, found.stage]).toEqual([0, false, 'verify']);
  expect(found.text_feedback).toMatch(/^RACE: .*missing_syncthreads\.cu:11[^]*remedy: Put a __syncthreads\(\)/);
  expect(Buffer.byteLength(found.text_feedback)).toBeLessThanOrEqual(4096);
  expect(found.combined_score).toBeLessThan(0.4);
});

test(
  'a correct candidate scores 1 on the emulator, says that nothing was timed, and is not run again',
  { timeout: 180_000 },
  () => {
    const { exitCode, found } = evaluate(right);
    expect([exitCode, found.correct, found.combined_score]).toEqual([0, true, 1]);
    expect(found.text_feedback).toMatch(/Not timed: the emulator gives no GPU times/);
    expect(Object.keys(found.metrics)).not.toContain('median_us');
    expect(Object.values(found.metrics).every((value) => Number.isFinite(value))).toBe(true);
    expect(found.provenance).toMatchObject({ simulated: true, protocol: expect.stringMatching(/flashcore/) as string });
    expect(evaluate(right).found).toEqual(found);
    const again = evaluate(right, '--repeat').found;
    expect([again.correct, again.experiment === found.experiment]).toEqual([true, false]);
  },
);

test('evaluate also judges a candidate that does not compile and a folder with a wrong manifest', () => {
  const broken = join(home.path, 'broken.cu');
  writeFileSync(broken, 'this is no CUDA');
  const compiled = evaluate(broken);
  expect([compiled.exitCode, compiled.found.stage, compiled.found.combined_score]).toEqual([0, 'build', 0]);
  expect(compiled.found.text_feedback).toMatch(/missing_syncthreads\.cu:1/);
  const folder = join(home.path, 'folder');
  cpSync(join(ROOT, 'kernels/faulty/missing_syncthreads'), folder, { recursive: true });
  writeFileSync(join(folder, 'kernel.yaml'), 'id: 7\n');
  const refused = evaluate(folder);
  expect([refused.exitCode, refused.found.stage, refused.found.experiment]).toEqual([0, 'source', '']);
  expect(refused.found.text_feedback).toMatch(/kernel\.yaml/);
});

test('evaluate exits with 3 and prints nothing to stdout if it cannot judge, and with 2 on a usage error', () => {
  const away = home.faTui(['evaluate', right, '--base', 'fa_v1_baseline', '--runner', '127.0.0.1:1', ...QUICK]);
  expect([away.exitCode, away.stdout]).toEqual([3, '']);
  const late = evaluate(right, '--timeout', '0.2', '--repeat');
  expect([late.exitCode, late.stderr]).toEqual([3, expect.stringMatching(/no result within 0\.2 s/) as string]);
  expect(home.faTui(['evaluate', right, '--json']).stderr).toMatch(/is a file: --base KERNEL must name/);
  expect(home.faTui(['evaluate', join(home.path, 'none.cu'), '--base', 'fa_v1_baseline']).exitCode).toBe(2);
});

const environment = (): NodeJS.ProcessEnv => ({
  ...home.env,
  PYTHONPATH: FRAMEWORKS,
  PYTHONDONTWRITEBYTECODE: '1',
  FLASHCORE_BASE: 'missing_syncthreads',
  FLASHCORE_SHAPES: '1x1x64x64',
  FLASHCORE_EVALUATIONS: '1',
});

pythonTest(
  'examples/openevolve gives metrics and artifacts, and raises an exception only if nothing could be judged',
  () => {
    const call = (env: Record<string, string>) =>
      JSON.parse(
        execFileSync(
          'python3',
          [join(FRAMEWORKS, 'openevolve_call.py'), join(ROOT, 'examples/openevolve/evaluator.py'), RACE],
          {
            env: { ...environment(), ...env },
            encoding: 'utf8',
          },
        ),
      ) as Record<string, Record<string, unknown>>;
    const result = call({});
    expect(result['metrics']!['combined_score']).toBeLessThan(0.4);
    expect(result['artifacts']!['feedback']).toMatch(/RACE/);
    expect(call({ FLASHCORE_RUNNER: '127.0.0.1:1' })['raised']).toMatch(/127\.0\.0\.1:1/);
  },
);

pythonTest('examples/shinkaevolve writes metrics.json and correct.json, and neither if nothing could be judged', () => {
  const run = (results: string, env: Record<string, string>) =>
    spawnSync(
      'python3',
      [
        join(ROOT, 'examples/shinkaevolve/evaluate.py'),
        '--program_path',
        RACE,
        '--results_dir',
        results,
        '--base',
        'missing_syncthreads',
      ],
      { env: { ...environment(), ...env }, encoding: 'utf8' },
    );
  const results = join(home.path, 'results');
  expect(run(results, {}).status).toBe(0);
  const read = (name: string) => JSON.parse(readFileSync(join(results, name), 'utf8')) as Record<string, unknown>;
  expect(read('correct.json')).toEqual({ correct: false, error: expect.stringMatching(/RACE/) as string });
  expect(read('metrics.json')).toMatchObject({
    combined_score: expect.any(Number) as number,
    public: {},
    private: {},
  });
  const none = join(home.path, 'none');
  expect(run(none, { FLASHCORE_RUNNER: '127.0.0.1:1' }).status).not.toBe(0);
  expect(existsSync(none)).toBe(false);
});

pythonTest('examples/gepa gives a score and the feedback that a model may see', () => {
  const printed = execFileSync('python3', [join(ROOT, 'examples/gepa/optimize.py'), RACE], {
    env: environment(),
    encoding: 'utf8',
  });
  const { calls } = JSON.parse(printed) as { calls: [number, Record<string, unknown>][] };
  expect(calls).toHaveLength(1);
  expect(calls[0]![0]).toBeLessThan(0.4);
  expect(calls[0]![1]['feedback']).toMatch(/RACE/);
});
