// Runs a launch on a pool of OS threads, each of which runs one block at a time.
#pragma once
#include <cstdint>
#include <string>

#include "block.h"

namespace flashcore::emu {

struct GridResult {
  bool ok = true;
  Fault fault;
};

/** Runs all blocks of the launch or stops at the first fault. Only one thread may call it at a time. */
GridResult run_grid(const LaunchPlan& plan);

/** A launch that takes longer ends with a fault that lists where every thread of a block was. 0 means no limit. */
void set_time_limit(uint64_t milliseconds);

struct GridStatistics {
  uint64_t launches = 0;
  Counters counters;
  double host_seconds = 0;
  unsigned workers = 0;
};
GridStatistics grid_statistics();

/**
 * Turns SIGSEGV, SIGBUS, SIGFPE and SIGILL of fibres into faults of their launch. Other code keeps its signal handlers.
 */
void install_fault_signals();
/** The signal that stops an OS thread's running fibre. The fault lists where each thread of its block was. */
int time_limit_signal();
/** Call when a new block begins on the calling thread. */
void expect_time_limit_signal();

/** Gives the calling OS thread the alternate stack for these signals. */
void use_alternate_signal_stack();

}  // namespace flashcore::emu
