// The instructions that the warps of a few blocks executed, as input of the timing model.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "warp.h"

namespace flashcore::emu::ptx {

/** The instructions that the warps of one block executed, called steps. */
class Trace {
 public:
  /**
   * Bits of a step that hold the statement's number. The bits above hold wavefronts in shared memory or sectors of
   * global memory.
   */
  static constexpr unsigned STATEMENT_BITS = 20;
  static constexpr uint32_t STATEMENT_MASK = (1u << STATEMENT_BITS) - 1,
                            MOST_PASSES = (1u << (32 - STATEMENT_BITS)) - 1;

  void begin(unsigned warps) {
    warps_.assign(warps, {});
    latest_ = 0;
  }
  void executed(unsigned warp, uint32_t statement) {
    warps_[warp].push_back(statement & STATEMENT_MASK);
    latest_ = warp;
  }
  /** Adds wavefronts or sectors to the current step. */
  void passes(uint64_t count) {
    uint32_t& step = warps_[latest_].back();
    const uint64_t sum = (step >> STATEMENT_BITS) + count;
    step = (step & STATEMENT_MASK) | static_cast<uint32_t>(sum < MOST_PASSES ? sum : MOST_PASSES) << STATEMENT_BITS;
  }
  const std::vector<std::vector<uint32_t>>& warps() const { return warps_; }

 private:
  std::vector<std::vector<uint32_t>> warps_;
  unsigned latest_ = 0;
};

/**
 * The traced blocks of a launch as 32-bit words. First come the length of a JSON array with the kernel's statements and
 * the array, padded with spaces; then the number of blocks; then for each block the number of its warps and the steps
 * of each warp.
 */
class TraceLog {
 public:
  void add(const Kernel& kernel, const Trace& block);
  std::vector<uint32_t> words() const;

 private:
  mutable std::mutex mutex_;
  std::string statements_;
  uint32_t blocks_ = 0;
  std::vector<uint32_t> steps_;
};

}  // namespace flashcore::emu::ptx
