// Blocks that run side by side and reach into each other's shared memory (sm_90). A launch without clusters has one
// block in each.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "access.h"

namespace flashcore::emu::ptx {

// Above the 24 bits of an offset in shared memory: the rank of the block, from 1; 0: the thread's own.
constexpr unsigned RANK_SHIFT = 24;
constexpr uint32_t SHARED_OFFSET_MASK = (1u << RANK_SHIFT) - 1;

class Cluster {
 public:
  void begin(const LaunchPlan& plan, uint3 index);
  void add(BlockRun& block) { blocks_.push_back(&block); }
  unsigned size() const { return static_cast<unsigned>(blocks_.size()); }
  BlockRun& block(unsigned rank) const { return *blocks_[rank]; }
  /**
   * Whose shared memory an offset means; the rank is taken out of it. An offset that names no block of the cluster stays
   * as it is: nobody's. Faults where that block has ended.
   */
  BlockRun& owner(Warp& w, const Ins* i, unsigned lane, uint32_t& offset) const;
  /** False if it is no special register of clusters. */
  bool fill_special(const std::string& name, unsigned rank, uint32_t slot, Warp& w) const;

  /** barrier.cluster: lanes arrive. */
  void arrive(Warp& w, uint32_t lanes);
  /** Who of the lanes need not wait. */
  uint32_t passed(Warp& w, const Ins* i, uint32_t lanes);
  /** Ends the phase if all live threads have arrived. */
  void complete_if_full();

 private:
  const LaunchPlan* plan_ = nullptr;
  uint3 index_{};
  std::vector<BlockRun*> blocks_;
  uint32_t phase_ = 1;
  bool arrived_ = false;  // somebody, in this phase
  /** The phase in which a lane has arrived without waiting since, by rank and warp; 0: none. */
  std::vector<std::vector<std::array<uint32_t, LANES>>> arrivals_;
};

/** A place in the shared memory of a block of the cluster. */
struct SharedPlace {
  BlockRun* block;
  uint32_t offset;
};

/** What the hardware leaves undefined. */
[[noreturn]] void misused(Warp& w, const Ins* i, unsigned lane, const char* kind, const std::string& message);

/** Where a lane's address points, which has to be shared memory, so many bytes of it, aligned. Faults otherwise. */
SharedPlace shared_place(Warp& w, const Ins* i, unsigned lane, uint64_t address, unsigned bytes, unsigned alignment);

/** The next cluster of a grid that nobody has begun, and its index; false: there is none. */
using NextCluster = std::function<bool(uint3&)>;

/**
 * Runs clusters of PTX kernels on one OS thread: one after the other, and side by side where those that run may wait
 * for others that have not begun.
 */
class ClusterRun {
 public:
  ClusterRun();
  ~ClusterRun();
  /**
   * Until `next` has none left, or a block faulted: false, and fault() says how. `at_once`: so many begin together;
   * `most`: so many may run side by side.
   */
  bool run(const LaunchPlan& plan, const NextCluster& next, unsigned at_once, unsigned most);
  const Fault& fault() const { return fault_; }
  RunCounters counters() const;
  /** A cluster that still runs then ends with a fault that tells where its threads stand. */
  /** `faulted`: another block of the launch has ended it. */
  void set_ends(std::chrono::steady_clock::time_point deadline, const std::atomic<bool>& faulted) {
    deadline_ = deadline;
    faulted_ = &faulted;
  }

 private:
  struct InFlight {
    Cluster cluster;
    std::vector<std::unique_ptr<BlockRun>> blocks;
  };

  void begin(const LaunchPlan& plan, uint3 index);
  /** Each of its blocks goes as far as it can. */
  struct Step {
    bool alive = false, went_on = false, spins = true;
  };
  Step step(InFlight& each);
  void run_to_the_end(const LaunchPlan& plan, const NextCluster& next, unsigned at_once, unsigned most);

  std::vector<std::unique_ptr<InFlight>> clusters_;  // the first `running_` run, the others are kept for their memory
  size_t running_ = 0;
  BlockRun* current_ = nullptr;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  const std::atomic<bool>* faulted_ = nullptr;
  Fault fault_;
};

}  // namespace flashcore::emu::ptx
