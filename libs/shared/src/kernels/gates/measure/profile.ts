/** Metrics of the profiler. */
import { Verdict, type ProfileResult } from '../../../generated/flashcore/runner/v1/result_pb.js';
import { isCounter, isEmulators, isStall, profiledName } from '../metrics.ts';
import type { Measure, MetricAnswer } from './answer.ts';
import { entryOf } from '../../../text/entry-of.ts';

/** The resource that is partly unused if a utilization is below 100 %. */
const IDLE: Readonly<Record<string, string>> = {
  tensor_pipe_percent: 'the tensor pipe is idle',
  dram_throughput_percent: 'device memory is idle',
  sm_busy_percent: 'its busiest pipe is idle',
  achieved_occupancy_percent: 'warp slots are empty',
};

/**
 * A counter that a GPU's profiler does not know makes the gate fail: if it were only "not measured", the gate could
 * never fail.
 */
function unread({ verdict, modelled, reason = '' }: ProfileResult, name: string): MetricAnswer {
  const read = verdict === Verdict.PASS;
  if (isCounter(name) && !modelled && (read || reason.includes(name)))
    return {
      notMeasured: `the profiler has no ${name}${read ? '' : ` (${reason})`}: ncu --query-metrics lists what it knows`,
      unknown: true,
    };
  if (isEmulators(name) && !modelled) return { notMeasured: `only the emulator counts ${name}` };
  return { notMeasured: reason || `the profiler gave no ${name}` };
}

export const measureProfile: Measure = ({ variant: { profile } }, { name }) => {
  if (!profile) return { notMeasured: 'the kernel was not profiled' };
  const all = isStall(name) ? profile.stalls : profile.metrics;
  const wanted = isStall(name) ? name.replace(/^stall_/, '') : profiledName(name);
  const metric = all.find((each) => each.name === wanted);
  if (!metric || !Number.isFinite(metric.value)) return unread(profile, name);
  const idle = entryOf(IDLE, name);
  return {
    value: metric.value,
    detail: `${metric.source}${idle && metric.value < 100 ? `; ${idle} ${(100 - metric.value).toFixed(0)} % of the time` : ''}`,
    source: metric.source,
    modelled: profile.modelled,
  };
};
