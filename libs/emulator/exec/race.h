// Finds data races in shared memory, in modules compiled with -fsanitize=thread (which calls us at every access).
// Two accesses of different threads to one byte, at least one a write, are a race unless a barrier of the block, or a
// meeting of the warp that both belong to, lies between them.
#pragma once
#include <cstdint>
#include <vector>

#include "shared_memory.h"

namespace flashcore::emu {

class Block;

class RaceDetector {
 public:
  void begin_block(const SharedMemory& shared);
    /** One access by the running fibre; ends the block with a RACE fault if it races with an earlier one. */
  void access(Block& block, const char* address, unsigned bytes, bool is_write, const void* program_counter);

 private:
  struct Access {
    uint32_t barrier_epoch = 0;  // 0: none
    uint32_t warp_epoch = 0;
    uint32_t thread = 0;
    const void* program_counter = nullptr;
  };
  // Readers: any one, one of another warp, and another one of the first one's warp. Whoever writes next, one of them
  // is somebody else, so three suffice to notice every unordered reader.
  struct Cell {
    Access writer;
    Access reader;
    Access reader_of_other_warp;
    Access reader_of_same_warp;
  };
  static bool races(const Access& earlier, const Access& now);
  static void note_reader(Cell& cell, const Access& now);
  [[noreturn]] static void report(Block& block, const char* address, unsigned bytes, bool is_write,
                                  const Access& earlier, bool earlier_was_write, const Access& now);

  std::vector<Cell> static_cells_;
  std::vector<Cell> dynamic_cells_;
};

}  // namespace flashcore::emu
