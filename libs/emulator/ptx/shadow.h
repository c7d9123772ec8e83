// What is kept beside a run on demand: who touched each byte of shared memory (races), and what a profiler counts.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "access.h"

namespace flashcore::emu::ptx {

/** Finds races in shared memory: exact to the byte, by barriers of the block and meetings of the warp. */
class Shadow {
 public:
  void begin(const BlockRun& block);
  void access(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, const uint32_t* offsets);

 private:
  struct Touch {
    uint32_t epoch = 0;  // of the block; 0: none
    uint32_t warp_epoch = 0;
    uint32_t thread = 0;
    const Ins* ins = nullptr;
  };
  // Of the readers: any one, one of another warp, and another one of the first one's warp.
  struct Cell {
    Touch writer, reader, other_warp, same_warp;
    bool written = false;
  };
  static bool unordered(const Touch& earlier, const Touch& now);
  static void note_reader(Cell& cell, const Touch& now);
  [[noreturn]] void report(Warp& w, const Touch& earlier, bool earlier_wrote, const Touch& now, bool writes,
                           uint32_t byte, unsigned bytes);
  std::vector<Cell> cells_;
};

/** What Nsight Compute counts, by instruction. */
class Counters {
 public:
  struct Line {
    uint64_t executed = 0;      // warp instructions
    uint64_t threads = 0;       // active lanes
    uint64_t requests = 0;      // shared or global
    uint64_t wavefronts = 0;    // shared
    uint64_t ideal = 0;         // wavefronts if there were no conflict
    uint64_t sectors = 0;       // global, of 32 bytes
    uint64_t bytes = 0;
    void add(const Line& more);
  };
  void begin(const Kernel& kernel);
  void executed(Warp& w, const Ins* i);
  void shared(const Ins* i, uint32_t m, unsigned bytes, Access access, const uint32_t* offsets);
  void global(const Ins* i, uint32_t m, unsigned bytes, const uint64_t* addresses);
  /** Rows of 16 bytes that ldmatrix and wmma read or write together: eight a pass. */
  void rows(const Ins* i, const uint32_t* offsets, unsigned rows, bool is_request);
  const std::vector<Line>& lines() const { return lines_; }
  const Kernel* kernel() const { return kernel_; }

 private:
  const Kernel* kernel_ = nullptr;
  std::vector<Line> lines_;
};

/** The counts of a launch, all blocks together. */
class Profile {
 public:
  void add(const Counters& block);
  /** Of the kernel by family of instructions and by kind of access, and of each source line: one JSON object. */
  std::string to_json() const;

 private:
  mutable std::mutex mutex_;
  const Kernel* kernel_ = nullptr;
  uint64_t blocks_ = 0;
  std::vector<Counters::Line> lines_;
};

}  // namespace flashcore::emu::ptx
