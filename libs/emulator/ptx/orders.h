// Tracks the order that fences and atomics establish between accesses: what each block has published and acquired.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "program.h"

namespace flashcore::emu::ptx {

/**
 * Accesses that a warp has published. Stamps are those of marks (races.h); a warp's stamp grows with its barriers,
 * meetings and fences.
 */
struct Published {
  uint32_t block, warp;
  uint32_t own;    // accesses of this warp are included up to this stamp
  uint32_t since;  // accesses of all warps of the block are included up to this stamp, which is that of a barrier
};

/** The accesses that are ordered before an observer, by block and warp. */
class Clock {
 public:
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  void add(const Published& more);
  void join(const Clock& other);
  bool covers(uint32_t block, uint32_t warp, uint32_t stamp) const;

 private:
  std::vector<Published> entries_;  // by block and warp
};

/** How a synchronizing instruction may order other accesses. */
struct Ordering {
  bool fences = false;    // it is a fence or has release semantics
  bool of_device = false;  // its scope is larger than the block
  bool acquires = true;
  bool acquires_at_fence = false;  // the instruction has .relaxed, so it acquires only if a fence follows
  bool of_async_proxy = false;  // fence.proxy.async, of shared memory
};
Ordering ordering_of(const Statement& s);
/**
 * True for an instruction that may order only some warps of a block: a barrier of some warps, an mbarrier or a product
 * of a warpgroup.
 */
bool synchronises_some(const Statement& s);

/** For one launch: which accesses were published at which address of device memory. */
class PublishedOrders {
 public:
  /** True if there was too much to track. Any two blocks are then treated as possibly ordered. */
  bool is_lost() const { return lost_; }
  uint32_t launch() const { return static_cast<uint32_t>(launch_); }
  void begin(uint64_t launch);
  void acquire(uint64_t address, Clock& into);
  void publish(uint64_t address, const Clock& own);

 private:
  static constexpr size_t MOST_STEPS = 1 << 26, MOST_ENTRIES = 1 << 22;
  uint64_t launch_ = 0;
  bool lost_ = false;
  size_t steps_ = 0, entries_ = 0;
  std::unordered_map<uint64_t, Clock> clocks_;
};

/**
 * The actors that access a block's shared memory: its 32 warps, the copies that deliver bytes for an mbarrier, and the
 * tensor cores that read operands for a warpgroup. If a block has more mbarriers than there are numbers for copies,
 * several mbarriers share a number.
 */
constexpr unsigned ACTORS = 64, FIRST_COPIER = 32, COPIERS = 24, FIRST_WARPGROUP = 56, WARPGROUP_WARPS = 4;

/** For each actor, the stamp up to which its accesses are included. */
using ActorClock = std::array<uint32_t, ACTORS>;
inline void join(ActorClock& into, const ActorClock& other) {
  for (unsigned n = 0; n < ACTORS; ++n) into[n] = std::max(into[n], other[n]);
}

/** The accesses published by the actors that arrived at a barrier, in the current phase and in the completed phases. */
struct PhaseClocks {
  ActorClock arriving{}, complete{};
  void end_phase() {
    join(complete, arriving);
    arriving = {};
  }
};

/** The order that the warps of a block have established among themselves. */
class WarpOrders {
 public:
  void begin(size_t warps);
  /** True if the actor's accesses up to this stamp are ordered before what the warp does now. */
  bool covers(unsigned warp, unsigned actor, uint32_t stamp) const { return stamp <= passed_[warp][actor] || lost_; }
  const ActorClock& passed(unsigned warp) const { return passed_[warp]; }
  void raise(unsigned warp, unsigned actor, uint32_t stamp) {
    any_ = true;
    passed_[warp][actor] = std::max(passed_[warp][actor], stamp);
  }
  void acquire(unsigned warp, const ActorClock& clock) {
    any_ = true;
    join(passed_[warp], clock);
  }
  /** Publishes the accesses that are ordered before the warp, and the warp's own accesses up to `own`. */
  void publish(unsigned warp, ActorClock& into, uint32_t own) const {
    join(into, passed_[warp]);
    into[warp] = std::max(into[warp], own);
  }
  void acquire(unsigned warp, uint64_t address);
  /** Adds what was published at the address. */
  void published_at(uint64_t address, ActorClock& into) const;
  /** `own`: the warp's accesses up to this stamp are followed by a fence. */
  void publish(unsigned warp, uint64_t address, uint32_t own);

 private:
  static constexpr size_t MOST_ADDRESSES = 1 << 16;
  bool lost_ = false;
  bool any_ = false;  // passed_ has entries
  std::vector<ActorClock> passed_;  // by warp
  std::unordered_map<uint64_t, ActorClock> published_;
};

}  // namespace flashcore::emu::ptx
