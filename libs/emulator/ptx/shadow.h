// Who touched each byte of shared memory, kept beside a run on demand: races.
#pragma once
#include <cstdint>
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

}  // namespace flashcore::emu::ptx
