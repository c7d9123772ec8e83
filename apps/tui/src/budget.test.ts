/**
 * Measures fa-tui's costs on the built program, in a real pseudo-terminal and with a real gRPC server, and prints the
 * figures. The limits leave room for a busy machine: CPU time grows when two processes share a core's caches, and the
 * delay of the event loop includes the time that other processes get.
 */
/* eslint-disable flashcore/no-fixed-wait -- costs are measured over some time of ordinary use */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { ALL_TESTS, until } from '@flashcore/shared/testing';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { openBudgetProgram, quantile, sleep, type BudgetProgram } from './testing/budget-program.ts';
import type { ProbeReport } from './testing/probe.ts';
import { sampleEvents } from './testing/sample-job.ts';

const BUDGET = {
  cpuPercent: 23,
  idlePercent: 2,
  loopP99Ms: 15,
  pausedLoopMs: 100,
  keyP90Ms: 30,
  firstFrameMs: 300,
  firstFrameStarts: 12,
  heatMapFrameMs: 10,
  rssMiB: 300,
};
// Allowance for a busy machine, on which other processes use the core's caches and delay the event loop.
const CPU_TOLERANCE = 1.35;
const TIME_TOLERANCE = 5;
// Memory does not depend on the machine's load, but V8's reserve differs between runs.
const RSS_TOLERANCE = 1.05;

/**
 * Wall time is reliable only on a quiet machine, so tests of wall time run only in `npm run test:all`. `npm run bench`
 * measures ratios instead.
 */
const timed: (name: string, body: () => Promise<void>) => void = ALL_TESTS ? test : () => undefined;

const RATE = 5_000;
/**
 * Number of lines to send over gRPC. FA_BUDGET_LINES=1000000 sends all, which takes about 40 s. For lines that are not
 * sent, the buffer's limit per line is added to the measured memory.
 */
const LINES = Number(process.env['FA_BUDGET_LINES'] ?? (ALL_TESTS ? 100_000 : 40_000));
// The buffer's limit, which state/log.test.ts tests.
const MIB_A_MILLION_LINES = 40;

let program: BudgetProgram;
afterEach(() => program.close());

/** The best of three runs, because other processes only add to the cost. Stops at the first run within the budget. */
async function best<Figure>(
  measureOnce: () => Promise<Figure>,
  cost: (figure: Figure) => number,
  budget: number,
): Promise<Figure> {
  let least = await measureOnce();
  for (let round = 1; round < 3 && cost(least) > budget; round++) {
    const next = await measureOnce();
    if (cost(next) < cost(least)) least = next;
  }
  return least;
}

const during = (milliseconds: number) => (): Promise<ProbeReport> => program.measure(() => sleep(milliseconds));
const cpuOf = ({ cpuPercent }: ProbeReport): number => cpuPercent;

const tell = (what: string, report: ProbeReport): void =>
  console.info(
    `${what}: CPU ${report.cpuPercent.toFixed(1)} % of a core, loop p99 ${report.loopP99Ms?.toFixed(1) ?? '-'} ms, max ${report.loopMaxMs?.toFixed(0) ?? '-'} ms, RSS ${report.rssMiB.toFixed(0)} MiB, ${(program.written / 1024).toFixed(0)} KiB written`,
  );

timed('5,000 log lines a second at 120x40: at most 23 % of a core, event loop p99 at most 15 ms', async () => {
  program = await openBudgetProgram();
  program.server.rate = RATE;
  await sleep(1_000);
  const report = await best(
    during(2_500),
    ({ cpuPercent, loopP99Ms }) => Math.max(cpuPercent / BUDGET.cpuPercent, (loopP99Ms ?? 0) / BUDGET.loopP99Ms),
    1,
  );
  tell(`5,000 lines/s (budget ${BUDGET.cpuPercent} %, ${BUDGET.loopP99Ms} ms)`, report);
  expect(report.cpuPercent).toBeLessThan(BUDGET.cpuPercent * CPU_TOLERANCE);
  expect(report.loopP99Ms).toBeLessThan(BUDGET.loopP99Ms * TIME_TOLERANCE);
});

timed('5,000 log lines a second: from a key to the screen p90 at most 30 ms', async () => {
  program = await openBudgetProgram();
  program.server.rate = RATE;
  await sleep(500);
  const measureOnce = async (): Promise<number[]> => {
    const waited: number[] = [];
    for (let turn = 0; turn < 30; turn++) {
      waited.push(await program.press(turn % 2 === 0 ? '4' : '5', turn % 2 === 0 ? /\[4 Profile\]/ : /\[5 Gates\]/));
      // Varies the pause, so that it does not stay in step with the frames.
      await sleep(10 + ((turn * 37) % 60));
    }
    return waited;
  };
  const waited = await best(measureOnce, (numbers) => quantile(numbers, 0.9), BUDGET.keyP90Ms);
  console.info(
    `key to screen (budget p90 ${BUDGET.keyP90Ms} ms): p50 ${quantile(waited, 0.5).toFixed(1)} ms, p90 ${quantile(waited, 0.9).toFixed(1)} ms, max ${Math.max(...waited).toFixed(1)} ms`,
  );
  expect(quantile(waited, 0.9)).toBeLessThan(BUDGET.keyP90Ms * TIME_TOLERANCE);
});

timed('a frame with the heat map at 120x40 in 24-bit color: at most 10 ms', async () => {
  program = await openBudgetProgram({ prelude: sampleEvents() });
  await program.press('2', /\[2 Correct\]/);
  const measureOnce = async (): Promise<number> => {
    const { frameMs } = await program.measure(async () => {
      for (let turn = 0; turn < 30; turn++) {
        // Selects another case, and so another error map.
        program.pty.write(turn % 2 === 0 ? 'j' : 'k');
        await sleep(40);
      }
    });
    expect(frameMs.length).toBeGreaterThan(10);
    return quantile(frameMs, 0.5);
  };
  const median = await best(measureOnce, (milliseconds) => milliseconds, BUDGET.heatMapFrameMs);
  console.info(`frame with a heat map (budget ${BUDGET.heatMapFrameMs} ms): median ${median.toFixed(1)} ms`);
  expect(median).toBeLessThan(BUDGET.heatMapFrameMs * TIME_TOLERANCE);
});

/**
 * Processor time of starting a Node that does nothing, the minimum of several starts. It differs by a factor of two
 * between machines.
 */
function bareStartMs(): number {
  const report = 'const { user, system } = process.cpuUsage(); console.log((user + system) / 1000)';
  const starts = Array.from({ length: 5 }, () => Number(execFileSync(process.execPath, ['-e', report])));
  return Math.min(...starts);
}

timed('from the command to the first frame: at most 0.3 s of the processor, or 12 starts of Node', async () => {
  const budget = Math.max(BUDGET.firstFrameMs, BUDGET.firstFrameStarts * bareStartMs());
  const compileCache = mkdtempSync(path.join(tmpdir(), 'fa-compiled-'));
  onTestFinished(() => rmSync(compileCache, { recursive: true, force: true }));
  const start = async (): Promise<void> => {
    program = await openBudgetProgram({ probed: false, compileCache });
  };
  // The first start fills a compile cache of its own for the later starts. In the cache that all tests share, a short
  // command may already have written the entries; they lack the functions that only the screen calls, and Node never
  // replaces an entry.
  await start();
  await program.leave();
  program.close();
  const measureOnce = async (): Promise<number> => {
    await start();
    const { firstFrameMs, firstFrameCpuMs } = program;
    console.info(
      `first frame (budget ${budget.toFixed(0)} ms): CPU ${firstFrameCpuMs} ms, ${firstFrameMs.toFixed(0)} ms in all`,
    );
    program.close();
    return firstFrameCpuMs;
  };
  const least = await best(measureOnce, (milliseconds) => milliseconds, budget);
  await start();
  expect(least).toBeLessThan(budget * CPU_TOLERANCE);
});

timed('idle at 120x40: at most 2 % of a core', async () => {
  program = await openBudgetProgram({ watchesLoop: false });
  await sleep(2_000);
  const report = await best(during(2_500), cpuOf, BUDGET.idlePercent);
  tell(`idle (budget ${BUDGET.idlePercent} %)`, report);
  expect(report.cpuPercent).toBeLessThan(BUDGET.idlePercent * CPU_TOLERANCE);
});

test('a terminal that reads nothing for 2 s blocks the event loop for less than 100 ms', async () => {
  program = await openBudgetProgram();
  program.server.rate = RATE;
  await sleep(500);
  const { pty } = program;
  const report = await program.measure(async () => {
    pty.pause();
    await sleep(2_000);
    pty.resume();
    await sleep(500);
  });
  tell(`a pause of 2 s (budget ${BUDGET.pausedLoopMs} ms)`, report);
  expect(report.loopMaxMs).toBeLessThan(BUDGET.pausedLoopMs * TIME_TOLERANCE);
});

test('with a million log lines in memory, the whole program takes at most 300 MiB', async () => {
  program = await openBudgetProgram();
  const { server } = program;
  server.rate = 200_000;
  await until(() => server.sent >= LINES);
  server.rate = 0;
  const { rssMiB } = await program.measure(() => sleep(500));
  const aMillion = rssMiB + MIB_A_MILLION_LINES * (1 - LINES / 1_000_000);
  console.info(
    `RSS (budget ${BUDGET.rssMiB} MiB for a million lines): ${rssMiB.toFixed(0)} MiB with ${LINES} lines${LINES < 1_000_000 ? `, so at most ${aMillion.toFixed(0)} MiB with a million` : ''}`,
  );
  expect(aMillion).toBeLessThan(BUDGET.rssMiB * RSS_TOLERANCE);
}, 180_000);
