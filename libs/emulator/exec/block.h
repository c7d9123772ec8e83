// A running thread block: its fibres, ready queue, barriers and warp meetings.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "fault.h"
#include "fibre.h"
#include "launch_plan.h"
#include "shared_memory.h"
#include "warp.h"

namespace flashcore::emu {

inline bool operator==(const Place& a, const Place& b) { return a.line == b.line && a.file == b.file; }

/**
 * One of the 16 barriers of a block. Barrier 0 without a count is __syncthreads: it completes when all threads that
 * have not exited have arrived (a GPU also counts exited threads as arrived).
 */
struct Barrier {
  unsigned arrived = 0;
  unsigned expected = 0;  // 0: all live threads of the block; else the thread count of a named barrier
  int accumulated = 0;  // the running result of __syncthreads_count, _and or _or
  bool divergent = false;  // threads arrived from calls of __syncthreads in different source lines
  Place first_place{};
  Fibre* waiting_head = nullptr;
  Fibre* waiting_tail = nullptr;

  void reset() { *this = Barrier(); }
  bool in_use() const { return arrived != 0; }
  /** Adds a thread's predicate to the reduction before the thread joins the waiting list. */
  void accumulate(int reduction, int predicate);
};

inline void Barrier::accumulate(int reduction, int predicate) {
  if (!waiting_head) accumulated = reduction == BARRIER_AND ? 1 : 0;
  const int truth = predicate != 0;
  if (reduction == BARRIER_COUNT) accumulated += truth;
  if (reduction == BARRIER_AND) accumulated &= truth;
  if (reduction == BARRIER_OR) accumulated |= truth;
}

class RaceDetector;

struct Counters {
  uint64_t thread_switches = 0;
  uint64_t barriers = 0;
  uint64_t warp_meetings = 0;
  uint64_t blocks = 0;
};

/** Runs blocks one after another on the OS thread that created it. */
class Block {
 public:
  Block();
  ~Block();

    /** Runs one block to its end. Returns false if it faulted; fault() then describes why. */
  bool run(const LaunchPlan& plan, uint3 index);
  const Fault& fault() const { return fault_; }
  const Counters& counters() const { return counters_; }

    // Must be called on a fibre of this block.
  int arrive_at_barrier(unsigned id, unsigned count, int reduction, int predicate, const char* what, Place place);
  void count_at_barrier(unsigned id, unsigned count, Place place);
  void** arrive_at_meeting(int operation, unsigned mask, void* deposit, const char* what, Place place);
  void release_meeting();
  unsigned active_mask() const { return current_fibre()->warp->live; }
  void yield();
    /** Ends the block with this fault, and abandons its fibres. */
  [[noreturn]] void fail(Fault fault);
  /**
   * Ends a block that exceeded the time limit. The current fibre was running; the other fibres were waiting or ready.
   */
  [[noreturn]] void fail_at_time_limit(Fault fault);

  SharedMemory& shared() { return shared_; }
  const StackPool& stacks() const { return stacks_; }
  const LaunchPlan& plan() const { return *plan_; }
  RaceDetector* races() { return races_.get(); }
  uint32_t barrier_epoch() const { return barrier_epoch_; }
  unsigned thread_count() const { return thread_count_; }
  /** Position within the block of the thread with this linear index. */
  uint3 thread_index(unsigned linear) const;

 private:
  static void fibre_start();
  void prepare_fibres(uint3 index);
  [[noreturn]] void exit_current();
  void wait_in(Fibre* fibre, FibreState state, const char* what, Place place);
  [[noreturn]] void leave();
  [[noreturn]] void fail_outside_mask(const char* what, Place place);
  [[noreturn]] void fail_without_barrier(unsigned id);
  void* switch_to(Fibre* fibre);
  void* switch_to_next();
  void push_ready_back(Fibre* fibre);
  void push_ready_front(Fibre* fibre);
  Fibre* pop_ready();
  Barrier& count_arrival(unsigned id, unsigned count, Place place);
  bool is_complete(const Barrier& barrier) const;
  void complete_barrier(Barrier& barrier);
  void complete_barriers_after_exit();
  void complete_meetings_after_exit(Warp& warp);
  [[noreturn]] void report_deadlock(const char* headline);
  void describe_waiting_threads(Fault& fault, const Fibre* running = nullptr) const;

  const LaunchPlan* plan_ = nullptr;
  void* main_context_ = nullptr;
  StackPool stacks_;
  std::vector<Fibre> fibres_;  // grows only between blocks
  unsigned thread_count_ = 0;
  unsigned live_ = 0;
  Fibre* ready_head_ = nullptr;
  Fibre* ready_tail_ = nullptr;
  std::array<Barrier, 16> barriers_;
  std::vector<Warp> warps_;
  SharedMemory shared_;
  std::unique_ptr<RaceDetector> races_;
  uint32_t barrier_epoch_ = 1;
  bool faulted_ = false;
  Fault fault_;
  Counters counters_;
};

inline Block& current_block() { return *current_fibre()->warp->block; }

}  // namespace flashcore::emu
