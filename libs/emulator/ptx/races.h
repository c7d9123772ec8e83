// Who touched each piece of memory, kept beside a run on demand: races, and reads of what nobody wrote.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "access.h"
#include "orders.h"
#include "taint.h"

namespace flashcore::emu::ptx {

/**
 * An access in 64 bits, from the top: when (32; grows with each barrier of the block and each meeting of the warp),
 * whether it is a cp.async in flight (1) and whether volatile (1), the source line's number (20), the warp (5) and the
 * lane (5).
 */
using Mark = uint64_t;

/**
 * Watches the shared memory of the block that runs, and reports to GlobalShadow what it does in global memory.
 *
 * Who touched which word is written down as it comes, in a log that a barrier empties. For each 64 bytes it is known
 * which warps have touched which of them since then, which is enough to see of nearly every access that it is ordered
 * after all that it meets. Where it is not, the log is played into cells that know the lanes and the source lines, and
 * from then on what touches these 64 bytes is checked there at once.
 */
class Shadow {
  static constexpr uint32_t LINE_BYTES = 64;

 public:
  Shadow();
  void begin(BlockRun& block);
  /** The block has ended: throws what could not be told before. */
  void end();
  /** Offset k is lane k's, or all of them are one lane's. */
  void access(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, const uint32_t* offsets,
              int lane = EACH_LANE);
  /** A cp.async writes from now until its wait. */
  void copy_begins(Warp& w, const Ins* i, uint32_t m, unsigned bytes, const uint32_t* offsets);
  void copy_ends(Warp& w, const Ins* i, uint32_t m, unsigned bytes, const uint32_t* offsets);
  /** A bulk store reads from now until its thread waits for its group. */
  void bulk_store_begins(Warp& w, const Ins* i, unsigned lane, uint32_t from, unsigned bytes);
  void commit_bulk_stores(const Warp& w, unsigned lane);
  /** The lane waits until at most so many of its groups have not been read. */
  void wait_for_bulk_stores(const Warp& w, unsigned lane, uint32_t groups);
  /** By another block of the cluster, or a barrier's own bytes: written, and ordered before everything. */
  void written_from_outside(uint32_t offset, unsigned bytes);
  void global(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, const uint64_t* addresses);
  /** Whether reads by ld.global.nc that lie in the allocation around an address need not be noted. */
  bool is_quiet(uint64_t address);

  /** A copy to another memory reads it: what nobody has written is a fault. */
  void copied(Warp& w, const Ins* i, unsigned lane, uint32_t from, unsigned bytes);
  /**
   * A bulk copy or a wgmma reads or writes it, by another way than loads and stores: between a store and that stands a
   * fence.proxy.async.
   */
  void by_async_proxy(Warp& w, const Ins* i, unsigned lane, uint32_t from, unsigned bytes, bool writes) {
    if (!unfenced_.empty()) look_for_stores(w, i, lane, from, bytes, writes);
  }
  /** What was stored there is made of what nobody has written. */
  void forget_written(uint32_t offset) { lines_[offset / LINE_BYTES].written &= ~(1ull << offset % LINE_BYTES); }
  Taint taint;

  /** The warp has come to a barrier of the block, at which it waits or only counts in (bar.arrive). */
  void arrives(Warp& w, unsigned barrier, bool waits);
  /** The barrier is complete: whether a warp that only counted in has written since. */
  bool wrote_ahead(unsigned barrier);
  /** The warp goes on behind a barrier that orders only what came before it. */
  void passes(const Warp& w, unsigned barrier);
  /** The warp has passed a fence. */
  void fence(Warp& w, const Ins* i);

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
  /** Whether fences and atomics have ordered what another block did before what this one does. */
  bool is_acquired(uint32_t block, Mark earlier) const;
  /** Blocks of one cluster, which have barriers of their own. */
  bool is_of_cluster(uint32_t block) const;

 private:
  static constexpr int EACH_LANE = -1;
  /** 64 bytes; a bit a byte. */
  struct Line {
    uint64_t written = 0;  // in this block
    uint64_t copied = 0;  // by a cp.async in flight
    uint64_t writes = 0, reads = 0;  // since the latest barrier, where the stamps are newer than it
    uint32_t write_stamp = 0, read_stamp = 0;  // the latest
    uint32_t write_note = 0, read_note = 0;  // in the log, or NO_NOTE: of several, with one stamp
    uint16_t writer = 0, reader = 0;  // warps, or SEVERAL
    bool exact = false;  // noted in cells at once
  };
  enum class Kind : uint8_t { Read, Write, CopyBegins, CopyEnds, FromOutside };
  /** What one instruction did, as it came. */
  struct Noted {
    Mark now;
    uint32_t m;
    unsigned bytes;
    Kind kind;
    int lane;
    uint32_t offsets[LANES];
    Mark mark_of(unsigned k) const { return now | (lane == EACH_LANE ? k : static_cast<unsigned>(lane)); }
  };
  // Of the readers: any one, one of another warp, and another one of the first one's warp. Whoever writes next, one of
  // them is somebody else.
  struct Cell {
    Mark writer = 0, reader = 0, other_warp = 0, same_warp = 0;
  };
  struct Seen {
    uint32_t block_epoch = 0, warp_epoch = 0, stamp = 0;
  };
  Mark mark(Warp& w, const Ins* i);
  Seen& seen_by(Warp& w);
  void writes(const Warp& w) { arrivals_[w.index].wrote |= arrivals_[w.index].open; }
  Noted& note(Kind kind, Mark now, uint32_t m, unsigned bytes, const uint32_t* offsets, int lane);
  template <class Visit>
  void each_line(uint32_t from, uint32_t to, const Visit& visit);
  template <class Visit>
  void each_lane_piece(const Noted& noted, const Visit& visit);
  template <bool APART, class Visit>
  void each_piece(const Noted& noted, const Visit& visit);
  bool meets_write(const Line& line, uint64_t bits, Mark now) const;
  bool meets_read(const Line& line, uint64_t bits, Mark now) const;
  bool of_same_lanes(uint32_t stamp, uint32_t index, const Noted& noted) const;
  void note_write(Line& line, uint64_t bits, Mark now, uint32_t index) const;
  void drop_what_is_ordered();
  void make_exact(uint32_t line, const Noted& current, uint32_t before);
  void play(const Noted& noted, uint32_t lanes, uint32_t line);
  void look_exactly(Warp& w, const Ins* i, const Noted& noted, uint32_t lanes, uint32_t line);
  void read_unwritten(Warp& w, const Ins* i, const Noted& noted);
  bool is_written(uint32_t byte) const { return lines_[byte / LINE_BYTES].written >> byte % LINE_BYTES & 1; }
  void look_for_copies(Warp& w, const Noted& noted, uint32_t lanes, uint32_t line);
  void look_for_bulk_stores(Warp& w, Mark now, uint32_t m, unsigned bytes, const uint32_t* offsets, int lane);
  void meet(Warp& w, const Ins* i, const Noted& noted, Access access);
  void refine(unsigned bytes);
  void note_reader(Cell& cell, Mark now) const;
  void look_at_home(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, const uint32_t* offsets) const;
  void note_stores(Mark now, uint32_t m, unsigned bytes, const uint32_t* offsets, int lane);
  void look_for_stores(Warp& w, const Ins* i, unsigned lane, uint32_t from, unsigned bytes, bool writes);
  void fence_proxy(const Warp& w);
  void fenced(const Warp& w);
  void fence(Warp& w, bool of_device);
  void synchronise(Warp& w, const Ins* i, uint32_t m, Access access, const uint64_t* addresses);
  void publish(Warp& w, uint32_t m, const uint64_t* addresses, bool is_global);
  void acquire();
  bool stores_the_same(Warp& w, const Ins* i, const Noted& noted, unsigned lane, uint32_t byte, unsigned count) const;
  bool touched_since_barrier(const Cell& cell) const;
  void check_write(Warp& w, const Ins* i, const Noted& noted, const Cell& cell, unsigned lane, uint32_t byte);
  template <class Visit>
  void each_cell(uint32_t from, uint32_t to, const Visit& visit);
  [[noreturn]] void report(Warp& w, Mark earlier, bool earlier_wrote, Mark now, bool writes, uint32_t byte,
                           unsigned bytes, bool by_async_proxy = false);
  /**
   * Told at the next barrier: if somebody writes it before that, the two race, and it is by chance that the read came
   * first.
   */
  void note_unwritten(Warp& w, const Ins* i, unsigned lane, uint32_t byte, unsigned bytes);
  Fault unwritten_fault(Warp& w, const Ins* i, unsigned lane, uint32_t byte, unsigned bytes) const;
  std::string buffer_of(uint32_t byte, uint32_t* offset) const;

  const BlockRun* block_ = nullptr;
  unsigned linear_block_ = 0;
  std::vector<Ordering> orderings_;  // by statement of lines_of_
  Clock acquired_;  // from other blocks
  WarpOrders warp_orders_;
  struct {
    uint32_t m;
    unsigned warp;
    bool is_global;
    uint64_t addresses[LANES];
  } to_acquire_ = {};
  struct Fence {
    uint32_t block = 0, device = 0, since = 0;  // stamps at the latest one of either scope; 0: none
  };
  std::vector<Fence> fences_;  // by warp
  /** Of 16 bytes: warps that have stored there with no fence.proxy.async since, and the latest store. */
  struct Stores {
    uint32_t warps = 0;
    Mark latest = 0;
  };
  static constexpr uint32_t STORES_BYTES = 16;
  std::vector<Stores> stores_;  // empty where nothing goes by the async proxy
  std::vector<uint32_t> unfenced_;  // of stores_, those with warps
  bool uses_async_proxy_ = false;
  unsigned grain_ = 4;  // bytes of a cell
  std::vector<Cell> cells_;
  std::vector<Line> lines_;
  const Kernel* lines_of_ = nullptr;
  std::unique_ptr<Noted[]> log_;
  size_t noted_ = 0;  // in the log
  uint32_t stamp_ = 0;  // the newest
  uint32_t block_began_ = 0;  // stamps of this block are greater
  uint32_t since_ = 0;  // the stamp at which everything before is ordered: of the latest barrier
  uint32_t seen_epoch_ = 0;  // of the block
  std::vector<Seen> warps_;
  struct Arrivals {
    uint16_t open = 0, wrote = 0;  // barriers, as bits
  };
  std::vector<Arrivals> arrivals_;  // by warp: at which it has counted in, and written since
  std::vector<uint32_t> fenced_;  // by warp: the block's epoch at its latest fence
  struct BulkStore {
    Mark mark;
    uint32_t thread, group, from, bytes;
  };
  std::vector<BulkStore> bulk_stores_;  // whose source may not have been read yet
  std::vector<uint32_t> bulk_groups_;  // committed, by thread
  /** Allocations of which reads by ld.global.nc need not be noted, as long as the host changes nothing. */
  struct Quiet {
    uint64_t base, end;
  };
  std::vector<Quiet> quiet_;
  uint64_t quiet_since_ = 0;
};

/** The same of device memory, for all blocks of a launch; what was written stays known from launch to launch. */
class GlobalShadow {
 public:
  static GlobalShadow& instance();
  void access(const Shadow& shadow, Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access,
              const uint64_t* addresses, Mark now);
  void publish(const Shadow& shadow, uint32_t m, const uint64_t* addresses, const Clock& own);
  void acquire(const Shadow& shadow, uint32_t m, const uint64_t* addresses, Clock& into);
  /** Grows with whatever the host or another launch may have changed. */
  uint64_t changes() const { return changes_.load(std::memory_order_relaxed); }
  /** The allocation around an address if all of it is written. */
  bool find_written(uint64_t address, uint64_t* base, uint64_t* end);
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
    uint32_t value = 0;  // what the writer wrote, if that is known
    bool is_known = false;
  };
  static constexpr unsigned CHUNK_BYTES = 1024;
  struct Region {
    uint64_t base = 0, bytes = 0;
    unsigned grain = 4;
    uint32_t written_in = 0;  // the latest launch that wrote to it
    std::vector<std::pair<uint64_t, uint64_t>> unwritten;  // addresses: from, to
    std::vector<std::unique_ptr<Cell[]>> chunks;
    Cell& cell(uint64_t offset);
    void refine(unsigned bytes);
    bool is_unwritten(uint64_t address) const;
  };
  Region* region_of(uint64_t address);
  bool races(const Shadow& shadow, const Touch& earlier, bool earlier_wrote, const Touch& now, bool writes) const;
  [[noreturn]] static void report_read_only(const Shadow& shadow, Warp& w, const Ins* i, const Touch& writer,
                                            const Touch& now, uint64_t address, unsigned bytes);
  [[noreturn]] static void report(const Shadow& shadow, Warp& w, const Ins* i, const Touch& earlier, bool earlier_wrote,
                                  const Touch& now, bool writes, uint64_t address, unsigned bytes);
  /** `count` bytes from the access's `from`-th on, of `bytes`. */
  static void read_unwritten(Warp& w, const Ins* i, unsigned lane, uint64_t address, unsigned from, unsigned count,
                             unsigned bytes);
  std::mutex mutex_;
  std::atomic<uint64_t> changes_{1};
  std::map<uint64_t, Region> regions_;  // by base
  PublishedOrders orders_;
};

}  // namespace flashcore::emu::ptx
