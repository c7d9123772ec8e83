/** Metrics of the profiler. */
import { Verdict } from '../../../generated/flashcore/runner/v1/result_pb.js';
import { isCounter, isStall, profiledName } from '../metrics.ts';
import type { Measure } from './answer.ts';

/** The other way round: what a utilisation that is missed leaves unused. */
const IDLE: Readonly<Record<string, string>> = {
  tensor_pipe_percent: 'the tensor pipe is idle',
  dram_throughput_percent: 'device memory is idle',
  sm_busy_percent: 'no instruction is issued',
  achieved_occupancy_percent: 'warp slots are empty',
};

export const measureProfile: Measure = ({ variant: { profile } }, { name }) => {
  if (!profile) return { notMeasured: 'the kernel was not profiled' };
  const all = isStall(name) ? profile.stalls : profile.metrics;
  const wanted = isStall(name) ? name.replace(/^stall_/, '') : profiledName(name);
  const metric = all.find((each) => each.name === wanted);
  if (!metric || !Number.isFinite(metric.value)) {
    const unread = isCounter(name) ? `the profiler gave no ${name}: ncu --query-metrics lists what it knows` : '';
    return {
      notMeasured: (profile.verdict === Verdict.PASS && unread) || profile.reason || `the profiler gave no ${name}`,
    };
  }
  const idle = IDLE[name];
  return {
    value: metric.value,
    detail: `${metric.source}${idle && metric.value < 100 ? `; ${idle} ${(100 - metric.value).toFixed(0)} % of the time` : ''}`,
    source: metric.source,
    modelled: profile.modelled,
  };
};
