/**
 * Loaded into fa-tui with --import by the budget test. Measures the process from the first SIGUSR2 to the second, then
 * writes the results to $PROBE_FILE.
 */
import { subscribe } from 'node:diagnostics_channel';
import { writeFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import process from 'node:process';

export interface ProbeReport {
  readonly wallMs: number;
  /** User and system time of the process over `wallMs`, in percent of one core. */
  readonly cpuPercent: number;
  /** Delay of timers, milliseconds. */
  readonly loopP99Ms?: number;
  readonly loopMaxMs?: number;
  readonly rssMiB: number;
  /** Time of each frame, milliseconds. */
  readonly frameMs: readonly number[];
}

const RESOLUTION_MS = 1;
/** Checking the loop every millisecond uses 3 % of a core, so it is off when an idle program is measured. */
const WATCHES_LOOP = process.env['PROBE_LOOP'] !== '0';
const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
let cpu: NodeJS.CpuUsage | undefined;
let startedAt = 0;
let frames: number[] = [];

subscribe('fa-tui:frame', (message) => void frames.push((message as { milliseconds: number }).milliseconds));

process.on('SIGUSR2', () => {
  if (cpu === undefined) {
    if (WATCHES_LOOP) delay.enable();
    startedAt = performance.now();
    frames = [];
    cpu = process.cpuUsage();
    return;
  }
  const used = process.cpuUsage(cpu);
  const wallMs = performance.now() - startedAt;
  delay.disable();
  const late = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS);
  const report: ProbeReport = {
    wallMs,
    cpuPercent: ((used.user + used.system) / 1000 / wallMs) * 100,
    ...(WATCHES_LOOP && { loopP99Ms: late(delay.percentile(99)), loopMaxMs: late(delay.max) }),
    rssMiB: process.memoryUsage.rss() / 2 ** 20,
    frameMs: frames,
  };
  writeFileSync(process.env['PROBE_FILE'] ?? 'probe.json', `${JSON.stringify(report)}\n`);
  cpu = undefined;
  delay.reset();
});
