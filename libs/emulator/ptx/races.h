// Finds races and reads of unwritten memory in runs that ask for it, by recording which threads touched which bytes.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "block.h"
#include "orders.h"
#include "taint.h"

namespace flashcore::emu::ptx {

/**
 * An access in 64 bits, from the top: a stamp (32 bits; grows with each barrier of the block and each barrier and fence
 * of the warp), whether it is a cp.async in flight (1), whether it is volatile (1) and whether it may meet atomics (1), the
 * source line's number (18), the actor (6, see ACTORS) and the lane (5; of a warpgroup's product: 8 times the warp).
 */
using Mark = uint64_t;
constexpr Mark IN_FLIGHT = 1ull << 31;

/**
 * The latest atomics and .relaxed, .acquire and .release accesses of four bytes. They race with each other only if one of
 * them is of block scope and the other is of another block.
 */
template <class Who>
struct AtomicUses {
  Who writer{};
  Who other{};  // wrote earlier than `writer`, without being ordered before it
  Who reader{};
  Who observer{};  // has read the writer's value, so accesses ordered after it are ordered after the writer

  /** `observes`: the program uses the value that this access has read. */
  template <class Unordered>
  void note(const Who& now, Access access, bool observes, const Unordered& unordered) {
    if (access == Access::Read) {
      observer = now;
      return;
    }
    if (observes)
      other = Who{};
    else if (unordered(writer))
      other = writer;
    writer = now;
    observer = Who{};
  }

  /** Calls `found(use, wrote)` for each use that is not ordered with a plain access. */
  template <class Unordered, class Found>
  void each_unordered(bool writes, bool is_after_observer, const Unordered& unordered, const Found& found) const {
    if (!is_after_observer && unordered(writer)) found(writer, true);
    if (!is_after_observer && unordered(other)) found(other, true);
    if (writes && unordered(reader)) found(reader, false);
  }
};

/**
 * Watches the shared memory of the running block. Passes the block's accesses to global memory to GlobalShadow.
 *
 * A log records the accesses in order; a barrier empties it. For each line of 64 bytes the shadow knows which warps
 * have touched which bytes since the barrier. That is nearly always enough to see that an access is ordered after all
 * earlier accesses to its bytes. If it is not enough, the log is replayed into cells that also know lanes and source
 * lines. From then on accesses to this line are checked in its cells immediately.
 */
class Shadow {
  static constexpr uint32_t LINE_BYTES = 64;

 public:
  Shadow();
  void begin(BlockRun& block);
  /** Ends the block. Throws the faults that could not be reported earlier. */
  void end();
  /** Each offset belongs to the lane of its index, or all offsets belong to the lane `lane`. */
  void access(const WarpAccess& by, const uint32_t* offsets, int lane = EACH_LANE);
  /** A cp.async begins, which may write at any time until its wait. */
  void copy_begins(const WarpAccess& by, const uint32_t* offsets);
  /**
   * `stamp` is that of the cp.async.mbarrier.arrive that waits for the copy; 0 if the warp itself has waited for it.
   */
  void copy_ends(const WarpAccess& by, const uint32_t* offsets, uint32_t stamp = 0);
  struct LandedCopy {
    unsigned thread, copier;  // the copier is the actor of the copy's mbarrier
    uint32_t to;
    unsigned bytes;
  };
  /** A bulk copy has written its bytes. */
  void copy_lands(const Ins* i, const LandedCopy& copy, PhaseClocks& clocks);
  /** A warpgroup's product begins to read 16 bytes per lane, at any time until a warp waits for its group. */
  void operand(Warp& w, const Ins* i, uint32_t m, const uint32_t* offsets);
  /** A bulk store begins, which may read at any time until its thread waits for its group. */
  void bulk_store_begins(const LaneAt& at, uint32_t from, unsigned bytes);
  void commit_bulk_stores(const Warp& w, unsigned lane);
  /** The lane waits until at most `groups` of its groups have not been read yet. */
  void wait_for_bulk_stores(Warp& w, const Ins* i, unsigned lane, uint32_t groups);
  /**
   * Marks bytes as written and ordered before everything: those that another block of the cluster wrote, and a
   * barrier's own.
   */
  void written_from_outside(uint32_t offset, unsigned bytes);
  void global(const WarpAccess& by, const uint64_t* addresses);
  /** True if the ld.global.nc reads of the allocation around this address need not be recorded. */
  bool is_quiet(uint64_t address) { return quiet_at(address) != nullptr; }

  /** A copy to device memory at `to` reads these bytes. An unwritten byte is a fault, unless `to` is a workspace. */
  void copied(const LaneAt& at, uint32_t from, unsigned bytes, uint64_t to = 0);
  /** A copy from device memory at `from` has landed. Its unwritten bytes stay unwritten here. */
  void follow_copy(const LaneAt& at, uint32_t to, uint64_t from, unsigned bytes);
  /** Copies of the lanes in `m`, each of whose values is that of its lane. */
  struct LaneCopies {
    uint32_t m;
    const uint32_t* to;
    const uint64_t* from;
    const uint8_t* bytes;
  };
  /** The same for the copies of several lanes. */
  void follow_copies(Warp& w, const Ins* i, const LaneCopies& copies);
  /**
   * A bulk copy or a wgmma accesses these bytes through the async proxy. Faults if no fence.proxy.async follows an
   * earlier store to them.
   */
  void by_async_proxy(const LaneAt& at, uint32_t from, unsigned bytes, bool writes) {
    if (!unfenced_.empty()) look_for_stores(at, from, bytes, writes);
  }
  /** Marks a byte as unwritten, because the value stored there was computed from unwritten memory. */
  void forget_written(uint32_t offset) { lines_[offset / LINE_BYTES].written &= ~(1ull << offset % LINE_BYTES); }
  Taint taint;

  /** The warp arrives at a barrier of some warps, at an mbarrier or at the cluster's barrier. */
  void arrives(Warp& w, PhaseClocks& clocks, bool releases = true);
  /** The warp passes a barrier, after its latest complete phase. */
  void passes(const Warp& w, const PhaseClocks& clocks) { warp_orders_.acquire(w.index, clocks.complete); }
  /** Returns the stamp up to which the warp's accesses precede a cp.async.mbarrier.arrive. */
  uint32_t arrives_after_copies(Warp& w);
  /** The warp commits the group of products with this number, counted from 0. */
  void commits_products(Warp& w, uint32_t group);
  /** True if products of a warpgroup may still be reading their operands. No barrier ends that. */
  bool reads_operands() const;
  /** The warp has waited for its warpgroup's products up to this group. */
  void waited_for_products(const Warp& w, uint32_t group);
  /** These lanes, but not all of the warp, have come to a __syncwarp(). */
  void lanes_meet(Warp& w, uint32_t lanes);
  /** The warp has passed a fence. */
  void fence(Warp& w, const Ins* i);

  /** True if two accesses of this block may happen in either order. */
  bool unordered(Mark earlier, Mark now) const {
    // Nearly every access to look at is older than the latest barrier.
    return (static_cast<uint32_t>(earlier >> 32) > since_ || (earlier & IN_FLIGHT)) &&
           unordered_since_barrier(earlier, now);
  }
  /** True if two accesses may happen in either order and the program does not intend that. */
  bool races(Mark earlier, bool earlier_wrote, Mark now, bool writes) const {
    return unordered(earlier, now) && !meant_to_meet(earlier, earlier_wrote, now, writes);
  }
  /** True if the program intends that the two accesses are unordered, as with volatile accesses. */
  bool meant_to_meet(Mark earlier, bool earlier_wrote, Mark now, bool writes) const;
  const BlockRun& block() const { return *block_; }
  unsigned linear_block() const { return linear_block_; }
  /** True if fences and atomics order the other block's access before what this block does now. */
  bool is_acquired(uint32_t block, Mark earlier) const;
  /** True if the access only orders, and only is atomic for, threads of its block: .cta. */
  bool is_of_block_scope(const Ins* i) const { return !orderings_[i->statement].of_device; }
  /** True if the block is in the same cluster; a cluster has barriers of its own. */
  bool is_of_cluster(uint32_t block) const;
  /** True if, as far as this block knows, the previous launch may still be running. */
  bool is_early() const { return block_->plan().programmatic && !block_->waited_for_launch; }

 private:
  static constexpr int EACH_LANE = -1;
  /** Bytes of shared memory that lanes touch, from their offsets on. */
  struct Touched {
    uint32_t m;
    unsigned bytes;
    const uint32_t* offsets;
    int lane = EACH_LANE;  // the lane that all offsets belong to
  };
  bool unordered_since_barrier(Mark earlier, Mark now) const;
  /** An access of the log and the bytes of a line that it touched. */
  struct Note {
    uint64_t bits = 0;
    uint32_t index = 0;
  };
  /**
   * An actor's latest accesses of one kind to a line: those since the lanes of the warp last met. The first is here,
   * the others are in MoreNotes.
   */
  struct Notes {
    static constexpr uint8_t MOST = 4;
    uint64_t bits = 0;
    uint32_t index = 0;
    uint16_t actor = 0;  // or SEVERAL
    uint8_t count = MOST + 1;  // MOST + 1: unknown, because there were too many accesses, or of several actors
  };
  using MoreNotes = std::array<Note, Notes::MOST - 1>;
  /** The accesses to 64 bytes, with one bit per byte. */
  struct Line {
    uint64_t written = 0;  // bytes that this block has written
    uint64_t copied = 0;  // bytes that a cp.async in flight writes
    uint64_t writes = 0, reads = 0;  // since the latest barrier, if the stamps are newer than it
    uint32_t write_stamp = 0, read_stamp = 0;  // stamps of the latest accesses
    uint32_t atomic_stamp = 0;  // stamp of the latest atomic
    Notes writer, reader;
    bool exact = false;  // accesses are checked in the cells immediately
  };
  enum class Kind : uint8_t { Read, Write, CopyBegins, CopyEnds, FromOutside };
  enum class Answer : uint8_t { Unknown, No, Yes };
  /** The recorded accesses of one instruction. */
  struct Noted {
    Mark now;
    uint32_t m;
    unsigned bytes;
    Kind kind;
    int lane;
    mutable Answer apart;  // see lanes_are_apart()
    uint32_t offsets[LANES];
    bool lanes_are_apart() const;
    Mark mark_of(unsigned k) const { return now | (lane == EACH_LANE ? k : static_cast<unsigned>(lane)); }
  };
  // Keeps three readers: any reader, one of another warp, and another lane of the first reader's warp. Any later writer
  // differs from at least one of them.
  struct Cell {
    Mark writer = 0, reader = 0, other_warp = 0, same_warp = 0;
  };
  /** A warp's position. Accesses of its lanes up to `whole` are ordered before what any of its lanes does now. */
  struct Seen {
    uint32_t block_epoch = 0, warp_epoch = 0, stamp = 0, whole = 0;
    bool by_lanes = false;  // some of its lanes have met since then; lanes_ has the details
  };
  /** For each lane, the accesses of each lane that are ordered before it. */
  using LaneClocks = std::array<std::array<uint32_t, LANES>, LANES>;
  /** A group of products: the stamp of its reads, and those of its warps when they committed it. */
  struct ProductGroup {
    uint32_t stamp = 0;
    std::array<uint32_t, WARPGROUP_WARPS> committed{};
  };
  Mark mark(Warp& w, const Ins* i);
  Seen& seen_by(Warp& w);
  void step(Seen& seen) { seen.stamp = ++stamp_; }
  ProductGroup& group_of(const Warp& w, uint32_t number);
  uint32_t whole_before(Mark now) const;
  unsigned thread_at(Mark mark) const;
  bool follows(unsigned actor, uint32_t stamp, Mark now) const;
  size_t number_of(const Line& line) const { return static_cast<size_t>(&line - lines_.data()); }
  bool follow_readers(const Line& line, Mark now) const;
  void note_reader_of(Line& line, uint32_t n, Mark now, Note note);
  void read(Warp& w, const Ins* i, Mark now, const Touched& touched);
  void write_begins(Line& line, uint64_t bits, Mark now) const;
  void make_room();
  void land(Mark now, const Touched& touched);
  Noted& note(Kind kind, Mark now, const Touched& touched);
  template <class Visit>
  void each_line(uint32_t from, uint32_t to, const Visit& visit);
  template <class Visit>
  void each_lane_piece(const Noted& noted, uint32_t m, const Visit& visit);
  template <bool APART, class Visit>
  void each_piece(const Noted& noted, uint32_t m, const Visit& visit);
  template <bool APART, class Visit>
  void each_piece(const Noted& noted, const Visit& visit) {
    each_piece<APART>(noted, noted.m, visit);
  }
  bool meets_write(const Line& line, uint64_t bits, Mark now) const;
  bool meets_read(const Line& line, uint64_t bits, Mark now) const;
  bool of_same_lanes(const Notes& notes, const MoreNotes& more, uint64_t bits, const Noted& noted) const;
  static bool lies_within(const Noted& narrow, const Noted& wide);
  static void add_note(Notes& notes, MoreNotes& more, bool is_first, Note note);
  void note_write(Line& line, uint64_t bits, Mark now, uint32_t index);
  template <class Ordered>
  void drop(const Ordered& is_ordered);
  void make_exact(uint32_t line, const Noted& current, uint32_t before);
  void play(const Noted& noted, uint32_t lanes, uint32_t line);
  /** What some lanes of an access touch in one line. */
  struct Piece {
    const Noted& noted;
    uint32_t lanes, line;
  };
  void look_exactly(Warp& w, const Ins* i, const Piece& piece);
  void read_unwritten(Warp& w, const Ins* i, const Noted& noted);
  bool is_written(uint32_t byte) const { return lines_[byte / LINE_BYTES].written >> byte % LINE_BYTES & 1; }
  void look_for_copies(Warp& w, const Piece& piece);
  void look_for_bulk_stores(Warp& w, Mark now, const Touched& touched);
  void meet(Warp& w, const Ins* i, const Noted& noted, Access access);
  void look_for_plain(Warp& w, const Piece& piece, Access access);
  void look_for_atomics(Warp& w, const Ins* i, const Piece& piece, bool writes);
  void refine(unsigned bytes);
  void note_reader(Cell& cell, Mark now) const;
  void note_other_reader(Cell& cell, Mark now) const;
  void look_at_home(const WarpAccess& by, const uint32_t* offsets) const;
  void note_stores(Mark now, const Touched& touched);
  void look_for_stores(const LaneAt& at, uint32_t from, unsigned bytes, bool writes);
  void fence_proxy(const Warp& w);
  void fenced(const Warp& w);
  void fence(Warp& w, bool of_device);
  void synchronise(const WarpAccess& by, const uint64_t* addresses);
  void publish(Warp& w, uint32_t m, const uint64_t* addresses, bool of_device);
  void acquire();
  bool stores_the_same(const LaneAt& at, const Noted& noted, uint32_t byte, unsigned count) const;
  bool touched_since_barrier(const Cell& cell) const;
  void check_write(const LaneAt& at, const Noted& noted, const Cell& cell, uint32_t byte);
  template <class Visit>
  void each_cell(uint32_t from, uint32_t to, const Visit& visit);
  struct Race {
    Mark earlier;
    bool earlier_wrote;
    Mark now;
    bool writes;
    uint32_t byte;  // the first byte at which the two meet
    unsigned bytes;  // of the access
    bool by_async_proxy = false, with_atomic = false;
  };
  [[noreturn]] void report(const Warp& w, const Race& race);
  /**
   * Keeps the fault until the next barrier. If another thread writes these bytes before the barrier, the race is
   * reported instead, because the read came first only by chance.
   */
  void note_unwritten(const LaneAt& at, uint32_t byte, unsigned bytes);
  Fault unwritten_fault(const LaneAt& at, uint32_t byte, unsigned bytes) const;
  std::string buffer_of(uint32_t byte, uint32_t* offset) const;
  /**
   * Names a byte by its variable, as in "96 of tile (static shared memory)", or by its offset if it has no variable.
   */
  std::string byte_of(uint32_t byte) const;

  const BlockRun* block_ = nullptr;
  unsigned linear_block_ = 0;
  std::vector<Ordering> orderings_;  // by statement of the kernel lines_of_
  Clock acquired_;  // accesses of other blocks that are ordered before what this block does now
  WarpOrders warp_orders_;
  unsigned observer_ = 0;  // the warp whose access is being checked
  bool by_parts_ = false;  // the kernel synchronizes some of a block's warps
  /** If by_parts_: the stamp of the latest read by each warp and warpgroup, as readers_[line * columns_ + column]. */
  std::vector<uint32_t> readers_;
  unsigned columns_ = 0;
  struct ProductGroups {
    std::vector<ProductGroup> all;
    size_t done = 0;
  };
  std::array<ProductGroups, ACTORS - FIRST_WARPGROUP> products_;
  std::vector<std::pair<uint32_t, unsigned>> landed_;  // stamp and thread of bulk copies that have landed
  struct {
    uint32_t m;
    unsigned warp;
    bool is_global, at_fence;
    uint64_t addresses[LANES];
  } to_acquire_ = {};
  /** The accesses that the warp acquires at its next fence, because it has read a flag with a .relaxed access. */
  struct Awaited {
    ActorClock own{};
    Clock others;
    bool any = false;
  };
  std::vector<Awaited> awaited_;  // by warp
  struct Fence {
    uint32_t block = 0, device = 0, since = 0;  // the warp's stamps at its latest fence of each scope; 0: none
  };
  std::vector<Fence> fences_;  // by warp
  /** For 16 bytes: the warps that have stored there since the latest fence.proxy.async, and the latest store. */
  struct Stores {
    uint32_t warps = 0;
    Mark latest = 0;
  };
  static constexpr uint32_t STORES_BYTES = 16;
  std::vector<Stores> stores_;  // empty if nothing uses the async proxy
  std::vector<uint32_t> unfenced_;  // indices of the elements of stores_ that have warps
  bool uses_async_proxy_ = false;
  unsigned grain_ = 4;  // size of a cell in bytes
  std::vector<Cell> cells_;
  std::vector<Line> lines_;
  std::vector<MoreNotes> writers_more_, readers_more_;  // by line
  std::vector<AtomicUses<Mark>> atomics_;  // for each four bytes; empty before the first atomic
  uint64_t lines_of_ = 0;  // serial number of the kernel that lines_ belongs to
  std::unique_ptr<Noted[]> log_;
  size_t noted_ = 0;  // number of accesses in the log
  size_t room_ = 0;  // number of accesses at which the log drops those that are ordered before all warps
  uint32_t stamp_ = 0;  // the newest stamp
  uint32_t block_began_ = 0;  // all stamps of this block are greater
  uint32_t since_ = 0;  // stamp of the latest barrier; everything up to it is ordered
  uint32_t seen_epoch_ = 0;  // the block's epoch when it was last seen
  std::vector<Seen> warps_;
  std::vector<LaneClocks> lanes_;  // by warp; empty before the first such meeting
  std::vector<uint32_t> fenced_;  // by warp: the block's epoch at the warp's latest fence
  struct BulkStore {
    Mark mark;
    uint32_t thread, group, from, bytes;
  };
  std::vector<BulkStore> bulk_stores_;  // stores whose source may not have been read yet
  std::vector<uint32_t> bulk_groups_;  // for each thread, the number of groups that it has committed
  /** An allocation whose ld.global.nc reads need not be recorded until the host changes something. */
  struct Quiet {
    uint64_t base, end;
  };
  /** The allocation around this address, if it is quiet. */
  const Quiet* quiet_at(uint64_t address);
  std::vector<Quiet> quiet_;
  uint64_t quiet_since_ = 0;
};

/**
 * Watches device memory as Shadow watches shared memory, for all blocks of a launch. Written bytes stay known from
 * launch to launch.
 */
class GlobalShadow {
 public:
  static GlobalShadow& instance();
  void access(const Shadow& shadow, const WarpAccess& by, const uint64_t* addresses, Mark now);
  void publish(const Shadow& shadow, uint32_t m, const uint64_t* addresses, const Clock& own);
  void acquire(const Shadow& shadow, uint32_t m, const uint64_t* addresses, Clock& into);
  /** A number that changes whenever the host or another launch may have changed memory. */
  uint64_t changes() const { return changes_.load(std::memory_order_relaxed); }
  /** Finds the allocation around an address, if all its bytes are written. */
  bool find_written(uint64_t address, uint64_t* base, uint64_t* end);
  /** Marks these bytes as unwritten. */
  void mark_unwritten(uint64_t address, uint64_t bytes);
  /** Marks bytes of which nobody but kernels reads what they hold, so that unwritten values are followed there, too. */
  void mark_workspace(uint64_t address, uint64_t bytes);
  /**
   * A value that depends on unwritten memory was stored here; `fault` tells of it if it reaches something that counts.
   * Returns false if this is not a workspace.
   */
  bool leave_unwritten(uint64_t address, const Fault& fault);
  struct Range {
    uint64_t address;
    unsigned bytes;
  };
  /** Calls visit(n, origin) for each byte of the range that is unwritten. A copy by this lane has read them. */
  void each_unwritten(Taint& taint, const LaneAt& at, const Range& range,
                      const std::function<void(unsigned, uint8_t)>& visit);
  /** Marks bytes that the host writes as written. */
  void note_written(uint64_t address, uint64_t bytes);
  /** To be called for a launch that was not watched, because it may have written anything. */
  void forget_unwritten();
  /** To be called before an allocation is released. */
  void forget(uint64_t base);

 private:
  struct Touch {
    Mark mark = 0;
    uint32_t block = 0;
    uint32_t launch = 0;  // 0: none
  };
  struct AtomicTouch : Touch {
    bool of_block_scope = false;
  };
  struct Cell {
    Touch writer, reader, other;
    uint32_t value = 0;  // the value that the writer wrote, if known
    bool is_known = false;
    bool has_atomics = false;  // Region::atomics may have entries of this launch
    bool has_unwritten = false;  // Region::left may have entries
  };
  static constexpr unsigned CHUNK_BYTES = 1024;
  static constexpr unsigned WRITTEN_GRAIN = 4;  // a cell keeps the written value, which has at most 4 bytes
  struct Region {
    uint64_t base = 0, bytes = 0;
    unsigned grain = 16;  // size of a cell in bytes
    uint32_t written_in = 0;  // the latest launch that wrote to the region
    std::vector<std::pair<uint64_t, uint64_t>> unwritten, workspaces;  // address ranges: from, to
    std::vector<std::unique_ptr<Cell[]>> chunks;
    std::map<uint64_t, uint32_t> left;  // by address: numbers of the faults of the unwritten values stored there
    std::vector<std::unique_ptr<AtomicUses<AtomicTouch>[]>> atomics;  // by four bytes
    Cell& cell(uint64_t offset);
    AtomicUses<AtomicTouch>& atomics_at(uint64_t offset);
    void refine(unsigned bytes);
    bool is_unwritten(uint64_t address) const;
    /** True if all bytes were written before this launch, which has not written any. */
    bool is_known(uint32_t launch) const { return unwritten.empty() && left.empty() && written_in != launch; }
    void forget_left(uint64_t from, uint64_t to) { left.erase(left.lower_bound(from), left.lower_bound(to)); }
  };
  Region* region_of(uint64_t address);
  static void note_reader(const Shadow& shadow, Cell& cell, const Touch& now);
  /** What a lane does now, at `address` in a cell. */
  struct Touching {
    const Shadow& shadow;
    LaneAccess by;
    Touch now;
    uint64_t address;
    bool writes() const { return by.access != Access::Read; }
  };
  /** An earlier access to the cell. */
  struct Earlier {
    const Touch& touch;
    bool wrote;
  };
  bool races(const Touching& touching, const Earlier& earlier) const;
  /** True if the two accesses may happen in either order. */
  bool unordered(const Shadow& shadow, const Touch& earlier, const Touch& now) const;
  void meet(const Touching& touching, Region& region, Cell& cell);
  void look_for_atomics(const Touching& touching, Region& region);
  void look_for_launch_before(const Touching& touching, const Cell& cell);
  [[noreturn]] static void report_read_only(const Touching& touching, const Touch& writer);
  [[noreturn]] static void report(const Touching& touching, const Earlier& earlier, const char* why = nullptr);
  /** Faults a read of `count` unwritten bytes, starting at byte `from` of what the lane reads. */
  static void read_unwritten(const LaneAccess& by, uint64_t address, unsigned from, unsigned count);
  /** Handles a read of bytes that unwritten values were stored to. */
  void read_left(const LaneAt& at, const Region& region, const Range& read, unsigned from);
  static Fault unwritten_fault(const LaneAt& at, const Range& read);
  std::mutex mutex_;
  std::vector<Fault> left_faults_;  // those of Region::left, numbered from 0
  std::map<std::string, uint32_t> left_faults_at_;  // their numbers, by place
  std::atomic<uint64_t> changes_{1};
  std::map<uint64_t, Region> regions_;  // by base address
  PublishedOrders orders_;
};

}  // namespace flashcore::emu::ptx
