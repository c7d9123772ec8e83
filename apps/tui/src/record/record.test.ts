import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { create } from '@bufbuild/protobuf';
import { Verdict, GateResultSchema, VariantResultSchema } from '@flashcore/shared/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runProgram } from '../commands/program.ts';
import { SAMPLE_JOB, sampleEvents } from '../testing/sample-job.ts';
import { junitOf } from './junit.ts';
import { readRecording, recordTo } from './recording.ts';
import { replayRunner } from './replay-runner.ts';

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = [];
  for await (const item of items) list.push(item);
  return list;
}

let folder: string;
beforeAll(() => void (folder = mkdtempSync(path.join(tmpdir(), 'fa-record-'))));
afterAll(() => rmSync(folder, { recursive: true }));
const file = (name: string): string => path.join(folder, name);

function record(name: string): string {
  const recorder = recordTo(file(name));
  for (const event of sampleEvents()) recorder.write(event);
  recorder.close();
  return file(name);
}

test('reading a recording returns the recorded events', () => {
  expect(readRecording(record('same'))).toEqual(sampleEvents());
});

test('an error about a truncated line names the line', () => {
  const cut = record('cut');
  writeFileSync(cut, readFileSync(cut, 'utf8').slice(0, -20));
  expect(() => readRecording(cut)).toThrow(new RegExp(`line ${sampleEvents().length}: `));
});

test('a replay keeps the intervals between events, divided by the speed', async () => {
  const events = sampleEvents().slice(0, 6);
  const startedAt = performance.now();
  const told = await all(replayRunner(events, { speed: 5 }).watch(SAMPLE_JOB));
  expect(told).toEqual(events);
  // The six events are 200 ms apart, so the recording lasts a second.
  expect(performance.now() - startedAt).toBeGreaterThan(190);
  expect(await all(replayRunner(events, { speed: 5 }).watch(SAMPLE_JOB, { afterSequence: 5 }))).toEqual(
    events.slice(5),
  );
});

test("fa-tui replay needs no runner, prints the report, writes the JUnit file, and has the job's exit code", async () => {
  const text = { stdout: '', stderr: '' };
  const stream = (name: 'stdout' | 'stderr') => ({
    isTTY: false,
    write: (piece: string) => void (text[name] += piece),
  });
  const code = await runProgram(
    ['replay', record('report'), '--speed', '0', '--junit', file('out.xml'), '--record', file('again')],
    { stdin: {}, stdout: stream('stdout'), stderr: stream('stderr'), environment: { FLASHCORE_HOME: file('unused') } },
  );
  expect(code).toBe(1);
  expect(text.stdout).toMatch(/WRONG RESULT/);
  expect(readFileSync(file('again'), 'utf8')).toBe(readFileSync(file('report'), 'utf8'));
  expect(readFileSync(file('out.xml'), 'utf8')).toMatch(
    /<testcase classname="verify" name="2x8x512x64c"[^>]*><failure message="1,204 elements/,
  );
});

test("a recording without the job's first events is shown from its first event", async () => {
  const cut = record('late');
  writeFileSync(cut, `${readFileSync(cut, 'utf8').trim().split('\n').slice(20).join('\n')}\n`);
  const text = { stdout: '', stderr: '' };
  const stream = (name: 'stdout' | 'stderr') => ({
    isTTY: false,
    write: (piece: string) => void (text[name] += piece),
  });
  expect(
    await runProgram(['replay', cut, '--speed', '0'], {
      stdin: {},
      stdout: stream('stdout'),
      stderr: stream('stderr'),
      environment: { FLASHCORE_HOME: file('unused') },
    }),
  ).toBe(1);
  expect(text.stderr).toMatch(
    /events before number 21 are no longer kept: shown from there[^]*gate Parity cases within tolerance: FAIL/,
  );
  expect(text.stdout).toMatch(/WRONG RESULT/);
});

test('in JUnit a failed hard gate is a failure, a warning is not, an unmeasured gate is skipped, and text is escaped', () => {
  const gate = (gateId: string, verdict: Verdict, level: string, value?: number) =>
    create(GateResultSchema, {
      gateId,
      title: 'a "<gate>" & more',
      verdict,
      level,
      comparison: '<=',
      target: 1,
      unit: 'B',
      detail: 'why\u0007',
      ...(value !== undefined && { value }),
    });
  const variant = create(VariantResultSchema, {
    gates: [
      gate('hard', Verdict.FAIL, 'hard', 2),
      gate('warn', Verdict.FAIL, 'warn', 2),
      gate('none', Verdict.NOT_MEASURED, 'hard'),
      gate('off', Verdict.FAIL, 'off', 2),
      { ...gate('counted', Verdict.PASS, 'hard', 1), modelled: true },
    ],
  });
  expect(junitOf('k', { variants: [variant] })).toMatchInlineSnapshot(`
    "<?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="k">
      <testsuite name="k" tests="4" failures="1" errors="0" skipped="1">
        <testcase classname="gates" name="hard: a &quot;&lt;gate&gt;&quot; &amp; more"><failure message="2 B, wanted &lt;= 1 B; why">2 B, wanted &lt;= 1 B; why</failure><system-out>2 B, wanted &lt;= 1 B; why</system-out></testcase>
        <testcase classname="gates" name="warn: a &quot;&lt;gate&gt;&quot; &amp; more"><system-out>warning: 2 B, wanted &lt;= 1 B; why</system-out></testcase>
        <testcase classname="gates" name="none: a &quot;&lt;gate&gt;&quot; &amp; more"><skipped message="why"/><system-out>not measured, wanted &lt;= 1 B; why</system-out></testcase>
        <testcase classname="gates" name="counted: a &quot;&lt;gate&gt;&quot; &amp; more"><system-out>1 B (modelled), wanted &lt;= 1 B; why</system-out></testcase>
      </testsuite>
    </testsuites>
    "
  `);
});
