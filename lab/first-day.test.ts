import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { missing } from '@flashcore/shared/testing';
import { expect, onTestFinished, test } from 'vitest';

const pythonTest = test.skipIf(missing('python3'));

const ROOT = join(import.meta.dirname, '..');
const FIRST_DAY = join(ROOT, 'lab/first-day');

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'first-day-'));
  onTestFinished(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

// This starts a runner, the emulator and a build, which takes seconds, and on a busy machine many seconds.
pythonTest(
  'a dry run on the emulator lists the steps that need a GPU, and writes one page',
  { timeout: 180_000 },
  () => {
    const folder = temporaryFolder();
    const steps = 'host,counters,merge.fa_v1_baseline,merge.flashcore_v11,report';
    const options = ['--out', folder, '--kernels', 'fa_v1_baseline,flashcore_v11', '--steps', steps];
    const environment = { ...process.env, CUDA_VISIBLE_DEVICES: '' };
    const { status, stdout, stderr } = spawnSync(FIRST_DAY, options, { encoding: 'utf8', env: environment });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toMatch(/^Dry run: .* 5 steps, at most 10 min$/m);
    const page = readFileSync(join(folder, 'README.md'), 'utf8');
    expect(page).toContain('**A dry run: there was no GPU.');
    expect(page).toMatch(/\| host \|.*\| done \|/);
    expect(page).toMatch(/\| counters \|.*\| \*\*not measured\*\* \|.*needs a GPU/);
    expect(page).toMatch(/\| merge\.fa_v1_baseline \|.*\| done \|.*1 of 1 case and \d+ of \d+ probes correct/);
    expect(page).toMatch(/\| merge\.flashcore_v11 \|.*\| \*\*not measured\*\* \|.*sm_90a/);
    expect(page).toMatch(/\| primitives \|.*\| \*\*not run\*\* \|/);
    expect(page).toContain('## Final report');
  },
);

/** Evaluates an expression of lab/gpu_host in Python. `input` is Python's standard input. */
const python = (imports: string, expression: string, input: string): unknown =>
  JSON.parse(
    execFileSync('python3', ['-c', `import json, sys; ${imports}; print(json.dumps(${expression}))`], {
      cwd: join(ROOT, 'lab/gpu_host'),
      input,
      encoding: 'utf8',
      stdio: 'pipe',
    }),
  );
const counters = (call: string, input: string) =>
  python('from day.counters import *', `sorted(${call}(sys.stdin.read()))`, input) as string[];

pythonTest('a resumed run skips steps that are done, and runs steps that failed, were not measured or are new', () => {
  const path = join(temporaryFolder(), 'steps.json');
  const steps = ['done', 'failed', 'not measured'].map((state) => ({ name: state, state }));
  writeFileSync(path, JSON.stringify({ identity: { device: 'NVIDIA L4' }, steps }));
  const taken = 'Record(pathlib.Path(sys.stdin.read()), {"device": "NVIDIA L4"})';
  const done = `(lambda record: [record.is_done(name) for name in ["done", "failed", "not measured", "new"]])(${taken})`;
  expect(python('import pathlib; from day.record import Record', done, path)).toEqual([true, false, false, false]);
});

pythonTest.each([
  [
    'of another device',
    '{"identity": {"device": "NVIDIA L4"}, "steps": []}',
    /has results of device NVIDIA L4, and here/,
  ],
  ['broken', '{"identity"', /steps.json there can't be read .*: give a new folder/],
])('a folder whose record is %s is refused', (_, kept, told) => {
  const folder = temporaryFolder();
  const path = join(folder, 'steps.json');
  writeFileSync(path, kept);
  expect(() =>
    python(
      'import pathlib; from day.record import Record',
      'Record(pathlib.Path(sys.stdin.read()), {"device": "NVIDIA H200"}).steps',
      path,
    ),
  ).toThrow(told);
});

pythonTest('a failed program is reported with the first error that it printed', () => {
  expect(
    python('from day import *', 'telling_line(sys.stdin)', 'In file x:\nx.cpp:3: error: no such type\n   | ^~~\n'),
  ).toBe('x.cpp:3: error: no such type');
  expect(python('from day import *', 'telling_line(sys.stdin)', 'one\ntwo\n\n')).toBe('two');
});

pythonTest('the list of counters leaves out those that ncu does not know or could not read', () => {
  const page = readFileSync(join(ROOT, 'apps/runner/src/profile/recorded/sm_90.raw.base.csv'), 'utf8');
  // The page lacks the requested name sm__no_such_counter.sum, and one counter has n/a.
  const read = counters('read_in', page.replace(/"3"\s*$/, '"n/a"\n'));
  expect(read).toContain('gpu__time_duration.sum');
  expect(read).toContain('launch__registers_per_thread');
  expect(read).not.toContain('sm__no_such_counter.sum');
  expect(read).not.toContain('smsp__maximum_warps_avg_per_active_cycle');
});

pythonTest("the names of counters are read from the starts of the lines of ncu's listing", () => {
  const listing = `Device NVIDIA L4 (AD104)
---------------------------------- --------------- ---------------
Metric Name                        Metric Type     Metric Unit     Metric Description
dram__bytes                        Counter         byte            # of bytes accessed in DRAM; see lts__t_bytes
sm__warps_active                   Counter         warp            cumulative # of warps in flight
`;
  expect(counters('names_in', listing)).toEqual(['dram__bytes', 'sm__warps_active']);
});
