// Tracks the order that fences and atomics establish between accesses: what each block has published and acquired.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "program.h"

namespace flashcore::emu::ptx {

/** Stamps are those of marks (races.h). A warp's stamp grows with its barriers, meetings and fences. */
struct Published {
  uint32_t block, warp;
  uint32_t own;    // accesses of this warp up to this stamp
  uint32_t since;  // accesses of any warp of the block up to this stamp: those before a barrier of the block
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

/** How a synchronising instruction may order other accesses. */
struct Ordering {
  bool fences = false;    // or has release semantics
  bool of_device = false;  // its scope is larger than the block
  bool acquires = true;
  bool of_async_proxy = false;  // fence.proxy.async, of shared memory
};
Ordering ordering_of(const Statement& s);

/** For one launch: what was published at which address of device memory. */
class PublishedOrders {
 public:
  /** True if there was too much to track; then any two blocks count as possibly ordered. */
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

/** Within a block: the order that its warps have established among themselves. */
class WarpOrders {
 public:
  void begin(size_t warps);
  bool covers(unsigned warp, unsigned other, uint32_t stamp) const {
    return lost_ || (!passed_.empty() && stamp <= passed_[warp * warps_ + other]);
  }
  /** The other warp's accesses up to this stamp are ordered before this warp. */
  uint32_t passed(unsigned warp, unsigned other) const { return passed_.empty() ? 0 : passed_[warp * warps_ + other]; }
  void acquire(unsigned warp, uint64_t address);
  /** `own`: the warp's accesses up to this stamp are followed by a fence. */
  void publish(unsigned warp, uint64_t address, uint32_t own);

 private:
  static constexpr size_t MOST_ADDRESSES = 1 << 16;
  size_t warps_ = 0;
  bool lost_ = false;
  std::vector<uint32_t> passed_;  // by warp and other warp; empty: nothing is ordered yet
  std::unordered_map<uint64_t, std::vector<uint32_t>> published_;
};

}  // namespace flashcore::emu::ptx
