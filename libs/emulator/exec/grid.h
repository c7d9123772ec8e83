// Runs a launch: hands its blocks to a pool of OS threads, one block in flight on each.
#pragma once
#include <cstdint>
#include <string>

#include "block.h"

namespace flashcore::emu {

struct GridResult {
  bool ok = true;
  Fault fault;
};

/** Runs all blocks of the launch, or stops at the first fault. Called from one thread at a time. */
GridResult run_grid(const LaunchPlan& plan);

/** Launches that take longer end as faults that tell where every thread of a block stood; 0: no limit. */
void set_time_limit(uint64_t milliseconds);

struct GridStatistics {
  uint64_t launches = 0;
  Counters counters;
  double host_seconds = 0;
  unsigned workers = 0;
};
GridStatistics grid_statistics();

}  // namespace flashcore::emu
