// Blocks that run concurrently and access each other's shared memory (sm_90). In a launch without clusters, every
// cluster has one block.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "block.h"

namespace flashcore::emu::ptx {

// Bits above the 24 of an offset in shared memory: the block's rank plus 1, or 0 for the thread's own block.
constexpr unsigned RANK_SHIFT = 24;
constexpr uint32_t SHARED_OFFSET_MASK = (1u << RANK_SHIFT) - 1;

class Cluster {
 public:
  void begin(const LaunchPlan& plan, uint3 index);
  void add(BlockRun& block) { blocks_.push_back(&block); }
  unsigned size() const { return static_cast<unsigned>(blocks_.size()); }
  BlockRun& block(unsigned rank) const { return *blocks_[rank]; }
  /**
   * Returns the block whose shared memory an offset names, and removes the rank from the offset. An offset that names
   * no block of the cluster stays as it is. Faults if the named block has ended.
   */
  BlockRun& owner(Warp& w, const Ins* i, unsigned lane, uint32_t& offset) const;
  /** Returns false if `name` is not a special register of clusters. */
  bool fill_special(const std::string& name, unsigned rank, uint32_t slot, Warp& w) const;

  /** These lanes execute barrier.cluster.arrive. */
  void arrive(Warp& w, uint32_t lanes);
  /** Returns the lanes that may pass the barrier. */
  uint32_t passed(Warp& w, const Ins* i, uint32_t lanes);
  /** Ends the phase if all live threads have arrived. */
  void complete_if_full();

 private:
  const LaunchPlan* plan_ = nullptr;
  uint3 index_{};
  std::vector<BlockRun*> blocks_;
  uint32_t phase_ = 1;
  bool arrived_ = false;  // a lane arrived in this phase
  /** By rank, warp and lane: the phase in which the lane arrived without having waited yet; 0: none. */
  std::vector<std::vector<std::array<uint32_t, LANES>>> arrivals_;
};

/** An address in the shared memory of some block of the cluster. */
struct SharedPlace {
  BlockRun* block;
  uint32_t offset;
};

/** Faults because of a use that the hardware leaves undefined. */
[[noreturn]] void misused(const LaneAt& at, const char* kind, const std::string& message);

/**
 * Resolves the address that a lane's operand has. Faults unless it is aligned and the whole range is shared memory.
 */
SharedPlace shared_place(const LaneAt& at, unsigned bytes, unsigned alignment);

/** Takes the next cluster of the grid and sets its index. Returns false if none is left. */
using NextCluster = std::function<bool(uint3&)>;

/**
 * Runs clusters of PTX kernels on one OS thread: one after another, or several at the same time if a running cluster
 * may wait for one that has not begun.
 */
class ClusterRun {
 public:
  ClusterRun();
  ~ClusterRun();
  /**
   * Runs until `next` has no more clusters. Returns false if a block faulted; fault() then describes why. `at_once`
   * clusters begin together. At most `most` clusters run at the same time.
   */
  bool run(const LaunchPlan& plan, const NextCluster& next, unsigned at_once, unsigned most);
  const Fault& fault() const { return fault_; }
  RunCounters counters() const;
  /**
   * A cluster that still runs at `deadline` ends with a fault that lists where its threads are. `faulted` becomes true
   * when another block of the launch has faulted.
   */
  void set_ends(const std::atomic<int64_t>& deadline, const std::atomic<bool>& faulted) {
    deadline_ = &deadline;
    faulted_ = &faulted;
  }

 private:
  struct InFlight {
    Cluster cluster;
    std::vector<std::unique_ptr<BlockRun>> blocks;
  };

  void begin(const LaunchPlan& plan, uint3 index);
  /** Runs each block of the cluster as far as it can go. */
  struct Step {
    bool alive = false, went_on = false, spins = true;
  };
  Step step(InFlight& each);
  void run_to_the_end(const LaunchPlan& plan, const NextCluster& next, unsigned at_once, unsigned most);

  std::vector<std::unique_ptr<InFlight>> clusters_;  // the first `running_` run; later clusters reuse the rest
  size_t running_ = 0;
  BlockRun* current_ = nullptr;
  const std::atomic<int64_t>* deadline_ = nullptr;  // in ticks of the steady clock; it moves when a block begins
  const std::atomic<bool>* faulted_ = nullptr;
  Fault fault_;
};

}  // namespace flashcore::emu::ptx
