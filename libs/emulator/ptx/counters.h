// A profiler's counts: by instruction while blocks run, then by source line of a launch.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "block.h"
#include "trace.h"

namespace flashcore::emu::ptx {

/** Counts by instruction, defined as in Nsight Compute. */
class Counters {
 public:
  struct Line {
    uint64_t executed = 0;       // warp instructions
    uint64_t threads = 0;        // active lanes
    uint64_t requests = 0;       // to shared or global memory
    uint64_t idle_requests = 0;  // requests to shared memory with no active lane
    uint64_t wavefronts = 0;     // of shared memory
    uint64_t ideal = 0;          // wavefronts without bank conflicts
    uint64_t sectors = 0;        // of global memory, 32 bytes each
    uint64_t bytes = 0;
    void add(const Line& more);
  };
  void begin(const Kernel& kernel);
  void executed(Warp& w, const Ins* i);
  void shared(const Ins* i, uint32_t m, unsigned bytes, const uint32_t* offsets);
  void global(const Ins* i, uint32_t m, unsigned bytes, const uint64_t* addresses);
  /** Rows of 16 bytes that ldmatrix and wmma access together, eight per pass. */
  void rows(const Ins* i, const uint32_t* offsets, unsigned rows);
  Trace* trace = nullptr;  // null unless launches are traced
  const std::vector<Line>& lines() const { return lines_; }
  const Kernel* kernel() const { return kernel_; }

 private:
  Line& line_of(const Ins* i) { return lines_[static_cast<size_t>(i - kernel_->code.data())]; }
  const Kernel* kernel_ = nullptr;
  std::vector<Line> lines_;
};

/** The counts of a launch, summed over all blocks. */
class Profile {
 public:
  void add(const Counters& block);
  /** One JSON object: entry, blocks, and counts by name, in total and for each line of the kernel's source. */
  std::string to_json() const;

 private:
  mutable std::mutex mutex_;
  const Kernel* kernel_ = nullptr;
  uint64_t blocks_ = 0;
  std::vector<Counters::Line> lines_;
};

}  // namespace flashcore::emu::ptx
