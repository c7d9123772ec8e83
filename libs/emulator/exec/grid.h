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

/** Runs all blocks of the launch, or stops at the first fault. Only one thread may call it at a time. */
GridResult run_grid(const LaunchPlan& plan);

/**
 * Sets the time limit of launches. A longer launch ends with a fault that lists where every thread of a block was. 0
 * means no limit.
 */
void set_time_limit(uint64_t milliseconds);

/** Also ends a launch of PTX of which no block has begun for so long: an endless kernel need not use up its time limit. */
void set_stall_limit(uint64_t milliseconds);
/** The number of blocks that launches have begun since the library was loaded. May be called while a launch runs. */
uint64_t blocks_begun();

struct GridStatistics {
  uint64_t launches = 0;
  Counters counters;
  double host_seconds = 0;
  unsigned workers = 0;
};
GridStatistics grid_statistics();

/**
 * Turns SIGSEGV, SIGBUS, SIGFPE and SIGILL in fibres into faults of their launch. Signals in other code go to the
 * handlers that were installed before.
 */
void install_fault_signals();
/** The signal that stops the fibre that an OS thread runs. The fault lists where each thread of the block was. */
int time_limit_signal();
/** Prepares the calling thread for a new block, which may get the signal once. */
void expect_time_limit_signal();

/** Gives the calling OS thread the alternate stack for these signals. */
void use_alternate_signal_stack();

}  // namespace flashcore::emu
