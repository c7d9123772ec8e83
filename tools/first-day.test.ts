import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

const ROOT = join(import.meta.dirname, '..');
const FIRST_DAY = join(ROOT, 'tools/first-day');

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'first-day-'));
  onTestFinished(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

test('a dry run on the emulator writes one page, and goes on where it stopped', () => {
  const folder = temporaryFolder();
  const firstDay = (...options: string[]) =>
    spawnSync(FIRST_DAY, ['--out', folder, '--kernels', 'fa_v1_baseline,flashcore_v11', ...options], {
      encoding: 'utf8',
      env: { ...process.env, CUDA_VISIBLE_DEVICES: '' },
    });
  const first = firstDay('--steps', 'host,counters,merge.fa_v1_baseline,merge.flashcore_v11,report');
  expect(first).toMatchObject({ status: 0, stderr: '' });
  expect(first.stdout).toMatch(/^Dry run: .* 5 steps, at most 10 min$/m);
  const page = readFileSync(join(folder, 'README.md'), 'utf8');
  expect(page).toContain('**A dry run: there was no GPU.');
  expect(page).toMatch(/\| host \|.*\| done \|/);
  expect(page).toMatch(/\| counters \|.*\| \*\*not measured\*\* \|.*needs a GPU/);
  expect(page).toMatch(/\| merge\.fa_v1_baseline \|.*\| done \|.*1 of 1 case correct/);
  expect(page).toMatch(/\| merge\.flashcore_v11 \|.*\| \*\*not measured\*\* \|.*sm_90a/);
  expect(page).toMatch(/\| primitives \|.*\| \*\*not run\*\* \|/);
  expect(page).toContain('## Final report');

  // A step that failed before is tried again; one that is done is not.
  const kept = JSON.parse(readFileSync(join(folder, 'steps.json'), 'utf8')) as { steps: { name: string }[] };
  const steps = kept.steps.map((step) =>
    step.name === 'host' ? { ...step, state: 'failed', text: 'its cable was out' } : step,
  );
  writeFileSync(join(folder, 'steps.json'), JSON.stringify({ ...kept, steps }));
  const second = firstDay('--steps', 'host,merge.fa_v1_baseline');
  expect(second).toMatchObject({ status: 0 });
  expect(second.stdout).toContain('1 step, at most 60 s; 1 done before');
});

/** The value of an expression of tools/gpu_host; `input` is its standard input. */
const python = (imports: string, expression: string, input: string): unknown =>
  JSON.parse(
    execFileSync('python3', ['-c', `import json, sys; ${imports}; print(json.dumps(${expression}))`], {
      cwd: join(ROOT, 'tools/gpu_host'),
      input,
      encoding: 'utf8',
      stdio: 'pipe',
    }),
  );
const counters = (call: string, input: string) =>
  python('from day.counters import *', `sorted(${call}(sys.stdin.read()))`, input) as string[];

test.each([
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

test('of what a program said before it failed, the first error is told', () => {
  expect(
    python('from day.day import *', 'telling_line(sys.stdin)', 'In file x:\nx.cpp:3: error: no such type\n   | ^~~\n'),
  ).toBe('x.cpp:3: error: no such type');
  expect(python('from day.day import *', 'telling_line(sys.stdin)', 'one\ntwo\n\n')).toBe('two');
});

test('a counter that ncu does not know or could not read is not among those read', () => {
  const page = readFileSync(join(ROOT, 'apps/runner/src/profile/recorded/sm_90.raw.base.csv'), 'utf8');
  // It was asked for sm__no_such_counter.sum, which that page leaves out; another one has n/a.
  const read = counters('read_in', page.replace(/"3"\s*$/, '"n/a"\n'));
  expect(read).toContain('gpu__time_duration.sum');
  expect(read).toContain('launch__registers_per_thread');
  expect(read).not.toContain('sm__no_such_counter.sum');
  expect(read).not.toContain('smsp__maximum_warps_avg_per_active_cycle');
});

test("the names in ncu's listing are those at the starts of its lines", () => {
  const listing = `Device NVIDIA L4 (AD104)
---------------------------------- --------------- ---------------
Metric Name                        Metric Type     Metric Unit     Metric Description
dram__bytes                        Counter         byte            # of bytes accessed in DRAM; see lts__t_bytes
sm__warps_active                   Counter         warp            cumulative # of warps in flight
`;
  expect(counters('names_in', listing)).toEqual(['dram__bytes', 'sm__warps_active']);
});
