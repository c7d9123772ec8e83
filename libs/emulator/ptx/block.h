// A running block: its warps, its shared memory and its barriers. All its state is data, so the block can pause at any
// instruction.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "../exec/launch_plan.h"
#include "mbarrier.h"
#include "orders.h"
#include "trace.h"
#include "warp.h"

namespace flashcore::emu::ptx {

class Shadow;
class Counters;
class Cluster;
struct RecentOperands;
class BlockRun;

/**
 * Watches the accumulators of a warp's asynchronous products until the warp waits for them. Identifies accumulators by
 * the program's register, because registers may share a slot.
 */
class Products {
 public:
  void start(const BlockRun& block, const Ins* i);
  void commit() { ++committed_; }
  /** Number of groups committed so far. */
  uint32_t committed() const { return committed_; }
  /** Marks the first `groups` groups as finished. */
  void wait(uint32_t groups);
  /** Faults if the instruction reads an unfinished accumulator, or is a product that lacks a wgmma.fence. */
  void step(Warp& w, const Ins* i, const ProductStep& step);

 private:
  /** The state of a register of an accumulator. */
  struct Accumulator {
    const Ins* product = nullptr;  // the product whose result it holds; null: none
    uint32_t group = 0, fences = 0;  // the product's group, and the number of fences before it
    bool busy = false;
    const Ins* changed = nullptr;  // the instruction that changed it after the product
  };
  void check_fences(Warp& w, const Ins* i, const ProductStep& step) const;
  std::vector<Accumulator> states_;  // by number of the register
  uint32_t committed_ = 0, fences_ = 0;
};

/** A cp.async that was issued, for the lanes whose copy has not been carried out yet. */
struct Copy {
  uint32_t mask;
  unsigned warp;
  uint8_t bytes;
  bool whole;  // all bytes come from memory: no zeros are filled in
  const Ins* ins;
  uint32_t to[LANES];
  uint64_t from[LANES];
  uint8_t source_bytes[LANES];
  uint32_t group[LANES];
  uint64_t number;  // number of this copy within the block
};

struct BlockBarrier {
  unsigned arrived = 0, expected = 0;  // number of threads; expected 0: all live threads
  unsigned waiting = 0;                // arrived threads that wait
  int truths = 0;                      // number of true predicates of a bar.red
  unsigned voters = 0;
};

struct RunCounters {
  uint64_t blocks = 0, barriers = 0;
};

/** A running block of a PTX kernel. After a block has ended, the object runs another one. */
class BlockRun {
 public:
  BlockRun();
  ~BlockRun();
  /** Places the block's threads at the kernel's first instruction. */
  void begin(const LaunchPlan& plan, uint3 index, Cluster& cluster, unsigned rank);
  bool alive() const;
  /** Runs each warp as far as it can go. Returns false if no warp could continue. Errors: Fault. */
  bool step();
  void finish();
  /** After a fault the next block starts with fresh state. */
  void abandon() { attached_ = 0; }
  const RunCounters& counters() const { return counters_; }
  [[noreturn]] void deadlock(const char* headline);
  [[noreturn]] void fail_at_deadline();

  const Kernel& kernel() const { return *kernel_; }
  const LaunchPlan& plan() const { return *plan_; }
  uint3 index() const { return index_; }
  unsigned threads() const { return threads_; }
  uint3 thread_index(unsigned linear) const;
  std::string place_of(const Ins* i) const { return kernel_->program->describe(static_cast<int>(i->place)); }

  char* shared = nullptr;
  uint32_t shared_bytes = 0;
  char* local = nullptr;
  uint64_t local_bytes = 0, local_stride = 0;  // bytes per thread, and the distance between two threads' memory
  const char* parameters = nullptr;
  uint32_t parameter_bytes = 0;
  bool waited_for_launch = false;  // some thread has executed griddepcontrol.wait
  struct Range {
    uint64_t base = 1, end = 0;
  };
  std::vector<Range> ranges;  // by Ins::cache
  std::vector<Copy> copies;
  uint64_t copies_issued = 0;
  std::vector<std::array<uint32_t, LANES>> open_groups;  // the open group of cp.async, by warp and lane
  std::array<BlockBarrier, 16> barriers;
  std::array<PhaseClocks, 16> barrier_clocks;  // clocks of `barriers`, for the race check
  PhaseClocks cluster_clocks;
  Shadow* shadow = nullptr;      // null unless the run looks for races
  Counters* observed = nullptr;  // null unless launches are counted
  uint32_t epoch = 1;            // how often all warps have met, for the race check
  bool spins = false;  // in the latest step, all warps that ran only polled memory that others write
  Cluster* cluster = nullptr;
  unsigned rank = 0;  // rank within the cluster
  Mbarriers mbarriers;
  std::vector<Products> products;  // by warp
  std::unique_ptr<RecentOperands> recent;  // operands of recent products

  struct Arrival {
    unsigned id, expected;  // expected: threads; 0: all of the block
    uint32_t lanes, truths;
    bool waits;
  };
  /** Lanes arrive at a barrier. Completes the barrier if they were the last. */
  void arrive(Warp& w, const Ins* i, const Arrival& arrival);
  void complete_if_full(unsigned id);
  void complete_barriers_after_exit();
  unsigned live_threads() const;
  std::vector<Warp>& warps() { return warps_; }

 private:
  void attach();
  bool waits_elsewhere(const Warp& w, const Ins* i, unsigned id) const;

  /** Sets the special registers that change from block to block. In a launch's first block it sets all of them. */
  void fill_specials(Warp& w, bool first_block);
  /** Adds to the fault where each thread of the block is. */
  void describe_threads(Fault& fault) const;

  const LaunchPlan* plan_ = nullptr;
  const Kernel* kernel_ = nullptr;
  uint64_t attached_ = 0;
  unsigned attached_warps_ = 0;
  uint3 index_{};
  unsigned threads_ = 0;
  std::vector<Warp> warps_;
  char* registers_ = nullptr;
  size_t registers_bytes_ = 0;
  std::vector<char> local_memory_;
  char* shared_memory_ = nullptr;
  RunCounters counters_;
  std::unique_ptr<Shadow> shadow_;
  std::unique_ptr<Counters> observed_;
  Trace trace_;
};

}  // namespace flashcore::emu::ptx
