/**
 * The budget test loads this into fa-tui with --import. It measures the process from the first SIGUSR2 to the second,
 * then writes the results to $PROBE_FILE.
 */
import { subscribe } from 'node:diagnostics_channel';
import { writeFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import process from 'node:process';

export interface ProbeReport {
  readonly wallMs: number;
  /** User and system time of the process divided by `wallMs`, in percent of one core. */
  readonly cpuPercent: number;
  /** Delay of timers, in milliseconds. */
  readonly loopP99Ms?: number;
  readonly loopMaxMs?: number;
  readonly rssMiB: number;
  /** Times of the frames, in milliseconds. */
  readonly frameMs: readonly number[];
}

const RESOLUTION_MS = 1;
/**
 * False if the loop must not be watched: checking it every millisecond uses 3 % of a core, which would distort the
 * figures of an idle program.
 */
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
