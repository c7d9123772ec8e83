/** Tests that one screen shows all data of a run, at every moment and every size. */
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { DeviceReadingSchema, FindingKind, Outcome, Phase, Verdict, type JobEvent } from '@flashcore/shared/contract';
import { describe, expect, test } from 'vitest';
import { DASHBOARD_MOMENTS } from '../testing/dashboard-job.ts';
import { decidedEvents } from '../testing/measured-job.ts';
import { eventsOf, sampleEvents } from '../testing/sample-job.ts';
import { enterScene } from '../testing/scenes.ts';
import { openTerminal } from '../testing/terminal.tsx';

type Moment = keyof typeof DASHBOARD_MOMENTS;

/** Patterns for each moment: correctness, latency or finding, gates, build or log. */
const SHOWN: Record<Moment, readonly RegExp[]> = {
  building: [/Cases run after the build/, /Samples are taken after/, /●4 ○3/, /nvcc -cubin/],
  verifying: [
    /4\/7 cases within|4\/7 cases|1x4x128x64 +● seed/,
    /Samples are taken after/,
    /✓3 ⚠1 ●1 ○2/,
    /seed 3|1x4x128x64 +● seed/,
    /1x8x512x64: pass/,
  ],
  benchmarking: [/7\/7 cases/, /39\/~56/, /✓4 ⚠1 ●1 –1/, /p50 +12\.27|12\.27 ms/],
  finding: [
    /4\/7 cases within|4\/7 cases|4 of 7 cases/,
    /10 │ {3}K_smem\[threadIdx\.x\]/,
    /✓3 ⚠1/,
    /Put a __syncthreads\(\)/,
  ],
};

async function screenAt(moment: Moment, columns: number, rows: number, view = '1'): Promise<string> {
  const terminal = openTerminal({ columns, rows, theme: { colors: 'none', ascii: false } });
  try {
    await enterScene(terminal, { keys: view, events: DASHBOARD_MOMENTS[moment] });
    return await terminal.screen();
  } finally {
    terminal.close();
  }
}

describe.each([
  [80, 24],
  [120, 40],
  [160, 45],
  [200, 60],
] as const)('at %dx%d', (columns, rows) => {
  test.each(Object.keys(SHOWN) as Moment[])(
    'the dashboard shows correctness, latency, gates and log while %s',
    async (moment) => {
      const screen = await screenAt(moment, columns, rows);
      const missing = SHOWN[moment].filter((pattern) => !pattern.test(screen));
      expect(missing, screen).toEqual([]);
    },
  );
});

test('if the kernel does not compile, gates are only counted, and a caret marks the place in the source', async () => {
  const terminal = openTerminal({ columns: 120, rows: 40, theme: { colors: 'none', ascii: false } });
  try {
    await enterScene(terminal, { keys: '1', events: uncompiled });
    const screen = await terminal.screen();
    expect(screen).toMatch(/– 7 not evaluated: the kernel does/);
    expect(screen).toMatch(/–7/);
    expect(screen).toMatch(/11 │ {3}x = y[^]*│ {5}\^/);
    // The log shows the first error, which appears only once.
    expect(screen.match(/error: expected a ";"/g)).toHaveLength(1);
    expect(screen).not.toMatch(/gates \d+\/\d+|gates \(\d+\)/);
  } finally {
    terminal.close();
  }
});

test.each([
  [80, 24],
  [200, 60],
] as const)('at %dx%d a running job whose build failed announces no cases', async (columns, rows) => {
  const terminal = openTerminal({ columns, rows, theme: { colors: 'none', ascii: false } });
  try {
    await enterScene(terminal, { keys: '1', events: () => uncompiled().slice(0, -1) });
    expect(await terminal.screen()).toMatch(/The build failed before any case ended/);
    await terminal.press('2');
    const screen = await terminal.screen();
    expect(screen).toMatch(/The build failed before any case ended/);
    expect(screen).not.toMatch(/run after/);
  } finally {
    terminal.close();
  }
});

test('while the emulator measures, the load of its host is shown next to the samples', async () => {
  const terminal = openTerminal({ columns: 120, rows: 40, theme: { colors: 'none', ascii: false } });
  try {
    await enterScene(terminal, { keys: '1', events: DASHBOARD_MOMENTS.benchmarking });
    const { host } = terminal.store.state;
    const devices = (host?.devices ?? []).map((device) => ({
      ...device,
      reading: create(DeviceReadingSchema, { time: timestampFromMs(1), hostLoad: 7.94, hostCpus: 2 }),
    }));
    terminal.store.dispatch({ type: 'host', host: { ...host!, devices } });
    expect(await terminal.screen()).toMatch(/host load 7\.9 on 2 CPUs/);
    await terminal.press('8');
    expect(await terminal.screen()).toMatch(/host load +7\.9 on 2 CPUs/);
  } finally {
    terminal.close();
  }
});

test.each([
  [120, 40],
  [80, 24],
])('while a host is overloaded, the build says so at %ix%i', async (columns, rows) => {
  const terminal = openTerminal({ columns, rows, theme: { colors: 'none', ascii: false } });
  const loaded = (hostLoad: number): void => {
    const { host } = terminal.store.state;
    const devices = (host?.devices ?? []).map((device) => ({
      ...device,
      reading: create(DeviceReadingSchema, { time: timestampFromMs(hostLoad * 1_000), hostLoad, hostCpus: 2 }),
    }));
    terminal.store.dispatch({ type: 'host', host: { ...host!, devices } });
  };
  try {
    await enterScene(terminal, { keys: '1', events: DASHBOARD_MOMENTS.building });
    loaded(3);
    expect(await terminal.screen()).not.toMatch(/the host is/);
    loaded(17.2);
    expect((await terminal.screen()).replace(/\s*│\n│\s*/g, ' ')).toMatch(/the host is busy: load 17/);
  } finally {
    terminal.close();
  }
});

test('next to another view, view 2 shows the first failed case, and opens on that case', async () => {
  const terminal = openTerminal({ columns: 200, rows: 60, theme: { colors: 'none', ascii: false } });
  try {
    await enterScene(terminal, { keys: '1', events: sampleEvents });
    expect(await terminal.screen()).toMatch(/6\/7 cases passed; row 4 of 7/);
    await terminal.press('2');
    expect(await terminal.screen()).toMatch(/6\/7 cases passed; row 4 of 7/);
    await terminal.press('kk2');
    expect(await terminal.screen()).toMatch(/6\/7 cases passed; row 2 of 7/);
  } finally {
    terminal.close();
  }
});

test('a finding about a kernel that passed is advice rather than a failure', async () => {
  const terminal = openTerminal({ columns: 120, rows: 40, theme: { colors: 'none', ascii: false } });
  try {
    const events = DASHBOARD_MOMENTS.finding();
    const finished = eventsOf([
      { case: 'finished', value: { outcome: Outcome.PASSED, summary: 'all 7 cases pass' } },
    ]).map((event) => ({ ...event, sequence: BigInt(events.length + 1) }));
    await enterScene(terminal, { keys: '1', events: () => events });
    expect(await terminal.screen()).toMatch(/─ ✗ race/);
    for (const event of finished) terminal.store.dispatch({ type: 'job-event', event });
    expect(await terminal.screen()).toMatch(/─ ⚠ race/);
  } finally {
    terminal.close();
  }
});

test('while a device opens after the build, the screen says so instead of showing a build at 100 %', async () => {
  const terminal = openTerminal({ columns: 120, rows: 40, theme: { colors: 'none', ascii: false } });
  try {
    const built = (): JobEvent[] => {
      const events = DASHBOARD_MOMENTS.verifying();
      return events.slice(
        0,
        events.findIndex(({ payload }) => payload.case === 'verifyProgress' || payload.case === 'caseResult'),
      );
    };
    const beforeVerify = (): JobEvent[] =>
      built().filter(({ payload }) => payload.case !== 'phaseStarted' || payload.value.phase !== Phase.VERIFY);
    await enterScene(terminal, { keys: '1', events: beforeVerify });
    terminal.store.dispatch({ type: 'tick', now: terminal.store.state.now + 60_000 });
    const screen = await terminal.screen();
    expect(screen).toMatch(/waiting for the device \d/);
    expect(screen).toMatch(/The build is done; cases run once the emulator is ready\. Its first[^]*compiles/);
  } finally {
    terminal.close();
  }
});

function uncompiled({ errors = 1 } = {}): JobEvent[] {
  const [created, started, plan, phase] = DASHBOARD_MOMENTS.building();
  const gates = plan?.payload.case === 'gatePlan' ? (plan.payload.value.plan?.gates ?? []) : [];
  const frameAt = (line: number) => ({
    ...{ file: 'k.cu', line, column: 5, firstLine: line - 1, lines: ['{', '  x = y', '}'] },
  });
  const found = Array.from({ length: errors }, (_, index) => {
    const line = 11 + 10 * index;
    return {
      ...{ severity: 'error', tool: 'nvcc', file: 'k.cu', column: 5, message: 'expected a ";"' },
      ...{ line, frame: frameAt(line) },
    };
  });
  return eventsOf(
    [
      ...[created, started, plan, phase].flatMap((event) => (event?.payload.case === undefined ? [] : [event.payload])),
      ...found.map((value) => ({ case: 'diagnostic' as const, value })),
      { case: 'buildResult' as const, value: { succeeded: false, diagnostics: found } },
      {
        case: 'finding' as const,
        value: {
          kind: FindingKind.COMPILE_FAILED,
          message: 'k.cu:11:5: does not compile',
          remedy: 'Correct it',
          frame: frameAt(11),
        },
      },
      ...gates.map((gate) => ({
        case: 'gateResult' as const,
        value: { ...gate, verdict: Verdict.NOT_MEASURED, detail: 'the kernel was not built' },
      })),
      { case: 'finished' as const, value: { outcome: Outcome.COMPILE_FAILED, summary: 'COMPILE_FAILED: k.cu:11:5' } },
    ],
    created?.job,
  );
}

test('each error of a compiler is shown with its own source', async () => {
  const terminal = openTerminal({ columns: 120, rows: 40, theme: { colors: 'none', ascii: false } });
  try {
    await enterScene(terminal, { keys: '1', events: () => uncompiled({ errors: 3 }) });
    expect(await terminal.screen()).toMatch(/k\.cu:11:5: does not compile[^]*11 │ {3}x = y[^]*finding 1 of 3, o next/);
    await terminal.press('o');
    expect(await terminal.screen()).toMatch(
      /k\.cu:21:5: expected a ";" \(nvcc\)[^]*21 │ {3}x = y[^]*finding 2 of 3, o next, e edits k\.cu:21/,
    );
    await terminal.press('oo');
    expect(await terminal.screen()).toMatch(/finding 1 of 3/);
  } finally {
    terminal.close();
  }
  const small = openTerminal({ columns: 80, rows: 24, theme: { colors: 'none', ascii: false } });
  try {
    await enterScene(small, { keys: '1o', events: () => uncompiled({ errors: 3 }) });
    expect(await small.screen()).toMatch(/COMPILE FAILED {2}finding 2 of 3, o next[^]*k\.cu:21:5: expected/);
  } finally {
    small.close();
  }
});

test('a failed probe is shown with the passed cases, at every size', async () => {
  const events = (): JobEvent[] => {
    const before = DASHBOARD_MOMENTS.benchmarking();
    const probe = {
      shape: { batch: 1, heads: 2, sequenceLength: 333, headDim: 64 },
      verdict: Verdict.FAIL,
      elements: 1n,
      maxAbsError: 0.5,
      inputs: [{ distribution: 'one_hot', verdict: Verdict.FAIL }],
    };
    return eventsOf(
      [
        ...before.flatMap(({ payload }) => (payload.case === undefined ? [] : [payload])),
        { case: 'verifyResult' as const, value: { probes: [probe] } },
      ],
      before[0]?.job,
    );
  };
  for (const [columns, rows] of [
    [80, 24],
    [120, 40],
    [200, 60],
  ] as const) {
    const terminal = openTerminal({ columns, rows, theme: { colors: 'none', ascii: false } });
    try {
      await enterScene(terminal, { keys: '1', events });
      expect(await terminal.screen()).toMatch(/(✗|Correctness) +7\/7 cases, 0\/1 probe|0\/1 probe passed/);
      await terminal.press('2');
      expect(await terminal.screen()).toMatch(/1x2x333x64 probe +✗ FAIL[^]*7\/7 cases, 0\/1 probe passed/);
    } finally {
      terminal.close();
    }
  }
});

test.each([
  [
    'axes',
    {},
    /Correct {2}D=64 [^]* B +H +S +causal +Hkv +Skv +verdict +largest error +of limit +mismatch[^]* 1 +6 +49 +2 +2 +113 +✓ pass +7\.99 /,
  ],
  // These values make more columns than 80 cells have room for.
  ['a text', { window: 33, softcap: 20 }, / largest error +of limit +.*mismatch[^]*B=1,D=64,\S*… +✓ pass +7\.99 +- /],
])('a case with many values leaves the figures of view 2 uncut: %s', async (_, more, shown) => {
  const terminal = openTerminal({ columns: 80, rows: 24, theme: { colors: 'none', ascii: false } });
  const values = { B: 1, D: 64, H: 6, Hkv: 2, S: 49, Skv: 113, causal: 2, ...more };
  const probe = { shape: { values }, verdict: Verdict.PASS, elements: 1n, maxAbsError: 7.99, meanAbsError: 0.0123 };
  const events = (): JobEvent[] => {
    const before = DASHBOARD_MOMENTS.benchmarking();
    const payloads = before.flatMap(({ payload }) => (payload.case === undefined ? [] : [payload]));
    return eventsOf([...payloads, { case: 'verifyResult' as const, value: { probes: [probe] } }], before[0]?.job);
  };
  try {
    await enterScene(terminal, { keys: '2', events });
    expect(await terminal.screen()).toMatch(shown);
  } finally {
    terminal.close();
  }
});

test('gates are shown with their targets from the start, and change as data arrives', async () => {
  const building = await screenAt('building', 120, 40);
  expect(building).toMatch(/● registers\/thread + <= 64/);
  expect(building).toMatch(/○ p50 cold 2x8x512x64 + < 25 us/);
  const verifying = await screenAt('verifying', 120, 40);
  expect(verifying).toMatch(/✓ registers\/thread +61 <= 64/);
  expect(verifying).toMatch(/⚠ CTAs\/SM +3 < 4/);
  expect(verifying).toMatch(/● parity +4\/7 cases so far/);
  const benchmarking = await screenAt('benchmarking', 120, 40);
  expect(benchmarking).toMatch(/● p50 cold/);
  expect(benchmarking).toMatch(/– 1 not measured: hardware/);
});

test('a modelled figure is marked by a sign in view 1, which also explains the sign, and by a word in view 5', async () => {
  const events = (): JobEvent[] => {
    const before = DASHBOARD_MOMENTS.benchmarking();
    return eventsOf(
      before.flatMap(({ payload }) => {
        if (payload.case === undefined) return [];
        const isCounted = payload.case === 'gateResult' && payload.value.title === 'registers/thread';
        return [isCounted ? { ...payload, value: { ...payload.value, modelled: true } } : payload];
      }),
      before[0]?.job,
    );
  };
  const terminal = openTerminal({ columns: 160, rows: 45, theme: { colors: 'none', ascii: false } });
  try {
    await enterScene(terminal, { keys: '1', events });
    expect(await terminal.screen()).toMatch(/✓ registers\/thread +~61 <= 64[^]*~ modelled on the emulator/);
    await terminal.press('5');
    expect(await terminal.screen()).toMatch(/registers\/thread +pass \(modelled\) +~61/);
  } finally {
    terminal.close();
  }
});

test('if hard gates were not measured, view 1 names them next to the passed ones', async () => {
  const terminal = openTerminal({ columns: 80, rows: 24, theme: { colors: 'none', ascii: false } });
  try {
    await enterScene(terminal, { keys: '1', events: () => decidedEvents('flashcore_v11.final') });
    expect(await terminal.screen()).toMatch(/gates +✓\d+ [^\n]*open: No slower than the champion/);
  } finally {
    terminal.close();
  }
});

test('the three verdicts of a gate can be told apart without color, even in ASCII', async () => {
  const terminal = openTerminal({ columns: 120, rows: 40, theme: { colors: 'none', ascii: true } });
  await enterScene(terminal, { keys: '1', events: DASHBOARD_MOMENTS.benchmarking });
  const screen = await terminal.screen();
  terminal.close();
  expect(screen).toMatch(/v registers\/thread/);
  expect(screen).toMatch(/! CTAs\/SM/);
  expect(screen).toMatch(/\? 1 not measured/);
  // A mark next to a number must not look like its sign.
  expect(screen).not.toMatch(/v\d+.* -\d/);
});

test('the rail has the same panes in the same places, whichever view is open', async () => {
  const titles = async (view: string): Promise<string[]> =>
    (await screenAt('benchmarking', 120, 40, view))
      .split('\n')
      .map((line, row) => `${row} ${line.slice(0, 38)}`)
      .filter((line) => /^\d+ ╭/.test(line));
  const first = await titles('1');
  expect(
    first.map(
      (line) =>
        line
          .replace(/[^A-Za-z]+/g, ' ')
          .trim()
          .split(' ')[0],
    ),
  ).toEqual(['Jobs', 'Gates', 'Build']);
  for (const view of ['2', '3', '4', '5', '6', '7', '8']) expect(await titles(view)).toEqual(first);
});

test('a finding replaces the latency: its text, three lines of source with a caret, and the remedy', async () => {
  const screen = await screenAt('finding', 120, 40);
  expect(screen).toMatch(
    /✗ race[^]*9 │ [^]*10 │ {3}K_smem\[threadIdx\.x\] = K[^]*│ {3}\^[^]*11 │ [^]*→ Put a __syncthreads\(\)[^]*e edits missing_syncthreads\.cu:10/,
  );
  expect(screen).not.toMatch(/─ Latency/);
});
