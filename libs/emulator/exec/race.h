// Finds data races in shared memory in modules compiled with -fsanitize=thread, which calls these functions at every
// access. Two accesses by different threads to one byte, at least one of them a write, race unless a barrier of the
// block, or a meeting of the warp to which both threads belong, separates them.
#pragma once
#include <cstdint>
#include <vector>

#include "shared_memory.h"

namespace flashcore::emu {

class Block;

/** An access of the running fibre to shared memory. */
struct SharedAccess {
  const char* address;
  unsigned bytes;
  bool is_write;
  const void* program_counter;
};

class RaceDetector {
 public:
  void begin_block(const SharedMemory& shared);
  /** Records an access by the running fibre. Ends the block with a RACE fault if it races with an earlier access. */
  void access(Block& block, const SharedAccess& access);

 private:
  struct Access {
    uint32_t barrier_epoch = 0;  // 0: none
    uint32_t warp_epoch = 0;
    uint32_t thread = 0;
    const void* program_counter = nullptr;
  };
  // Keeps three readers of a byte: any reader, one of another warp, and another lane of the first reader's warp.
  // Whichever thread writes next, one of the three is unordered with it if any reader is.
  struct Cell {
    Access writer;
    Access reader;
    Access reader_of_other_warp;
    Access reader_of_same_warp;
  };
  static bool races(const Access& earlier, const Access& now);
  static void note_reader(Cell& cell, const Access& now);
  /** Ends the block because of a race at `now.address` with an earlier access. */
  [[noreturn]] static void report(Block& block, const SharedAccess& now, const Access& earlier, bool earlier_was_write);

  std::vector<Cell> static_cells_;
  std::vector<Cell> dynamic_cells_;
};

}  // namespace flashcore::emu
