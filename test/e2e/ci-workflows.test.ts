/** The workflows of docs/ci.md. The commands of each step run here on the emulator, in a separate folder. */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { Home, ROOT } from '../support/home.ts';

interface Step {
  readonly name?: string;
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Record<string, unknown>;
}
interface Workflow {
  readonly jobs: Record<string, { readonly env: Record<string, string>; readonly steps: readonly Step[] }>;
}

const [emulator, gpu] = [...readFileSync(join(ROOT, 'docs/ci.md'), 'utf8').matchAll(/^```yaml\n([^]*?)^```$/gm)].map(
  ([, text]) => parse(text!) as Workflow,
) as [Workflow, Workflow];

const home = new Home();
afterAll(() => home[Symbol.asyncDispose]());

/** A checkout like the workflows' on GitHub, with a `gh` that records its calls. */
function checkout(name: string, { comments = '' } = {}): { folder: string; env: Record<string, string> } {
  const folder = join(home.path, name);
  mkdirSync(join(folder, 'bin'), { recursive: true });
  for (const each of ['kernels', 'node_modules']) symlinkSync(join(ROOT, each), join(folder, each));
  const gh = `#!/bin/sh\necho "$@" >> ${folder}/gh.log\ncase "$*" in *--paginate*) printf '%s' '${comments}';; esac\n`;
  writeFileSync(join(folder, 'bin/gh'), gh);
  chmodSync(join(folder, 'bin/gh'), 0o755);
  const env = {
    PATH: `${join(folder, 'bin')}${delimiter}${home.env.PATH}`,
    GITHUB_STEP_SUMMARY: join(folder, 'summary.md'),
    GITHUB_ENV: join(folder, 'env'),
    GITHUB_REPOSITORY: 'someone/attention',
    NUMBER: '7',
  };
  return { folder, env };
}

/** Runs a step as GitHub does: bash -e, with the job's variables. */
function runStep(step: Step, jobEnv: Record<string, string>, at: ReturnType<typeof checkout>): string {
  const { status, stdout, stderr } = spawnSync('bash', ['-e', '-o', 'pipefail', '-c', step.run!], {
    cwd: at.folder,
    env: { ...home.env, ...at.env, ...jobEnv },
    encoding: 'utf8',
    timeout: 120_000,
  });
  expect(status, `${step.name}: ${stderr}`).toBe(0);
  return stdout;
}

const stepOf = ({ jobs }: Workflow, job: string, name: string): Step =>
  jobs[job]!.steps.find((step) => step.name === name)!;

test(
  'the emulator’s workflow verifies, writes annotations, SARIF and a summary, and creates or edits its comment',
  { timeout: 180_000 },
  () => {
    const { env } = emulator.jobs['emulator']!;
    const at = checkout('emulator');
    runStep(stepOf(emulator, 'emulator', 'Verify'), env, at);
    runStep(stepOf(emulator, 'emulator', 'Reports'), env, at);
    const read = (file: string): string => readFileSync(join(at.folder, file), 'utf8');
    expect(read('junit.xml')).toContain('classname="verify" name="1x1x64x64"');
    expect(JSON.parse(read('flashcore.sarif'))).toMatchObject({ version: '2.1.0' });
    expect(read('summary.md')).toContain('# Final report');
    expect(read('comment.md')).toMatch(/^<!-- flashcore:emulator -->\n/);
    runStep(stepOf(emulator, 'emulator', 'Comment'), env, at);
    expect(read('gh.log')).toContain('--method POST repos/someone/attention/issues/7/comments -F body=@comment.md');
    const again = checkout('again', { comments: '4711' });
    runStep(stepOf(emulator, 'emulator', 'Comment'), env, again);
    expect(readFileSync(join(again.folder, 'gh.log'), 'utf8')).toContain(
      '--method PATCH repos/someone/attention/issues/comments/4711 -F body=@comment.md',
    );
  },
);

test(
  'the GPU’s workflow runs the experiment and writes its reports where the upload expects them',
  { timeout: 240_000 },
  () => {
    const { env, steps } = gpu.jobs['gpu']!;
    const at = checkout('gpu');
    runStep(stepOf(gpu, 'gpu', 'Judge'), env, at);
    runStep(stepOf(gpu, 'gpu', 'Reports'), env, at);
    const uploaded = steps.find(({ uses }) => uses?.startsWith('actions/upload-artifact'))!.with!['path'] as string;
    expect(uploaded.split('\n').filter((file) => !existsSync(join(at.folder, file)))).toEqual([]);
    expect(JSON.parse(readFileSync(join(at.folder, 'benchmark.json'), 'utf8'))).toEqual([]);
    expect(readFileSync(join(at.folder, 'final.html'), 'utf8')).toContain('simulated: no GPU times');
  },
);

test('every step of a workflow either runs in this file or is an action, the installation or the login', () => {
  const played = new Set(['Verify', 'Reports', 'Comment', 'Judge', 'Reach the runner']);
  const steps = [emulator, gpu].flatMap(({ jobs }) => Object.values(jobs).flatMap((job) => job.steps));
  expect(
    steps.filter(({ uses, run, name }) => uses === undefined && run !== 'npm ci' && !played.has(name ?? '')),
  ).toEqual([]);
});
