// Which accesses fences and atomics have ordered before others: what a block has published, and what it has acquired.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "program.h"

namespace flashcore::emu::ptx {

/** Stamps are those of marks (races.h): a warp's grow with its barriers, meetings and fences. */
struct Published {
  uint32_t block, warp;
  uint32_t own;    // what this warp did up to that stamp
  uint32_t since;  // what any warp of the block did up to that stamp: before a barrier of the block
};

/** What is ordered before somebody, by block and warp. */
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

/** How an instruction may order others: of those that synchronise. */
struct Ordering {
  bool fences = false;    // or releases
  bool of_device = false;  // beyond the block
  bool acquires = true;
  bool of_async_proxy = false;  // fence.proxy.async, of shared memory
};
Ordering ordering_of(const Statement& s);

/** Of a launch: what was published at which address of device memory. */
class PublishedOrders {
 public:
  /** Of more than can be followed nothing is said: then any two blocks may be ordered. */
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

/** Within a block: what its warps have ordered among themselves. */
class WarpOrders {
 public:
  void begin(size_t warps);
  bool covers(unsigned warp, unsigned other, uint32_t stamp) const {
    return lost_ || (!passed_.empty() && stamp <= passed_[warp * warps_ + other]);
  }
  /** Up to which stamp what the other warp did is ordered before this one. */
  uint32_t passed(unsigned warp, unsigned other) const { return passed_.empty() ? 0 : passed_[warp * warps_ + other]; }
  void acquire(unsigned warp, uint64_t address);
  /** `own`: up to which stamp the warp's accesses have a fence behind them. */
  void publish(unsigned warp, uint64_t address, uint32_t own);

 private:
  static constexpr size_t MOST_ADDRESSES = 1 << 16;
  size_t warps_ = 0;
  bool lost_ = false;
  std::vector<uint32_t> passed_;  // by warp and other warp; empty: nothing yet
  std::unordered_map<uint64_t, std::vector<uint32_t>> published_;
};

}  // namespace flashcore::emu::ptx
