// Who touched each piece of memory, kept beside a run on demand: races, and reads of what nobody wrote.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "access.h"

namespace flashcore::emu::ptx {

/**
 * An access in 64 bits, from the top: when (32; grows with each barrier of the block and each meeting of the warp),
 * whether it is a cp.async in flight (1) and whether volatile (1), the source line's number (20), the warp (5) and the
 * lane (5).
 */
using Mark = uint64_t;

/** Watches the shared memory of the block that runs, and reports to GlobalShadow what it does in global memory. */
class Shadow {
 public:
  void begin(const BlockRun& block);
  /** The block has ended: throws what could not be told before. */
  void end();
  void access(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, const uint32_t* offsets);
  /** A cp.async writes from now until its wait. */
  void copy_begins(Warp& w, const Ins* i, uint32_t m, unsigned bytes, const uint32_t* offsets);
  void copy_ends(Warp& w, const Ins* i, uint32_t m, unsigned bytes, const uint32_t* offsets);
  /** By another block of the cluster, or a barrier's own bytes: written, and ordered before everything. */
  void written_from_outside(uint32_t offset, unsigned bytes);
  void global(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, const uint64_t* addresses);

  /** The warp has passed a fence, or done something atomic. */
  void fenced(const Warp& w);

  /** Whether two accesses of this block may come in either order. */
  bool unordered(Mark earlier, Mark now) const;
  /** Whether that is a mistake. */
  bool races(Mark earlier, bool earlier_wrote, Mark now, bool writes) const {
    return unordered(earlier, now) && !meant_to_meet(earlier, earlier_wrote, now, writes);
  }
  /** Of two accesses that one at least does not want to meet. */
  bool meant_to_meet(Mark earlier, bool earlier_wrote, Mark now, bool writes) const;
  const BlockRun& block() const { return *block_; }
  unsigned linear_block() const { return linear_block_; }
  /** Blocks are never ordered, but a kernel that has fences or atomics of global memory may order them itself. */
  bool orders_blocks() const { return orders_blocks_; }

 private:
  // Of the readers: any one, one of another warp, and another one of the first one's warp. Whoever writes next, one of
  // them is somebody else.
  struct Cell {
    Mark writer = 0, reader = 0, other_warp = 0, same_warp = 0;
  };
  Mark mark(Warp& w, const Ins* i);
  void refine(unsigned bytes);
  void note_reader(Cell& cell, Mark now) const;
  bool touched_since_barrier(const Cell& cell) const;
  void check_write(Warp& w, const Cell& cell, Mark now, uint32_t byte, unsigned bytes);
  template <class Visit>
  void each_cell(uint32_t m, unsigned bytes, const uint32_t* offsets, const Visit& visit);
  [[noreturn]] void report(Warp& w, Mark earlier, bool earlier_wrote, Mark now, bool writes, uint32_t byte,
                           unsigned bytes);
  /**
   * Told at the next barrier: if somebody writes it before that, the two race, and it is by chance that the read came
   * first.
   */
  void note_unwritten(Warp& w, const Ins* i, unsigned lane, uint32_t byte, unsigned bytes);
  std::string buffer_of(uint32_t byte, uint32_t* offset) const;

  const BlockRun* block_ = nullptr;
  unsigned linear_block_ = 0;
  bool orders_blocks_ = false;
  uint64_t examined_ = 0;  // serial of the kernel that orders_blocks_ is about
  unsigned grain_ = 4;  // bytes of a cell
  std::vector<Cell> cells_;
  uint32_t stamp_ = 0;  // the newest
  uint32_t block_began_ = 0;  // stamps of this block are greater
  uint32_t since_ = 0;  // the stamp at which everything before is ordered: of the latest barrier
  uint32_t seen_epoch_ = 0;  // of the block
  struct Seen {
    uint32_t block_epoch = 0, warp_epoch = 0, stamp = 0;
  };
  std::vector<Seen> warps_;
  std::vector<uint32_t> fenced_;  // by warp: the block's epoch at its latest fence
  std::optional<Fault> unwritten_;  // the first read of this epoch of what nobody has written
};

/** The same of device memory, for all blocks of a launch; what was written stays known from launch to launch. */
class GlobalShadow {
 public:
  static GlobalShadow& instance();
  void access(const Shadow& shadow, Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access,
              const uint64_t* addresses, Mark now);
  /** Nobody has written these bytes. */
  void mark_unwritten(uint64_t address, uint64_t bytes);
  /** The host writes them. */
  void note_written(uint64_t address, uint64_t bytes);
  /** A launch that was not watched: who knows what it has written. */
  void forget_unwritten();
  /** An allocation that is about to be released. */
  void forget(uint64_t base);

 private:
  struct Touch {
    Mark mark = 0;
    uint32_t block = 0;
    uint32_t launch = 0;  // 0: none
  };
  struct Cell {
    Touch writer, reader, other;
  };
  static constexpr unsigned CHUNK_BYTES = 1024;
  struct Region {
    uint64_t base = 0, bytes = 0;
    unsigned grain = 4;
    std::vector<std::pair<uint64_t, uint64_t>> unwritten;  // addresses: from, to
    std::vector<std::unique_ptr<Cell[]>> chunks;
    Cell& cell(uint64_t offset);
    void refine(unsigned bytes);
    bool is_unwritten(uint64_t address) const;
  };
  Region* region_of(uint64_t address);
  static bool races(const Shadow& shadow, const Touch& earlier, bool earlier_wrote, const Touch& now, bool writes);
  [[noreturn]] static void report(const Shadow& shadow, Warp& w, const Ins* i, const Touch& earlier, bool earlier_wrote,
                                  const Touch& now, bool writes, uint64_t address, unsigned bytes);
  [[noreturn]] static void report_unwritten(Warp& w, const Ins* i, unsigned lane, uint64_t address, unsigned bytes);
  std::mutex mutex_;
  std::map<uint64_t, Region> regions_;  // by base
};

}  // namespace flashcore::emu::ptx
