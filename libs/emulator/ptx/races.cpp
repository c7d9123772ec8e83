#include "races.h"

#include <algorithm>
#include <utility>

#include "../exec/device_memory.h"
#include "lanes.h"
#include "lower.h"

namespace flashcore::emu::ptx {

namespace {

constexpr Mark IN_FLIGHT = 1ull << 31, VOLATILE = 1ull << 30;
constexpr Mark THREAD_BITS = 1023, WARP_BITS = 31 << 5;
constexpr uint64_t PLACES = 1 << 20;
constexpr uint32_t LINE_BYTES = 64;
constexpr uint16_t SEVERAL = 0xffff;
constexpr uint32_t NO_NOTE = ~0u;
constexpr uint32_t MOST_LINES = 4;  // taken as if all of them were read
constexpr size_t LOG_LENGTH = 8192;

uint32_t stamp_of(Mark mark) { return static_cast<uint32_t>(mark >> 32); }
unsigned thread_of(Mark mark) { return static_cast<unsigned>(mark & THREAD_BITS); }
std::string place_of(const BlockRun& block, Mark mark) {
  return block.kernel().program->describe(static_cast<int>(mark >> 10 & (PLACES - 1)));
}

bool orders_global_memory(const Function& function) {
  return std::any_of(function.statements.begin(), function.statements.end(), [](const Statement& s) {
    if (s.op == "membar") return !has(s, "cta");
    if (s.op == "fence") return has(s, "gpu") || has(s, "gl") || has(s, "sys");
    return (s.op == "atom" || s.op == "red") && !has(s, "shared") && !has(s, "shared::cta");
  });
}

const char* why_volatile(Mark either) { return either & VOLATILE ? " (volatile orders nothing)" : ""; }
bool are_apart(const uint32_t* offsets, uint32_t m) {
  for (uint32_t left = m; left; left &= left - 1) {
    const uint32_t lane = left & -left;
    if ((lanes_with(offsets, offsets[__builtin_ctz(left)]) & m) != lane) return false;
  }
  return true;
}

const char* verb(bool writes) { return writes ? " writes" : " reads"; }

}  // namespace

// --- shared memory ----------------------------------------------------------------------------------------------------

Shadow::Shadow() : log_(new Noted[LOG_LENGTH]) {}

void Shadow::begin(const BlockRun& block) {
  block_ = &block;
  unwritten_.reset();
  const dim3 grid = block.plan().grid;
  const uint3 at = block.index();
  linear_block_ = (at.z * grid.y + at.y) * grid.x + at.x;
  const Kernel& kernel = block.kernel();
  if (examined_ != block.plan().launch) {
    examined_ = block.plan().launch;
    orders_blocks_ = orders_global_memory(*kernel.function);
  }
  if (stamp_ > ~0u / 2) {
    cells_.clear();
    lines_.clear();
    stamp_ = 0;
  }
  const size_t lines = (block.shared_bytes + LINE_BYTES - 1) / LINE_BYTES;
  if (lines_of_ != &kernel || lines_.size() != lines) lines_.assign(lines, Line());
  lines_of_ = &kernel;
  for (Line& line : lines_) line.written = line.copied = 0;
  noted_ = 0;
  cells_.resize((block.shared_bytes + grain_ - 1) / grain_);
  block_began_ = since_ = ++stamp_;
  seen_epoch_ = block.epoch;
  warps_.assign((block.threads() + LANES - 1) / LANES, Seen());
  fenced_.assign(warps_.size(), ~block.epoch);
}

void Shadow::end() {
  if (unwritten_) throw *std::exchange(unwritten_, std::nullopt);
}

Mark Shadow::mark(Warp& w, const Ins* i) {
  if (block_->epoch != seen_epoch_) {
    end();
    seen_epoch_ = block_->epoch;
    since_ = stamp_;
    drop_what_is_ordered();
  }
  Seen& seen = warps_[w.index];
  if (seen.block_epoch != block_->epoch || seen.warp_epoch != w.epoch) seen = {block_->epoch, w.epoch, ++stamp_};
  const uint64_t place = i->place < PLACES ? i->place : 0;
  return static_cast<Mark>(seen.stamp) << 32 | (i->sharing == Sharing::Volatile ? VOLATILE : 0) | place << 10 |
         w.index << 5;
}

void Shadow::fenced(const Warp& w) { fenced_[w.index] = block_->epoch; }

bool Shadow::unordered(Mark earlier, Mark now) const {
  if (earlier & IN_FLIGHT) return stamp_of(earlier) > block_began_;
  if (stamp_of(earlier) <= since_ || !((earlier ^ now) & THREAD_BITS)) return false;
  return ((earlier ^ now) & WARP_BITS) || stamp_of(earlier) == stamp_of(now);
}

/**
 * PTX's volatile is .relaxed.sys: an access of its own, which orders no other one. With fences on both sides something
 * else may have ordered the two, a flag or a lock; and whoever writes a flag may do it together with others.
 */
bool Shadow::meant_to_meet(Mark earlier, bool earlier_wrote, Mark now, bool writes) const {
  if (!((earlier | now) & VOLATILE) || (earlier & IN_FLIGHT)) return false;
  if (earlier_wrote && writes && (earlier & now & VOLATILE)) return true;
  const auto passed_fence = [&](Mark mark) { return fenced_[thread_of(mark) / LANES] == block_->epoch; };
  return passed_fence(earlier) && passed_fence(now);
}

/** Cells of so many bytes from now on: two threads may write the halves of a word. */
void Shadow::refine(unsigned bytes) {
  const unsigned parts = grain_ / bytes;
  std::vector<Cell> finer;
  finer.reserve(cells_.size() * parts);
  for (const Cell& cell : cells_) finer.insert(finer.end(), parts, cell);
  cells_ = std::move(finer);
  grain_ = bytes;
}

void Shadow::note_reader(Cell& cell, Mark now) const {
  if (stamp_of(cell.reader) <= since_ || !((cell.reader ^ now) & THREAD_BITS))
    cell.reader = now;
  else if ((cell.reader ^ now) & WARP_BITS)
    cell.other_warp = now;
  else if (stamp_of(cell.reader) != stamp_of(now))
    cell.reader = now;  // a newer meeting of the same warp says more
  else
    cell.same_warp = now;
}

inline bool Shadow::touched_since_barrier(const Cell& cell) const {
  const Mark newest = std::max(std::max(cell.writer, cell.reader), std::max(cell.other_warp, cell.same_warp));
  return stamp_of(newest) > since_ || (cell.writer & IN_FLIGHT);
}

void Shadow::check_write(Warp& w, const Cell& cell, Mark now, uint32_t byte, unsigned bytes) {
  if (races(cell.writer, true, now, true)) report(w, cell.writer, true, now, true, byte, bytes);
  for (const Mark reader : {cell.reader, cell.other_warp, cell.same_warp})
    if (races(reader, false, now, true)) report(w, reader, false, now, true, byte, bytes);
}

// --- 64 bytes at a time -----------------------------------------------------------------------------------------------

/** Written down; the caller's until the next one. */
Shadow::Noted& Shadow::note(Kind kind, Mark now, uint32_t m, unsigned bytes, const uint32_t* offsets, int lane) {
  if (noted_ == LOG_LENGTH) {
    // So many without a barrier: all that they have touched is checked in cells from now on.
    for (size_t n = 0; n < noted_; ++n)
      each_piece<false>(log_[n], [&](uint32_t line, uint64_t, uint32_t) {
        if (!lines_[line].exact) make_exact(line, log_[noted_ - 1], ALL);
      });
    noted_ = 0;
  }
  Noted& noted = log_[noted_++];
  noted.now = now;
  noted.m = m;
  noted.bytes = bytes;
  noted.kind = kind;
  noted.lane = lane;
  memcpy(noted.offsets, offsets, sizeof noted.offsets);
  return noted;
}

/** Visits lines with the bits of them that lie between two offsets, as if all lanes touched these. */
template <class Visit>
inline void Shadow::each_line(uint32_t from, uint32_t to, const Visit& visit) {
  for (uint32_t at = from; at < to;) {
    const uint32_t line = at / LINE_BYTES, until = std::min(to, (line + 1) * LINE_BYTES);
    visit(line, ~0ull >> (LINE_BYTES - (until - at)) << at % LINE_BYTES, ALL);
    at = until;
  }
}

/** Visits what each lane touches of each line. */
template <class Visit>
inline void Shadow::each_lane_piece(const Noted& noted, const Visit& visit) {
  for (uint32_t left = noted.m; left; left &= left - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(left));
    each_line(noted.offsets[k], noted.offsets[k] + noted.bytes,
              [&](uint32_t line, uint64_t bits, uint32_t) { visit(line, bits, 1u << k); });
  }
}

/**
 * Visits lines with the bits that are touched in them and the lanes that do it, in the lanes' order; APART: two lanes
 * that touch the same bytes come one after the other.
 */
template <bool APART, class Visit>
inline void Shadow::each_piece(const Noted& noted, const Visit& visit) {
  const unsigned bytes = noted.bytes;
  const auto first = static_cast<unsigned>(__builtin_ctz(noted.m));
  // Lanes' addresses are multiples of their width, rows of a matrix need not be.
  if (noted.lane == EACH_LANE && bytes < LINE_BYTES && !(bytes & (bytes - 1)) &&
      !(noted.offsets[first] & (bytes - 1))) {
    const uint64_t ones = (1ull << bytes) - 1;
    uint32_t line = noted.offsets[first] / LINE_BYTES, lanes = 0;
    uint64_t bits = 0;
    for (uint32_t left = noted.m; left; left &= left - 1) {
      const auto k = static_cast<unsigned>(__builtin_ctz(left));
      const uint32_t at = noted.offsets[k] / LINE_BYTES;
      const uint64_t here = ones << noted.offsets[k] % LINE_BYTES;
      if (at != line || (APART && (bits & here))) {
        visit(line, bits, lanes);
        line = at;
        bits = lanes = 0;
      }
      bits |= here;
      lanes |= 1u << k;
    }
    visit(line, bits, lanes);
    return;
  }
  each_lane_piece(noted, visit);
}

/** Whether a write since the barrier, of one of these bytes, may not be ordered before now. */
inline bool Shadow::meets_write(const Line& line, uint64_t bits, Mark now) const {
  return line.write_stamp > since_ && (line.writes & bits) &&
         (line.writer != (now & WARP_BITS) || line.write_stamp >= stamp_of(now));
}
inline bool Shadow::meets_read(const Line& line, uint64_t bits, Mark now) const {
  return line.read_stamp > since_ && (line.reads & bits) &&
         (line.reader != (now & WARP_BITS) || line.read_stamp >= stamp_of(now));
}

/**
 * Whether what is met is one instruction's, with the warp at the same meeting as now, and the same lanes touched the
 * same bytes: each meets itself alone.
 */
inline bool Shadow::of_same_lanes(uint32_t stamp, uint32_t index, const Noted& noted) const {
  if (index >= noted_ || stamp != stamp_of(noted.now)) return false;
  const Noted& earlier = log_[index];
  return ((earlier.now ^ noted.now) & WARP_BITS) == 0 && stamp_of(earlier.now) == stamp && earlier.m == noted.m &&
         earlier.bytes == noted.bytes && earlier.lane == noted.lane && &earlier != &noted &&
         !memcmp(earlier.offsets, noted.offsets, sizeof noted.offsets) &&
         (noted.lane != EACH_LANE || are_apart(noted.offsets, noted.m));
}

inline void Shadow::note_write(Line& line, uint64_t bits, Mark now, uint32_t index) const {
  const auto warp = static_cast<uint16_t>(now & WARP_BITS);
  const bool others = line.write_stamp > since_;
  const bool again = others && line.write_stamp == stamp_of(now) && line.write_note != index;
  line.writer = others && line.writer != warp ? SEVERAL : warp;
  line.write_note = again || line.writer == SEVERAL ? NO_NOTE : index;
  line.writes = others ? line.writes | bits : bits;
  line.written |= bits;
  line.write_stamp = stamp_of(now);
}

/** At a barrier: nothing before it races with what follows, but copies that are in flight. */
void Shadow::drop_what_is_ordered() {
  size_t kept = 0;
  for (size_t n = 0; n < noted_; ++n) {
    if (log_[n].kind != Kind::CopyBegins) continue;
    uint32_t in_flight = 0;
    each_lane_piece(log_[n], [&](uint32_t line, uint64_t bits, uint32_t lane) {
      if (lines_[line].copied & bits) in_flight |= lane;
    });
    if (!in_flight) continue;
    if (kept != n) log_[kept] = log_[n];
    log_[kept++].m = in_flight;
  }
  noted_ = kept;
}

/** Plays the log into the line's cells, of the current instruction the lanes `before` those that are looked at. */
void Shadow::make_exact(uint32_t line, const Noted& current, uint32_t before) {
  lines_[line].exact = true;
  for (const Noted* noted = log_.get(); noted < &current; ++noted) play(*noted, noted->m, line);
  play(current, current.m & before, line);
}

/** What was found to be ordered, noted in the cells of one line. */
void Shadow::play(const Noted& noted, uint32_t lanes, uint32_t line) {
  const uint32_t begin = line * LINE_BYTES;
  for (; lanes; lanes &= lanes - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(lanes));
    const uint32_t from = std::max(noted.offsets[k], begin);
    const uint32_t to = std::min(noted.offsets[k] + noted.bytes, begin + LINE_BYTES);
    if (from >= to) continue;
    const Mark now = noted.mark_of(k);
    each_cell(from, to, [&](Cell& cell, uint32_t) {
      switch (noted.kind) {
        case Kind::Read: note_reader(cell, now); break;
        case Kind::CopyBegins: cell.writer = now | IN_FLIGHT; break;
        case Kind::FromOutside: cell.writer = static_cast<Mark>(block_began_) << 32; break;
        default: cell.writer = now;
      }
    });
  }
}

/** Looks at the cells of what these lanes touch of one line, and notes it there. */
void Shadow::look_exactly(Warp& w, const Noted& noted, uint32_t lanes, uint32_t line) {
  if (!lines_[line].exact) make_exact(line, noted, (1u << __builtin_ctz(lanes)) - 1);
  const uint32_t begin = line * LINE_BYTES;
  for (uint32_t left = lanes; left; left &= left - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(left));
    const uint32_t from = std::max(noted.offsets[k], begin);
    const uint32_t to = std::min(noted.offsets[k] + noted.bytes, begin + LINE_BYTES);
    if (from >= to) continue;
    const Mark now = noted.mark_of(k);
    each_cell(from, to, [&](Cell& cell, uint32_t byte) {
      if (noted.kind == Kind::Read) {
        if (races(cell.writer, true, now, false)) report(w, cell.writer, true, now, false, byte, noted.bytes);
        note_reader(cell, now);
        return;
      }
      if (touched_since_barrier(cell)) check_write(w, cell, now, byte, noted.bytes);
      cell.writer = noted.kind == Kind::CopyBegins ? now | IN_FLIGHT : now;
    });
  }
}

void Shadow::look_at_unwritten(Warp& w, const Ins* i, const Noted& noted, uint32_t lanes, uint32_t line) {
  if (unwritten_) return;
  const uint32_t begin = line * LINE_BYTES;
  for (; lanes; lanes &= lanes - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(lanes));
    const uint32_t to = std::min(noted.offsets[k] + noted.bytes, begin + LINE_BYTES);
    for (uint32_t byte = std::max(noted.offsets[k], begin); byte < to; ++byte)
      if (!(lines_[line].written >> byte % LINE_BYTES & 1))
        return note_unwritten(w, i, thread_of(noted.mark_of(k)) % LANES, byte, noted.bytes);
  }
}

void Shadow::access(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, const uint32_t* offsets,
                    int lane) {
  const Mark now = mark(w, i);
  if (access == Access::ReadWrite) fenced(w);
  if (access == Access::ReadWrite || i->sharing == Sharing::Synchronised)
    return meet(w, i, note(Kind::FromOutside, now, m, bytes, offsets, lane), access);
  if (access == Access::Write) {
    const Noted& noted = note(Kind::Write, now, m, bytes, offsets, lane);
    const auto at = static_cast<uint32_t>(&noted - log_.get());
    const auto visit = [&](uint32_t n, uint64_t bits, uint32_t lanes) {
      Line& line = lines_[n];
      const bool ordered = !line.exact && !(line.copied & bits) &&
                           (!meets_write(line, bits, now) || of_same_lanes(line.write_stamp, line.write_note, noted)) &&
                           (!meets_read(line, bits, now) || of_same_lanes(line.read_stamp, line.read_note, noted));
      if (ordered) return note_write(line, bits, now, at);
      look_exactly(w, noted, lanes, n);
      line.written |= bits;
    };
    if (m == ALL && lane == EACH_LANE && pattern_of(offsets, bytes) == Pattern::Contiguous)
      each_line(offsets[0], offsets[0] + LANES * bytes, visit);
    else
      each_piece<true>(noted, visit);
    return;
  }
  const Noted& noted = note(Kind::Read, now, m, bytes, offsets, lane);
  const auto warp = static_cast<uint16_t>(now & WARP_BITS);
  const auto at = static_cast<uint32_t>(&noted - log_.get());
  const auto visit = [&](uint32_t n, uint64_t bits, uint32_t lanes) {
    Line& line = lines_[n];
    if (__builtin_expect((bits & ~line.written) != 0, 0)) look_at_unwritten(w, i, noted, lanes, n);
    const bool ordered = !line.exact && !(line.copied & bits) &&
                         (!meets_write(line, bits, now) || of_same_lanes(line.write_stamp, line.write_note, noted));
    if (!ordered) return look_exactly(w, noted, lanes == ALL ? two_of_each(offsets) : lanes, n);
    const bool others = line.read_stamp > since_;
    line.reader = others && line.reader != warp ? SEVERAL : warp;
    const bool again = others && line.read_stamp == stamp_of(now) && line.read_note != at;
    line.read_note = again || line.reader == SEVERAL ? NO_NOTE : at;
    line.reads = others ? line.reads | bits : bits;
    line.read_stamp = stamp_of(now);
  };
  if (m != ALL || lane != EACH_LANE) return each_piece<false>(noted, visit);
  uint32_t least = offsets[0], most = offsets[0];
  for (int k = 0; k < LANES; ++k) {
    least = std::min(least, offsets[k]);
    most = std::max(most, offsets[k]);
  }
  // As if they read all that lies between: at worst it is looked at exactly.
  bool near = most + bytes - least <= MOST_LINES * LINE_BYTES;
  if (near)
    each_line(least, most + bytes, [&](uint32_t n, uint64_t bits, uint32_t) { near &= !(bits & ~lines_[n].written); });
  if (near) return each_line(least, most + bytes, visit);
  // Of lanes that read one address two stand for all.
  Noted some = noted;
  some.m = two_of_each(offsets);
  each_piece<false>(some, visit);
}

/** An atomic, or what others may touch meanwhile: nothing but a copy in flight races with it. */
void Shadow::meet(Warp& w, const Ins* i, const Noted& noted, Access access) {
  each_piece<false>(noted, [&](uint32_t n, uint64_t bits, uint32_t lanes) {
    Line& line = lines_[n];
    if (access != Access::Write) {
      if (bits & ~line.written) look_at_unwritten(w, i, noted, lanes, n);
      if (line.copied & bits) look_for_copies(w, noted, lanes, n);
    }
    if (access != Access::Read) line.written |= bits;
  });
  --noted_;  // it was not noted
}

/** Reads what a copy may still be writing. */
void Shadow::look_for_copies(Warp& w, const Noted& noted, uint32_t lanes, uint32_t line) {
  if (!lines_[line].exact) make_exact(line, noted, 0);
  const uint32_t begin = line * LINE_BYTES;
  for (; lanes; lanes &= lanes - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(lanes));
    const uint32_t from = std::max(noted.offsets[k], begin);
    const uint32_t to = std::min(noted.offsets[k] + noted.bytes, begin + LINE_BYTES);
    each_cell(from, to, [&](Cell& cell, uint32_t byte) {
      const Mark now = noted.mark_of(k);
      if ((cell.writer & IN_FLIGHT) && unordered(cell.writer, now))
        report(w, cell.writer, true, now, false, byte, noted.bytes);
    });
  }
}

void Shadow::copy_begins(Warp& w, const Ins* i, uint32_t m, unsigned bytes, const uint32_t* offsets) {
  const Mark now = mark(w, i);
  const Noted& noted = note(Kind::CopyBegins, now, m, bytes, offsets, EACH_LANE);
  each_piece<true>(noted, [&](uint32_t n, uint64_t bits, uint32_t lanes) {
    Line& line = lines_[n];
    if (line.exact || (line.copied & bits) || meets_write(line, bits, now) || meets_read(line, bits, now))
      look_exactly(w, noted, lanes, n);
    line.copied |= bits;
  });
}

void Shadow::copy_ends(Warp& w, const Ins* i, uint32_t m, unsigned bytes, const uint32_t* offsets) {
  const Mark now = mark(w, i);
  const Noted& noted = note(Kind::CopyEnds, now, m, bytes, offsets, EACH_LANE);
  each_piece<false>(noted, [&](uint32_t n, uint64_t bits, uint32_t lanes) {
    Line& line = lines_[n];
    if (line.exact) play(noted, lanes, n);
    line.copied &= ~bits;
    note_write(line, bits, now, NO_NOTE);
  });
}

void Shadow::written_from_outside(uint32_t offset, unsigned bytes) {
  uint32_t offsets[LANES];
  std::fill_n(offsets, LANES, offset);
  const Noted& noted = note(Kind::FromOutside, static_cast<Mark>(block_began_) << 32, 1, bytes, offsets, EACH_LANE);
  each_piece<false>(noted, [&](uint32_t n, uint64_t bits, uint32_t lanes) {
    lines_[n].written |= bits;
    lines_[n].copied &= ~bits;
    if (lines_[n].exact) play(noted, lanes, n);
  });
}

// --- cells ------------------------------------------------------------------------------------------------------------

template <class Visit>
inline void Shadow::each_cell(uint32_t from, uint32_t to, const Visit& visit) {
  const uint32_t measure = from | to, finest = measure & -measure;
  if (finest < grain_) refine(finest);
  const int shift = __builtin_ctz(grain_);
  for (uint32_t at = from; at < to; at += grain_) visit(cells_[at >> shift], at);
}

void Shadow::global(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, const uint64_t* addresses) {
  if (access == Access::ReadWrite) fenced(w);
  GlobalShadow::instance().access(*this, w, i, m, bytes, access, addresses, mark(w, i));
}

bool Shadow::is_quiet(uint64_t address) {
  GlobalShadow& shadow = GlobalShadow::instance();
  const uint64_t changes = shadow.changes();
  if (quiet_since_ != changes) quiet_.clear();
  quiet_since_ = changes;
  for (const Quiet& range : quiet_)
    if (address - range.base < range.end - range.base) return true;
  Quiet range{};
  if (!shadow.find_written(address, &range.base, &range.end)) return false;
  quiet_.push_back(range);
  return true;
}

std::string Shadow::buffer_of(uint32_t byte, uint32_t* offset) const {
  const unsigned fixed = block_->kernel().dynamic_offset;
  const bool dynamic = byte >= fixed && block_->plan().dynamic_shared_bytes;
  *offset = dynamic ? byte - fixed : byte;
  return dynamic ? "dynamic shared memory" : "static shared memory";
}

void Shadow::report(Warp& w, Mark earlier, bool earlier_wrote, Mark now, bool writes, uint32_t byte, unsigned bytes) {
  const BlockRun& block = *block_;
  uint32_t offset;
  Fault fault;
  fault.kind = "RACE";
  fault.buffer = buffer_of(byte, &offset);
  fault.has_address = true;
  fault.address = byte;
  fault.access = writes ? "write" : "read";
  fault.bytes = bytes;
  fault.has_thread = true;
  fault.thread = block.thread_index(thread_of(now));
  fault.place = place_of(block, now);
  fault.warp = static_cast<int>(w.index);
  fault.lanes = 1u << (now & 31);
  const std::string other = place_of(block, earlier);
  const uint3 theirs = block.thread_index(thread_of(earlier));
  const std::string what = "thread " + describe(fault.thread) + verb(writes) + " byte " + std::to_string(offset) +
                           " of " + fault.buffer + " at " + fault.place;
  if (earlier & IN_FLIGHT)
    fault.message = what + ", which a cp.async of thread " + describe(theirs) + " at " + other +
                    " is still writing, with no wait for it (cp.async.wait_group, and a barrier for other threads)" +
                    " between them";
  else
    fault.message = what + ", which thread " + describe(theirs) + (earlier_wrote ? " wrote" : " read") + " at " +
                    other + ", with no __syncthreads()" + ((earlier ^ now) & WARP_BITS ? "" : " or __syncwarp()") +
                    " between them" + why_volatile(earlier | now);
  fault.threads.push_back({fault.thread, std::string(writes ? "write" : "read") + " at " + fault.place});
  fault.threads.push_back({theirs, std::string(earlier_wrote ? "write" : "read") + " at " + other});
  fault.threads_total = 2;
  throw fault;
}

void Shadow::note_unwritten(Warp& w, const Ins* i, unsigned lane, uint32_t byte, unsigned bytes) {
  if (unwritten_) return;
  uint32_t offset;
  Fault fault;
  fault.kind = "UNINITIALISED_READ";
  fault.buffer = buffer_of(byte, &offset);
  fault.has_address = true;
  fault.address = byte;
  fault.access = "read";
  fault.bytes = bytes;
  fault.message =
      "read byte " + std::to_string(offset) + " of " + fault.buffer + ", which no thread of the block has" + " written";
  try {
    w.fail(i, lane, std::move(fault));
  } catch (Fault& whole) {
    unwritten_ = std::move(whole);
  }
}

// --- device memory ----------------------------------------------------------------------------------------------------

GlobalShadow& GlobalShadow::instance() {
  static GlobalShadow shadow;
  return shadow;
}

GlobalShadow::Cell& GlobalShadow::Region::cell(uint64_t offset) {
  std::unique_ptr<Cell[]>& chunk = chunks[offset / CHUNK_BYTES];
  if (!chunk) chunk = std::make_unique<Cell[]>(CHUNK_BYTES / grain);
  return chunk[offset % CHUNK_BYTES / grain];
}

void GlobalShadow::Region::refine(unsigned finer) {
  const unsigned parts = grain / finer;
  for (std::unique_ptr<Cell[]>& chunk : chunks) {
    if (!chunk) continue;
    auto more = std::make_unique<Cell[]>(CHUNK_BYTES / finer);
    for (unsigned n = 0; n < CHUNK_BYTES / finer; ++n) more[n] = chunk[n / parts];
    chunk = std::move(more);
  }
  grain = finer;
}

bool GlobalShadow::Region::is_unwritten(uint64_t address) const {
  return std::any_of(unwritten.begin(), unwritten.end(),
                     [=](const auto& range) { return address >= range.first && address < range.second; });
}

GlobalShadow::Region* GlobalShadow::region_of(uint64_t address) {
  auto after = regions_.upper_bound(address);
  if (after != regions_.begin()) {
    Region& region = std::prev(after)->second;
    if (address - region.base < region.bytes) return &region;
  }
  CUdeviceptr base;
  size_t size;
  if (!DeviceMemory::instance().find_visible(address, &base, &size)) return nullptr;  // pinned memory of the host
  Region& region = regions_[base];
  region.base = base;
  region.bytes = size;
  region.chunks.resize((size + CHUNK_BYTES - 1) / CHUNK_BYTES);
  return &region;
}

bool GlobalShadow::find_written(uint64_t address, uint64_t* base, uint64_t* end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Region* region = region_of(address);
  if (!region || !region->unwritten.empty()) return false;
  *base = region->base;
  *end = region->base + region->bytes;
  return true;
}

void GlobalShadow::mark_unwritten(uint64_t address, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++changes_;
  Region* region = region_of(address);
  if (!region) return;
  region->unwritten.emplace_back(address, address + bytes);
  for (std::unique_ptr<Cell[]>& chunk : region->chunks) chunk.reset();
}

void GlobalShadow::note_written(uint64_t address, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++changes_;
  auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return;
  Region& region = std::prev(after)->second;
  std::vector<std::pair<uint64_t, uint64_t>> left;
  for (const auto& [from, to] : region.unwritten) {
    if (from < std::min(to, address)) left.emplace_back(from, std::min(to, address));
    if (std::max(from, address + bytes) < to) left.emplace_back(std::max(from, address + bytes), to);
  }
  region.unwritten = std::move(left);
}

void GlobalShadow::forget_unwritten() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++changes_;
  for (auto& [base, region] : regions_) region.unwritten.clear();
}

void GlobalShadow::forget(uint64_t address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++changes_;
  const auto region = regions_.lower_bound(address);
  CUdeviceptr base;
  size_t size;
  if (region != regions_.end() && DeviceMemory::instance().find(region->first, &base, &size) && base == address)
    regions_.erase(region);
}

bool GlobalShadow::races(const Shadow& shadow, const Touch& earlier, bool earlier_wrote, const Touch& now,
                         bool writes) {
  if (earlier.launch != now.launch) return false;
  if (earlier.block == now.block) return shadow.races(earlier.mark, earlier_wrote, now.mark, writes);
  return !shadow.orders_blocks() && !(earlier_wrote && writes && (earlier.mark & now.mark & VOLATILE));
}

void GlobalShadow::access(const Shadow& shadow, Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access,
                          const uint64_t* addresses, Mark mark) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool meant_to_meet = access == Access::ReadWrite || i->sharing == Sharing::Synchronised;
  Region* region = nullptr;
  for (unsigned k = 0; k < LANES; ++k) {
    if (!(m >> k & 1)) continue;
    const uint64_t address = addresses[k];
    if (!region || address - region->base >= region->bytes) region = region_of(address);
    if (!region) continue;
    if (i->read_only && region->unwritten.empty()) continue;
    const auto measure = static_cast<uint32_t>(bytes | (address - region->base)), finest = measure & -measure;
    if (finest < region->grain) region->refine(finest);
    const Touch now{mark | k, shadow.linear_block(), static_cast<uint32_t>(shadow.block().plan().launch)};
    for (unsigned done = 0; done < bytes; done += region->grain) {
      Cell& cell = region->cell(address + done - region->base);
      if (access != Access::Write && !cell.writer.launch && !region->unwritten.empty() &&
          region->is_unwritten(address + done))
        report_unwritten(w, i, k, address + done, bytes);
      if (meant_to_meet) {
        if (access != Access::Read && !cell.writer.launch) cell.writer.launch = ~0u;  // written; races with nobody
        continue;
      }
      const bool writes = access == Access::Write;
      if (races(shadow, cell.writer, true, now, writes))
        report(shadow, w, i, cell.writer, true, now, writes, address + done, bytes);
      if (!writes) {
        const bool another = cell.reader.launch == now.launch &&
                             (cell.reader.block != now.block || shadow.unordered(cell.reader.mark, now.mark));
        (another ? cell.other : cell.reader) = now;
        continue;
      }
      for (const Touch* reader : {&cell.reader, &cell.other})
        if (races(shadow, *reader, false, now, true))
          report(shadow, w, i, *reader, false, now, true, address + done, bytes);
      cell.writer = now;
    }
  }
}

void GlobalShadow::report(const Shadow& shadow, Warp& w, const Ins* i, const Touch& earlier, bool earlier_wrote,
                          const Touch& now, bool writes, uint64_t address, unsigned bytes) {
  const BlockRun& block = shadow.block();
  const dim3 grid = block.plan().grid;
  Fault fault;
  fault.kind = "RACE";
  fault.buffer = DeviceMemory::instance().describe(address);
  fault.has_address = true;
  fault.address = address;
  fault.access = writes ? "write" : "read";
  fault.bytes = bytes;
  fault.has_thread = true;
  fault.thread = block.thread_index(thread_of(now.mark));
  fault.place = block.place_of(i);
  fault.warp = static_cast<int>(w.index);
  fault.lanes = 1u << (now.mark & 31);
  const std::string other = place_of(block, earlier.mark);
  const uint3 theirs = block.thread_index(thread_of(earlier.mark));
  const uint3 their_block{earlier.block % grid.x, earlier.block / grid.x % grid.y, earlier.block / grid.x / grid.y};
  const bool same_block = earlier.block == now.block;
  fault.message = "thread " + describe(fault.thread) + " of block " + describe(block.index()) + verb(writes) + " " +
                  fault.buffer + " at " + fault.place + ", which thread " + describe(theirs) + " of " +
                  (same_block ? "the same block" : "block " + describe(their_block)) +
                  (earlier_wrote ? " wrote" : " read") + " at " + other + ", with " +
                  (same_block ? "no barrier" : "nothing that orders the blocks") + " between them" +
                  why_volatile(earlier.mark | now.mark);
  fault.threads.push_back({fault.thread, std::string(writes ? "write" : "read") + " at " + fault.place});
  fault.threads.push_back({theirs, std::string(earlier_wrote ? "write" : "read") + " at " + other});
  fault.threads_total = 2;
  throw fault;
}

void GlobalShadow::report_unwritten(Warp& w, const Ins* i, unsigned lane, uint64_t address, unsigned bytes) {
  Fault fault;
  fault.kind = "UNINITIALISED_READ";
  fault.buffer = DeviceMemory::instance().describe(address);
  fault.has_address = true;
  fault.address = address;
  fault.access = "read";
  fault.bytes = bytes;
  fault.message = "read " + fault.buffer + ", which nobody has written";
  w.fail(i, lane, std::move(fault));
}

}  // namespace flashcore::emu::ptx
