// Finds races in shared memory.
#include "races.h"

#include <algorithm>
#include <utility>

#include "lanes.h"
#include "races/marks.h"

namespace flashcore::emu::ptx {

Shadow::Shadow() : log_(new Noted[LOG_LENGTH]) {}

void Shadow::begin(BlockRun& block) {
  block_ = &block;
  taint.begin(block);
  const dim3 grid = block.plan().grid;
  const uint3 at = block.index();
  linear_block_ = (at.z * grid.y + at.y) * grid.x + at.x;
  const Kernel& kernel = block.kernel();
  if (stamp_ > ~0u / 2) {
    cells_.clear();
    lines_.clear();
    readers_.clear();
    atomics_.clear();
    stamp_ = 0;
  }
  const size_t lines = (block.shared_bytes + LINE_BYTES - 1) / LINE_BYTES;
  if (lines_of_ != kernel.serial || lines_.size() != lines) lines_.assign(lines, Line());
  writers_more_.resize(lines);
  readers_more_.resize(lines);
  if (lines_of_ != kernel.serial) {
    orderings_.clear();
    uses_async_proxy_ = by_parts_ = false;
    for (const Statement& s : kernel.function->statements) {
      orderings_.push_back(ordering_of(s));
      uses_async_proxy_ |= s.op == "wgmma" || (s.op == "cp" && has(s, "bulk"));
      by_parts_ |= synchronises_some(s);
    }
  }
  columns_ = by_parts_ ? (block.threads() + LANES - 1) / LANES + (ACTORS - FIRST_WARPGROUP) : 0;
  if (readers_.size() != lines * columns_) readers_.assign(lines * columns_, 0);
  products_ = {};
  landed_.clear();
  lines_of_ = kernel.serial;
  for (const uint32_t at : unfenced_) stores_[at].warps = 0;
  unfenced_.clear();
  stores_.resize(uses_async_proxy_ ? block.shared_bytes / STORES_BYTES + 1 : 0);
  for (Line& line : lines_) line.written = line.copied = 0;
  noted_ = 0;
  room_ = SHORT_LOG;
  cells_.resize((block.shared_bytes + grain_ - 1) / grain_);
  block_began_ = since_ = ++stamp_;
  seen_epoch_ = block.epoch;
  warps_.assign((block.threads() + LANES - 1) / LANES, Seen());
  fenced_.assign(warps_.size(), ~block.epoch);
  fences_.assign(warps_.size(), Fence());
  acquired_ = Clock();
  to_acquire_.m = 0;
  awaited_.assign(warps_.size(), Awaited());
  warp_orders_.begin(warps_.size());
  bulk_stores_.clear();
  bulk_groups_.clear();
}

void Shadow::end() {
  if (taint.reached) throw *std::exchange(taint.reached, std::nullopt);
}

/** The warp's stamp, and the epochs for which it is valid. */
Shadow::Seen& Shadow::seen_by(Warp& w) {
  if (block_->epoch != seen_epoch_) {
    end();
    seen_epoch_ = block_->epoch;
    since_ = stamp_;
    drop([](Mark) { return true; });
    room_ = std::max(2 * noted_, SHORT_LOG);
  }
  Seen& seen = warps_[w.index];
  if (seen.block_epoch != block_->epoch || seen.warp_epoch != w.epoch)
    seen = {block_->epoch, w.epoch, ++stamp_, seen.stamp, false};
  return seen;
}

void Shadow::lanes_meet(Warp& w, uint32_t lanes) {
  Seen& seen = seen_by(w);
  lanes_.resize(warps_.size());
  LaneClocks& clocks = lanes_[w.index];
  if (!std::exchange(seen.by_lanes, true))
    for (auto& clock : clocks) clock.fill(seen.whole);
  std::array<uint32_t, LANES> joined{};
  for (unsigned k = 0; k < LANES; ++k)
    for (unsigned n = 0; n < LANES && (lanes >> k & 1); ++n) joined[n] = std::max(joined[n], clocks[k][n]);
  for (unsigned k = 0; k < LANES; ++k)
    if (lanes >> k & 1) joined[k] = seen.stamp;
  for (unsigned k = 0; k < LANES; ++k)
    if (lanes >> k & 1) clocks[k] = joined;
  step(seen);
}

/** Accesses of this access's actor up to this stamp come before it, whatever their lanes. */
inline uint32_t Shadow::whole_before(Mark now) const {
  const unsigned actor = actor_of(now);
  return actor < warps_.size() ? warps_[actor].whole : stamp_of(now) - 1;
}

namespace {
uint64_t place_bits(const Ins* i) { return static_cast<uint64_t>(i->place < PLACES ? i->place : 0) << PLACE_SHIFT; }
Mark mark_at(uint32_t stamp, uint64_t place, unsigned actor) {
  return static_cast<Mark>(stamp) << 32 | place | actor << ACTOR_SHIFT;
}
}  // namespace

Mark Shadow::mark(Warp& w, const Ins* i) {
  const Seen& seen = seen_by(w);
  observer_ = w.index;
  return mark_at(seen.stamp, place_bits(i), w.index) | (i->sharing == Sharing::Volatile ? VOLATILE : 0) |
         (i->is_checked ? MEETS_ATOMICS : 0);
}

/** The thread that made an access; for a warpgroup's product, its first thread. */
unsigned Shadow::thread_at(Mark mark) const {
  const unsigned actor = actor_of(mark);
  if (actor < FIRST_COPIER) return thread_of(mark);
  if (actor >= FIRST_WARPGROUP) return (actor - FIRST_WARPGROUP) * WARPGROUP_WARPS * LANES;
  const auto found = std::lower_bound(landed_.begin(), landed_.end(), std::make_pair(stamp_of(mark), 0u));
  return found == landed_.end() ? 0 : found->second;
}

void Shadow::arrives(Warp& w, PhaseClocks& clocks, bool releases) {
  Seen& seen = seen_by(w);
  warp_orders_.publish(w.index, clocks.arriving, releases ? seen.stamp : fences_[w.index].block);
  step(seen);  // accesses after this are not ordered before the barrier
}

uint32_t Shadow::arrives_after_copies(Warp& w) {
  Seen& seen = seen_by(w);
  const uint32_t stamp = seen.stamp;
  step(seen);
  return stamp;
}

// --- products of a warpgroup ------------------------------------------------------------------------------------------

Shadow::ProductGroup& Shadow::group_of(const Warp& w, uint32_t number) {
  std::vector<ProductGroup>& groups = products_[w.index / WARPGROUP_WARPS].all;
  while (groups.size() <= number) {
    groups.emplace_back();
    groups.back().stamp = ++stamp_;
  }
  return groups[number];
}

void Shadow::commits_products(Warp& w, uint32_t number) {
  Seen& seen = seen_by(w);
  group_of(w, number).committed[w.index % WARPGROUP_WARPS] = seen.stamp;
  step(seen);
}

bool Shadow::reads_operands() const {
  return std::any_of(products_.begin(), products_.end(),
                     [](const auto& groups) { return groups.done < groups.all.size(); });
}

/** Orders the product's reads before the warp, and with them what the four warps did before they committed it. */
void Shadow::waited_for_products(const Warp& w, uint32_t number) {
  const ProductGroup& group = group_of(w, number);
  ProductGroups& groups = products_[w.index / WARPGROUP_WARPS];
  groups.done = std::max<size_t>(groups.done, number + 1);
  const unsigned first = w.index / WARPGROUP_WARPS * WARPGROUP_WARPS;
  for (unsigned n = 0; n < WARPGROUP_WARPS; ++n) warp_orders_.raise(w.index, first + n, group.committed[n]);
  warp_orders_.raise(w.index, FIRST_WARPGROUP + w.index / WARPGROUP_WARPS, group.stamp);
}

void Shadow::operand(Warp& w, const Ins* i, uint32_t m, const uint32_t* offsets) {
  if (!block_->kernel().homes.empty()) look_at_home({w, i, m, 16, Access::Read}, offsets);
  seen_by(w);
  observer_ = w.index;
  const uint32_t stamp = group_of(w, block_->products[w.index].committed()).stamp;
  read(w, i, mark_at(stamp, place_bits(i), FIRST_WARPGROUP + w.index / WARPGROUP_WARPS), {m, 16, offsets});
}

void Shadow::fenced(const Warp& w) { fenced_[w.index] = block_->epoch; }

void Shadow::fence(Warp& w, const Ins* i) {
  fenced(w);
  mark(w, i);  // records the warp's new epochs before the fence
  const Ordering& order = orderings_[i->statement];
  if (order.fences) fence(w, order.of_device);
  if (order.of_async_proxy) fence_proxy(w);
}

void Shadow::note_stores(Mark now, const Touched& touched) {
  const auto& [m, bytes, offsets, lane] = touched;
  for (uint32_t left = m; left; left &= left - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(left));
    for (uint32_t at = offsets[k] / STORES_BYTES; at * STORES_BYTES < offsets[k] + bytes; ++at) {
      if (!stores_[at].warps) unfenced_.push_back(at);
      stores_[at].latest = now | (lane == EACH_LANE ? k : static_cast<unsigned>(lane));
      stores_[at].warps |= 1u << actor_of(now);
    }
  }
}

/** A fence covers the warp's own stores, and the stores of others that a barrier has ordered before it. */
void Shadow::fence_proxy(const Warp& w) {
  const auto is_fenced = [&](uint32_t at) {
    Stores& stores = stores_[at];
    const uint32_t stamp = stamp_of(stores.latest);
    if (stamp <= since_ || warp_orders_.covers(w.index, actor_of(stores.latest), stamp)) stores.warps = 0;
    stores.warps &= ~(1u << w.index);
    return stores.warps == 0;
  };
  unfenced_.erase(std::remove_if(unfenced_.begin(), unfenced_.end(), is_fenced), unfenced_.end());
}

void Shadow::look_for_stores(const LaneAt& by, uint32_t from, unsigned bytes, bool writes) {
  for (uint32_t at = from / STORES_BYTES; at * STORES_BYTES < from + bytes && at < stores_.size(); ++at)
    if (stores_[at].warps)
      report(by.w, {stores_[at].latest, true, mark(by.w, by.i) | by.lane, writes, std::max(from, at * STORES_BYTES),
                    bytes, true});
}

void Shadow::fence(Warp& w, bool of_device) {
  Seen& seen = warps_[w.index];
  Fence& fence = fences_[w.index];
  fence.block = seen.stamp;
  if (to_acquire_.m) acquire();
  if (Awaited& awaited = awaited_[w.index]; awaited.any) {
    warp_orders_.acquire(w.index, awaited.own);
    // A fence of the block orders nothing of other blocks: a later one of the device still has to.
    if (of_device) {
      acquired_.join(awaited.others);
      awaited = Awaited();
    }
  }
  if (of_device) {
    fence.device = seen.stamp;
    fence.since = since_;
  }
  seen.stamp = ++stamp_;  // accesses after this are not ordered before the fence
}

/**
 * Handles an atomic, a volatile access or an access with memory-order semantics. It acquires what was published at the
 * address, and publishes the accesses that a fence follows. Acquiring needs no fence here, because code after a branch
 * on the value runs later.
 */
void Shadow::synchronise(const WarpAccess& by, const uint64_t* addresses) {
  const auto& [w, i, m, bytes, access] = by;
  mark(w, i);
  if (access == Access::ReadWrite) fenced(w);
  const Ordering& order = orderings_[i->statement];
  if (order.fences) fence(w, order.of_device);
  const bool is_global = addresses[__builtin_ctz(m)] >> 32 != 0;
  const bool of_device = is_global && order.of_device;
  if (access != Access::Read) publish(w, m, addresses, of_device);
  if (access == Access::Write || !order.acquires) return;
  to_acquire_ = {m, w.index, of_device, order.acquires_at_fence, {}};
  std::copy_n(addresses, LANES, to_acquire_.addresses);
}

void Shadow::publish(Warp& w, uint32_t m, const uint64_t* addresses, bool of_device) {
  for (uint32_t left = m; left; left &= left - 1)
    warp_orders_.publish(w.index, addresses[__builtin_ctz(left)], fences_[w.index].block);
  if (!of_device) return;
  Clock own = acquired_;
  for (unsigned n = 0; n < fences_.size(); ++n) {
    // The fence of another warp counts if a barrier followed it.
    if (fences_[n].device && (n == w.index || fences_[n].device <= since_))
      own.add({linear_block_, n, fences_[n].device, fences_[n].since});
    // Adds the accesses that a barrier of some warps has ordered before this warp's fence.
    const uint32_t passed = warp_orders_.passed(w.index)[n];
    if (n != w.index && fences_[w.index].device && passed) own.add({linear_block_, n, passed, 0});
  }
  GlobalShadow::instance().publish(*this, m, addresses, own);
}

/** Acquires what was published before the access. Runs after the access, because other blocks run in the meantime. */
void Shadow::acquire() {
  const uint32_t m = std::exchange(to_acquire_.m, 0);
  Awaited* awaited = m && to_acquire_.at_fence ? &awaited_[to_acquire_.warp] : nullptr;
  if (awaited) awaited->any = true;
  for (uint32_t left = m; left; left &= left - 1) {
    const uint64_t address = to_acquire_.addresses[__builtin_ctz(left)];
    if (awaited)
      warp_orders_.published_at(address, awaited->own);
    else
      warp_orders_.acquire(to_acquire_.warp, address);
  }
  if (m && to_acquire_.is_global)
    GlobalShadow::instance().acquire(*this, m, to_acquire_.addresses, awaited ? awaited->others : acquired_);
}

bool Shadow::is_acquired(uint32_t block, Mark earlier) const {
  return acquired_.covers(block, thread_of(earlier) / LANES, stamp_of(earlier));
}

bool Shadow::is_of_cluster(uint32_t block) const {
  const dim3 grid = block_->plan().grid, size = block_->plan().cluster;
  const uint3 here = block_->index();
  return block % grid.x / size.x == here.x / size.x && block / grid.x % grid.y / size.y == here.y / size.y &&
         block / grid.x / grid.y / size.z == here.z / size.z;
}

bool Shadow::unordered_since_barrier(Mark earlier, Mark now) const {
  const uint32_t stamp = stamp_of(earlier);
  if (earlier & IN_FLIGHT) return stamp > block_began_;
  if (actor_of(earlier) == observer_) {
    const Seen& seen = warps_[observer_];
    if (stamp <= seen.whole || actor_of(now) != observer_ || !((earlier ^ now) & LANE_BITS)) return false;
    if (seen.by_lanes && stamp <= lanes_[observer_][now & LANE_BITS][earlier & LANE_BITS]) return false;
  }
  return !warp_orders_.covers(observer_, actor_of(earlier), stamp);
}

/**
 * True if `now` is ordered after the actor's access at this stamp, whichever lanes made the two. False if that depends
 * on lanes.
 */
inline bool Shadow::follows(unsigned actor, uint32_t stamp, Mark now) const {
  if (stamp <= since_) return true;
  if (actor == observer_) return stamp <= warps_[actor].whole || actor_of(now) != observer_;
  return actor != SEVERAL && warp_orders_.covers(observer_, actor, stamp);
}

/**
 * PTX's volatile means .relaxed.sys: a single access that orders no other access. If both warps have passed a fence, a
 * flag or a lock may have ordered the two accesses. Two volatile writes to one flag are also intended.
 */
bool Shadow::meant_to_meet(Mark earlier, bool earlier_wrote, Mark now, bool writes) const {
  if (!((earlier | now) & VOLATILE) || (earlier & IN_FLIGHT)) return false;
  if (earlier_wrote && writes && (earlier & now & VOLATILE)) return true;
  const auto passed_fence = [&](Mark mark) { return fenced_[thread_at(mark) / LANES] == block_->epoch; };
  return passed_fence(earlier) && passed_fence(now);
}

/** Makes cells this small from now on, because two threads may write different parts of a word. */
void Shadow::refine(unsigned bytes) {
  const unsigned parts = grain_ / bytes;
  std::vector<Cell> finer;
  finer.reserve(cells_.size() * parts);
  for (const Cell& cell : cells_) finer.insert(finer.end(), parts, cell);
  cells_ = std::move(finer);
  grain_ = bytes;
}

inline void Shadow::note_reader(Cell& cell, Mark now) const {
  if (stamp_of(cell.reader) <= since_ || !((cell.reader ^ now) & THREAD_BITS))
    cell.reader = now;
  else if (actor_of(cell.reader) != actor_of(now))
    note_other_reader(cell, now);
  else if (!unordered(cell.reader, now))
    cell.reader = now;
  else
    cell.same_warp = now;
}

/** Keeps the readers that are not ordered before the new one. */
void Shadow::note_other_reader(Cell& cell, Mark now) const {
  if (!by_parts_) {
    cell.other_warp = now;
    return;
  }
  const unsigned warp = thread_at(now) / LANES;
  const auto is_ordered = [&](Mark reader) {
    return stamp_of(reader) <= since_ || warp_orders_.covers(warp, actor_of(reader), stamp_of(reader));
  };
  if (is_ordered(cell.reader))
    cell.reader = now;
  else if (actor_of(cell.other_warp) == actor_of(now) || is_ordered(cell.other_warp))
    cell.other_warp = now;
  else
    cell.same_warp = now;
}

inline bool Shadow::touched_since_barrier(const Cell& cell) const {
  const Mark newest = std::max(std::max(cell.writer, cell.reader), std::max(cell.other_warp, cell.same_warp));
  return stamp_of(newest) > since_ || (cell.writer & IN_FLIGHT);
}

void Shadow::check_write(const LaneAt& at, const Noted& noted, const Cell& cell, uint32_t byte) {
  const Mark now = noted.mark_of(at.lane);
  if (races(cell.writer, true, now, true) && ((cell.writer & IN_FLIGHT) || !stores_the_same(at, noted, byte, grain_)))
    report(at.w, {cell.writer, true, now, true, byte, noted.bytes});
  for (const Mark reader : {cell.reader, cell.other_warp, cell.same_warp})
    if (races(reader, false, now, true)) report(at.w, {reader, false, now, true, byte, noted.bytes});
}

/** True if memory already has the stored value, or an earlier lane of the same instruction stores it. */
bool Shadow::stores_the_same(const LaneAt& at, const Noted& noted, uint32_t byte, unsigned count) const {
  uint32_t value, other = 0;
  if (noted.lane != EACH_LANE || !stored_value(at, byte - noted.offsets[at.lane], count, &value)) return false;
  for (unsigned k = at.lane; k-- > 0;) {
    const uint32_t begin = noted.offsets[k];
    if (!(noted.m >> k & 1) || byte < begin || byte + count > begin + noted.bytes) continue;
    return stored_value({at.w, at.i, k}, byte - begin, count, &other) && other == value;
  }
  memcpy(&other, block_->shared + byte, count);
  return other == value;
}

// --- 64 bytes at a time -----------------------------------------------------------------------------------------------

/** Logs an access. The returned reference is valid until the next call. */
inline Shadow::Noted& Shadow::note(Kind kind, Mark now, const Touched& touched) {
  if (__builtin_expect(noted_ >= room_, 0)) make_room();
  Noted& noted = log_[noted_++];
  noted.now = now;
  noted.m = touched.m;
  noted.bytes = touched.bytes;
  noted.kind = kind;
  noted.lane = touched.lane;
  noted.apart = Answer::Unknown;
  memcpy(noted.offsets, touched.offsets, sizeof noted.offsets);
  return noted;
}

/** Visits each line between two offsets with its bits, as if every lane touched all of them. */
template <class Visit>
inline void Shadow::each_line(uint32_t from, uint32_t to, const Visit& visit) {
  for (uint32_t at = from; at < to;) {
    const uint32_t line = at / LINE_BYTES, until = std::min(to, (line + 1) * LINE_BYTES);
    visit(line, ~0ull >> (LINE_BYTES - (until - at)) << at % LINE_BYTES, ALL);
    at = until;
  }
}

/** Visits, for each lane, the lines and bits that the lane touches. */
template <class Visit>
inline void Shadow::each_lane_piece(const Noted& noted, uint32_t m, const Visit& visit) {
  for (uint32_t left = m; left; left &= left - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(left));
    each_line(noted.offsets[k], noted.offsets[k] + noted.bytes,
              [&](uint32_t line, uint64_t bits, uint32_t) { visit(line, bits, 1u << k); });
  }
}

/**
 * Visits each line with its touched bits and the lanes that touch them, in lane order. With APART, two lanes that touch
 * the same bytes are visited separately.
 */
template <bool APART, class Visit>
inline void Shadow::each_piece(const Noted& noted, uint32_t m, const Visit& visit) {
  const unsigned bytes = noted.bytes;
  const auto first = static_cast<unsigned>(__builtin_ctz(m));
  // A lane's address is a multiple of the access's width, except for rows of a matrix.
  if (noted.lane == EACH_LANE && bytes < LINE_BYTES && !(bytes & (bytes - 1)) &&
      !(noted.offsets[first] & (bytes - 1))) {
    const uint64_t ones = (1ull << bytes) - 1;
    uint32_t line = noted.offsets[first] / LINE_BYTES, lanes = 0;
    uint64_t bits = 0;
    for (uint32_t left = m; left; left &= left - 1) {
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
  each_lane_piece(noted, m, visit);
}

/** True if a write to one of these bytes since the barrier may be unordered with `now`. */
inline bool Shadow::meets_write(const Line& line, uint64_t bits, Mark now) const {
  return line.write_stamp > since_ && (line.writes & bits) && !follows(line.writer.actor, line.write_stamp, now);
}
inline bool Shadow::meets_read(const Line& line, uint64_t bits, Mark now) const {
  return line.read_stamp > since_ && (line.reads & bits) && !follows(line.reader.actor, line.read_stamp, now) &&
         !(line.reader.actor == SEVERAL && by_parts_ && follow_readers(line, now));
}

/** True if `now` is ordered after all reads of the line. */
bool Shadow::follow_readers(const Line& line, Mark now) const {
  const uint32_t* stamps = &readers_[number_of(line) * columns_];
  const auto warps = static_cast<unsigned>(warps_.size());
  for (unsigned n = 0; n < columns_; ++n)
    if (!follows(n < warps ? n : FIRST_WARPGROUP + n - warps, stamps[n], now)) return false;
  return true;
}

inline void Shadow::note_reader_of(Line& line, uint32_t n, Mark now, Note note) {
  const auto actor = static_cast<uint16_t>(actor_of(now));
  const bool others = line.reads && line.read_stamp > since_;
  if (by_parts_) {
    const auto warps = static_cast<unsigned>(warps_.size());
    readers_[static_cast<size_t>(n) * columns_ + (actor < warps ? actor : warps + actor - FIRST_WARPGROUP)] =
        stamp_of(now);
  }
  const bool unmet = others && line.read_stamp > whole_before(now);
  line.reader.actor = others && line.reader.actor != actor ? SEVERAL : actor;
  if (line.reader.actor == SEVERAL)
    line.reader.count = Notes::MOST + 1;
  else
    add_note(line.reader, readers_more_[n], !unmet, note);
  line.reads = others ? line.reads | note.bits : note.bits;
  line.read_stamp = others ? std::max(line.read_stamp, stamp_of(now)) : stamp_of(now);
}

/**
 * Prepares for a write that is ordered after the accesses to its bytes. If it is ordered after all accesses to the
 * line, these are forgotten.
 */
inline void Shadow::write_begins(Line& line, uint64_t bits, Mark now) const {
  if (!by_parts_) return;
  if ((line.writes & ~bits) == 0 || follows(line.writer.actor, line.write_stamp, now)) line.writes = 0;
  if ((line.reads & ~bits) == 0 || follows(line.reader.actor, line.read_stamp, now) ||
      (line.reader.actor == SEVERAL && follow_readers(line, now)))
    line.reads = 0;
}

/** True if each lane of one access touches only bytes that it touches in the other. */
inline bool Shadow::lies_within(const Noted& narrow, const Noted& wide) {
  const uint32_t room = wide.bytes - narrow.bytes;
  uint32_t outside = narrow.m & ~wide.m;
#pragma GCC ivdep
  for (unsigned k = 0; k < LANES; ++k) outside |= narrow.offsets[k] - wide.offsets[k] > room ? narrow.m & 1u << k : 0u;
  return !outside;
}

/** True if no two lanes touch the same bytes. Asked for each line of an access, and computed once. */
inline bool Shadow::Noted::lanes_are_apart() const {
  if (apart == Answer::Unknown) apart = !(bytes & (bytes - 1)) && are_apart(offsets, m) ? Answer::Yes : Answer::No;
  return apart == Answer::Yes;
}

/**
 * True if all earlier accesses to these bytes were by the lanes that touch them now, so that each lane meets only
 * itself.
 */
inline bool Shadow::of_same_lanes(const Notes& notes, const MoreNotes& more, uint64_t bits, const Noted& noted) const {
  if (notes.actor != actor_of(noted.now) || notes.count > Notes::MOST) return false;
  for (unsigned n = 0; n < notes.count; ++n) {
    const Note note = n == 0 ? Note{notes.bits, notes.index} : more[n - 1];
    if (!(note.bits & bits)) continue;
    const Noted& earlier = log_[note.index];
    if (earlier.lane != noted.lane) return false;
    if (noted.lane != EACH_LANE) continue;
    // If a lane's bytes are among those that it touches in the other access, they are not those of another lane.
    const Noted& wide = earlier.bytes < noted.bytes ? noted : earlier;
    const Noted& narrow = earlier.bytes < noted.bytes ? earlier : noted;
    if (&earlier == &noted || !lies_within(narrow, wide) || !wide.lanes_are_apart()) return false;
  }
  return true;
}

/** `is_first`: the lanes of the warp have met since the access before. */
inline void Shadow::add_note(Notes& notes, MoreNotes& more, bool is_first, Note note) {
  if (is_first) {
    notes.bits = note.bits;
    notes.index = note.index;
    notes.count = 1;
    return;
  }
  if (notes.count > Notes::MOST) return;
  uint64_t& latest = notes.count == 1 ? notes.bits : more[notes.count - 2u].bits;
  if (note.index == (notes.count == 1 ? notes.index : more[notes.count - 2u].index))
    latest |= note.bits;
  else if (notes.count++ < Notes::MOST)
    more[notes.count - 2u] = note;
}

inline void Shadow::note_write(Line& line, uint64_t bits, Mark now, uint32_t index) {
  const auto actor = static_cast<uint16_t>(actor_of(now));
  const bool others = line.writes && line.write_stamp > since_;
  const bool unmet = others && line.write_stamp > whole_before(now);
  line.writer.actor = others && line.writer.actor != actor ? SEVERAL : actor;
  if (line.writer.actor == SEVERAL || index == NO_NOTE)
    line.writer.count = Notes::MOST + 1;
  else
    add_note(line.writer, writers_more_[number_of(line)], !unmet, {bits, index});
  line.writes = others ? line.writes | bits : bits;
  line.written |= bits;
  line.write_stamp = others ? std::max(line.write_stamp, stamp_of(now)) : stamp_of(now);
}

/** Drops the accesses that no later access can race with, except copies in flight. */
template <class Ordered>
void Shadow::drop(const Ordered& is_ordered) {
  size_t kept = 0;
  for (size_t n = 0; n < noted_; ++n) {
    if (is_ordered(log_[n].now)) {
      if (log_[n].kind != Kind::CopyBegins) continue;
      uint32_t in_flight = 0;
      each_lane_piece(log_[n], log_[n].m, [&](uint32_t line, uint64_t bits, uint32_t lane) {
        if (lines_[line].copied & bits) in_flight |= lane;
      });
      if (!in_flight) continue;
      log_[n].m = in_flight;
    }
    if (kept != n) log_[kept] = log_[n];
    ++kept;
  }
  noted_ = kept;
}

/** Drops the accesses that are ordered before all warps that still run. */
void Shadow::make_room() {
  if (by_parts_) {
    ActorClock known;
    known.fill(~0u);
    for (const Warp& w : const_cast<BlockRun*>(block_)->warps())
      for (unsigned n = 0; n < ACTORS && w.live; ++n)
        if (n != w.index) known[n] = std::min(known[n], warp_orders_.passed(w.index)[n]);
    drop([&](Mark mark) { return stamp_of(mark) <= since_ || stamp_of(mark) <= known[actor_of(mark)]; });
    for (Line& line : lines_) line.writer.count = line.reader.count = Notes::MOST + 1;  // the log has other indices now
  }
  if (noted_ > LOG_LENGTH * 3 / 4) {
    // Too many accesses without a barrier for the log. From now on the lines that they touched are checked cell by
    // cell.
    for (size_t n = 0; n < noted_; ++n)
      each_piece<false>(log_[n], [&](uint32_t line, uint64_t, uint32_t) {
        if (!lines_[line].exact) make_exact(line, log_[noted_ - 1], ALL);
      });
    noted_ = 0;
  }
  room_ = std::min(std::max(2 * noted_, SHORT_LOG), LOG_LENGTH);
}

/** Replays the log into the line's cells. Of the current instruction, only the lanes in `before` are replayed. */
void Shadow::make_exact(uint32_t line, const Noted& current, uint32_t before) {
  lines_[line].exact = true;
  for (const Noted* noted = log_.get(); noted < &current; ++noted) play(*noted, noted->m, line);
  play(current, current.m & before, line);
}

/** Writes a logged access, which is known to be ordered after earlier ones, to the cells of one line. */
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

/** Checks the cells that these lanes touch in a line, and updates the cells. */
void Shadow::look_exactly(Warp& w, const Ins* i, const Piece& piece) {
  const Noted& noted = piece.noted;
  const uint32_t lanes = piece.lanes, line = piece.line;
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
        if (races(cell.writer, true, now, false)) report(w, {cell.writer, true, now, false, byte, noted.bytes});
        note_reader(cell, now);
        return;
      }
      if (touched_since_barrier(cell)) check_write({w, i, k}, noted, cell, byte);
      cell.writer = noted.kind == Kind::CopyBegins ? now | IN_FLIGHT : now;
    });
  }
}

void Shadow::read_unwritten(Warp& w, const Ins* i, const Noted& noted) {
  const bool is_copy = block_->kernel().function->statements[i->statement].op == "cp";
  if (is_copy) return;  // copied() checks the bytes that are used
  for (uint32_t left = noted.m; left; left &= left - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(left));
    const uint32_t from = noted.offsets[k];
    uint64_t bits = 0;
    for (unsigned byte = 0; byte < noted.bytes; ++byte)
      if (!is_written(from + byte)) bits |= 1ull << byte % 64;
    if (!bits) continue;
    const auto lane = static_cast<unsigned>(noted.mark_of(k) & LANE_BITS);
    const uint32_t first = from + static_cast<uint32_t>(__builtin_ctzll(bits));
    if (!taint.carries(i)) return note_unwritten({w, i, lane}, first, noted.bytes);
    uint8_t origin = taint.origin_in_shared(first);
    if (!origin) origin = taint.origin_at(i, Taint::Source::Memory);
    if (!origin) origin = taint.add_origin(i, Taint::Source::Memory, unwritten_fault({w, i, lane}, first, noted.bytes));
    taint.read(k, bits, origin);
  }
}

void Shadow::copied(const LaneAt& at, uint32_t from, unsigned bytes, uint64_t to) {
  for (unsigned n = 0; n < bytes; ++n) {
    if (is_written(from + n)) continue;
    const uint8_t origin = taint.origin_in_shared(from + n);
    const Fault fault = origin ? taint.fault_of(origin) : unwritten_fault(at, from + n, bytes);
    if (to && GlobalShadow::instance().leave_unwritten(to + n, fault)) continue;
    if (origin) return taint.reach(at, origin, "a copy");
    return note_unwritten(at, from + n, bytes);
  }
}

void Shadow::follow_copy(const LaneAt& at, uint32_t to, uint64_t from, unsigned bytes) {
  if (is_quiet(from)) return;
  GlobalShadow::instance().each_unwritten(taint, at, {from, bytes},
                                          [&](unsigned n, uint8_t origin) { taint.copy_to_shared(to + n, origin); });
}

void Shadow::follow_copies(Warp& w, const Ins* i, const LaneCopies& copies) {
  auto [m, to, from, bytes] = copies;
  const Quiet* const found = quiet_at(from[__builtin_ctz(m)]);
  const Quiet quiet = found ? *found : Quiet{};
  for (; m; m &= m - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(m));
    if (!bytes[k] || from[k] - quiet.base < quiet.end - quiet.base) continue;
    follow_copy({w, i, k}, to[k], from[k], bytes[k]);
  }
}

/**
 * Finds an address that is computed from one array but is inside another. No other check finds it, because that memory
 * is valid.
 */
void Shadow::look_at_home(const WarpAccess& by, const uint32_t* offsets) const {
  auto [w, i, m, bytes, access] = by;
  const Home& home = block_->kernel().homes[i->statement];
  if (!home.to) return;
  for (; m; m &= m - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(m));
    if (offsets[k] >= home.from && (home.to == ~0u || offsets[k] + bytes <= home.to)) continue;
    Fault fault;
    fault.kind = "OUT_OF_BOUNDS";
    fault.error = CUDA_ERROR_ILLEGAL_ADDRESS;
    fault.has_address = true;
    fault.address = offsets[k];
    fault.access = access == Access::Read ? "read" : "write";
    fault.bytes = bytes;
    fault.message = (access == Access::Read ? "read " : "wrote ") + std::to_string(bytes) + " bytes at byte " +
                    std::to_string(static_cast<int64_t>(offsets[k]) - home.from) + " of the shared array " + home.name +
                    (home.to == ~0u ? "" : ", which has " + std::to_string(home.to - home.from)) +
                    ": this lies in another array";
    w.fail(i, k, std::move(fault));
  }
}

void Shadow::access(const WarpAccess& by, const uint32_t* offsets, int lane) {
  Warp& w = by.w;
  const Ins* const i = by.i;
  const Access access = by.access;
  const Touched touched{by.m, by.bytes, offsets, lane};
  if (!block_->kernel().homes.empty()) look_at_home(by, offsets);
  if (__builtin_expect(to_acquire_.m != 0, 0)) acquire();
  if (__builtin_expect(synchronises(i, access), 0) && lane == EACH_LANE) {
    uint64_t addresses[LANES];
    std::copy_n(offsets, LANES, addresses);
    synchronise(by, addresses);
  }
  const Mark now = mark(w, i);
  if (__builtin_expect(!bulk_stores_.empty(), 0) && access != Access::Read) look_for_bulk_stores(w, now, touched);
  if (!stores_.empty() && access != Access::Read) note_stores(now, touched);
  if (is_atomic(i, access)) return meet(w, i, note(Kind::FromOutside, now, touched), access);
  if (access == Access::Write) {
    const Noted& noted = note(Kind::Write, now, touched);
    const auto at = static_cast<uint32_t>(&noted - log_.get());
    const auto visit = [&](uint32_t n, uint64_t bits, uint32_t lanes) {
      Line& line = lines_[n];
      if (__builtin_expect(line.atomic_stamp > since_, 0)) look_for_atomics(w, i, {noted, lanes, n}, true);
      const bool ordered =
          !line.exact && !(line.copied & bits) &&
          (!meets_write(line, bits, now) || of_same_lanes(line.writer, writers_more_[n], bits, noted)) &&
          (!meets_read(line, bits, now) || of_same_lanes(line.reader, readers_more_[n], bits, noted));
      if (ordered) {
        write_begins(line, bits, now);
        return note_write(line, bits, now, at);
      }
      look_exactly(w, i, {noted, lanes, n});
      line.written |= bits;
    };
    if (by.m == ALL && lane == EACH_LANE && pattern_of(offsets, by.bytes) == Pattern::Contiguous)
      each_line(offsets[0], offsets[0] + LANES * by.bytes, visit);
    else
      each_piece<true>(noted, visit);
    return;
  }
  read(w, i, now, touched);
}

inline __attribute__((always_inline)) void Shadow::read(Warp& w, const Ins* i, Mark now, const Touched& touched) {
  const uint32_t m = touched.m, *const offsets = touched.offsets;
  const unsigned bytes = touched.bytes;
  const Noted& noted = note(Kind::Read, now, touched);
  const auto at = static_cast<uint32_t>(&noted - log_.get());
  bool unwritten = false;
  const auto visit = [&](uint32_t n, uint64_t bits, uint32_t lanes) {
    Line& line = lines_[n];
    unwritten |= (bits & ~line.written) != 0;
    if (__builtin_expect(line.atomic_stamp > since_, 0))
      look_for_atomics(w, i, {noted, lanes == ALL ? two_of_each(offsets) & m : lanes, n}, false);
    const bool ordered = !line.exact && !(line.copied & bits) &&
                         (!meets_write(line, bits, now) || of_same_lanes(line.writer, writers_more_[n], bits, noted));
    if (!ordered) return look_exactly(w, i, {noted, lanes == ALL ? two_of_each(offsets) : lanes, n});
    note_reader_of(line, n, now, {bits, at});
  };
  if (m != ALL || touched.lane != EACH_LANE) {
    each_piece<false>(noted, visit);
    if (__builtin_expect(unwritten, 0)) read_unwritten(w, i, noted);
    return;
  }
  uint32_t least = offsets[0], most = offsets[0];
  for (int k = 0; k < LANES; ++k) {
    least = std::min(least, offsets[k]);
    most = std::max(most, offsets[k]);
  }
  // Treats all bytes between the first and the last as read. At worst this leads to a needless exact check.
  bool near = most + bytes - least <= MOST_LINES * LINE_BYTES;
  if (near)
    each_line(least, most + bytes, [&](uint32_t n, uint64_t bits, uint32_t) { near &= !(bits & ~lines_[n].written); });
  if (near) return each_line(least, most + bytes, visit);
  // If several lanes read one address, checking two of them is enough.
  each_piece<false>(noted, two_of_each(offsets), visit);
  if (__builtin_expect(unwritten, 0)) read_unwritten(w, i, noted);
}

/**
 * Handles an access that does not race with others of its kind, such as an atomic. It races with a copy in flight and
 * with plain accesses.
 */
void Shadow::meet(Warp& w, const Ins* i, const Noted& noted, Access access) {
  bool unwritten = false;
  const bool waits = i->sharing == Sharing::Waiting;
  atomics_.resize((block_->shared_bytes + 3) / 4);
  each_piece<false>(noted, [&](uint32_t n, uint64_t bits, uint32_t lanes) {
    Line& line = lines_[n];
    if (access != Access::Write) {
      unwritten |= (bits & ~line.written) != 0;
      if (line.copied & bits) look_for_copies(w, {noted, lanes, n});
    }
    if (access != Access::Read) line.written |= bits;
    if (!waits && (line.exact || meets_write(line, bits, noted.now) ||
                   (access != Access::Read && meets_read(line, bits, noted.now))))
      look_for_plain(w, {noted, lanes, n}, access);
    line.atomic_stamp = std::max(line.atomic_stamp, stamp_of(noted.now));
  });
  for (uint32_t left = noted.m; left; left &= left - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(left));
    const Mark now = noted.mark_of(k);
    for (uint32_t at = noted.offsets[k] / 4; at * 4 < noted.offsets[k] + noted.bytes; ++at) {
      atomics_[at].note(now, access, i->is_checked, [&](Mark earlier) { return unordered(earlier, now); });
      if (access == Access::Read && !waits) atomics_[at].reader = now;
    }
  }
  if (unwritten) read_unwritten(w, i, noted);
  --noted_;  // does not stay in the log
}

/** Finds plain accesses to these bytes that are not ordered with an atomic. */
void Shadow::look_for_plain(Warp& w, const Piece& piece, Access access) {
  const Noted& noted = piece.noted;
  const uint32_t line = piece.line;
  uint32_t lanes = piece.lanes;
  if (!lines_[line].exact) make_exact(line, noted, 0);
  const uint32_t begin = line * LINE_BYTES;
  for (; lanes; lanes &= lanes - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(lanes));
    const uint32_t from = std::max(noted.offsets[k], begin);
    const uint32_t to = std::min(noted.offsets[k] + noted.bytes, begin + LINE_BYTES);
    const Mark now = noted.mark_of(k);
    const bool writes = access != Access::Read;
    if (from >= to) continue;
    each_cell(from, to, [&](Cell& cell, uint32_t byte) {
      const auto look_at = [&](Mark earlier, bool wrote) {
        if (!(earlier & (VOLATILE | MEETS_ATOMICS)) && unordered(earlier, now))
          report(w, {earlier, wrote, now, writes, byte, noted.bytes, false, true});
      };
      look_at(cell.writer, true);
      if (!writes) return;
      for (const Mark reader : {cell.reader, cell.other_warp, cell.same_warp}) look_at(reader, false);
    });
  }
}

/** Finds atomics that are not ordered with a plain access to their bytes. */
void Shadow::look_for_atomics(Warp& w, const Ins* i, const Piece& piece, bool writes) {
  const Noted& noted = piece.noted;
  const uint32_t line = piece.line;
  uint32_t lanes = piece.lanes;
  if (noted.now & (VOLATILE | MEETS_ATOMICS)) return;
  const uint32_t begin = line * LINE_BYTES;
  for (; lanes; lanes &= lanes - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(lanes));
    const uint32_t from = std::max(noted.offsets[k], begin);
    const uint32_t to = std::min(noted.offsets[k] + noted.bytes, begin + LINE_BYTES);
    const Mark now = noted.mark_of(k);
    const auto is_unordered = [&](Mark earlier) { return unordered(earlier, now); };
    for (uint32_t at = from / 4; at * 4 < to; ++at) {
      const AtomicUses<Mark>& uses = atomics_[at];
      const bool is_after = uses.observer && !is_unordered(uses.observer);
      uses.each_unordered(writes, is_after, is_unordered, [&](Mark earlier, bool wrote) {
        const uint32_t first = std::max(from, at * 4), count = std::min(to, at * 4 + 4) - first;
        if (!writes || !stores_the_same({w, i, k}, noted, first, count))
          report(w, {earlier, wrote, now, writes, first, noted.bytes, false, true});
      });
    }
  }
}

/** Finds reads of bytes that a copy may still be writing. */
void Shadow::look_for_copies(Warp& w, const Piece& piece) {
  const Noted& noted = piece.noted;
  const uint32_t line = piece.line;
  uint32_t lanes = piece.lanes;
  if (!lines_[line].exact) make_exact(line, noted, 0);
  const uint32_t begin = line * LINE_BYTES;
  for (; lanes; lanes &= lanes - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(lanes));
    const uint32_t from = std::max(noted.offsets[k], begin);
    const uint32_t to = std::min(noted.offsets[k] + noted.bytes, begin + LINE_BYTES);
    each_cell(from, to, [&](Cell& cell, uint32_t byte) {
      const Mark now = noted.mark_of(k);
      if ((cell.writer & IN_FLIGHT) && unordered(cell.writer, now))
        report(w, {cell.writer, true, now, false, byte, noted.bytes});
    });
  }
}

void Shadow::copy_begins(const WarpAccess& by, const uint32_t* offsets) {
  const Mark now = mark(by.w, by.i);
  const Touched touched{by.m, by.bytes, offsets};
  if (!bulk_stores_.empty()) look_for_bulk_stores(by.w, now, touched);
  const Noted& noted = note(Kind::CopyBegins, now, touched);
  each_piece<true>(noted, [&](uint32_t n, uint64_t bits, uint32_t lanes) {
    Line& line = lines_[n];
    if (line.exact || (line.copied & bits) || meets_write(line, bits, now) || meets_read(line, bits, now))
      look_exactly(by.w, nullptr, {noted, lanes, n});
    else
      write_begins(line, bits, now);
    line.copied |= bits;
  });
}

void Shadow::copy_ends(const WarpAccess& by, const uint32_t* offsets, uint32_t stamp) {
  const Mark now = mark(by.w, by.i);
  land(stamp ? mark_at(stamp, place_bits(by.i), by.w.index) : now, {by.m, by.bytes, offsets});
}

void Shadow::copy_lands(const Ins* i, const LandedCopy& copy, PhaseClocks& clocks) {
  landed_.emplace_back(++stamp_, copy.thread);
  clocks.arriving[copy.copier] = stamp_;
  uint32_t offsets[LANES];
  std::fill_n(offsets, LANES, copy.to);
  land(mark_at(stamp_, place_bits(i), copy.copier), {1, copy.bytes, offsets});
}

void Shadow::land(Mark now, const Touched& touched) {
  const Noted& noted = note(Kind::CopyEnds, now, touched);
  each_piece<false>(noted, [&](uint32_t n, uint64_t bits, uint32_t lanes) {
    Line& line = lines_[n];
    if (line.exact) play(noted, lanes, n);
    line.copied &= ~bits;
    note_write(line, bits, now, NO_NOTE);
  });
}

void Shadow::bulk_store_begins(const LaneAt& at, uint32_t from, unsigned bytes) {
  bulk_groups_.resize(warps_.size() * LANES);
  const uint32_t thread = at.w.index * LANES + at.lane;
  bulk_stores_.push_back({mark(at.w, at.i) | at.lane, thread, bulk_groups_[thread], from, bytes});
}

void Shadow::commit_bulk_stores(const Warp& w, unsigned lane) {
  bulk_groups_.resize(warps_.size() * LANES);
  ++bulk_groups_[w.index * LANES + lane];
}

void Shadow::wait_for_bulk_stores(Warp& w, const Ins* i, unsigned lane, uint32_t groups) {
  const uint32_t thread = w.index * LANES + lane;
  const auto is_read = [&](const BulkStore& store) {
    if (store.thread != thread || uint64_t(store.group) + groups >= bulk_groups_[thread]) return false;
    // Other warps must be ordered after this warp's wait, so the bytes count as read by this warp now.
    uint32_t offsets[LANES];
    std::fill_n(offsets, LANES, store.from);
    read(w, i, (mark(w, i) & ~PLACE_BITS) | (store.mark & PLACE_BITS), {1u << lane, store.bytes, offsets});
    return true;
  };
  bulk_stores_.erase(std::remove_if(bulk_stores_.begin(), bulk_stores_.end(), is_read), bulk_stores_.end());
}

void Shadow::look_for_bulk_stores(Warp& w, Mark now, const Touched& touched) {
  auto [m, bytes, offsets, lane] = touched;
  for (; m; m &= m - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(m));
    for (const BulkStore& store : bulk_stores_) {
      const uint32_t byte = std::max(offsets[k], store.from);
      if (byte < std::min(offsets[k] + bytes, store.from + store.bytes))
        report(w, {store.mark | IN_FLIGHT, false, now | (lane == EACH_LANE ? k : static_cast<unsigned>(lane)), true,
                   byte, bytes});
    }
  }
}

void Shadow::written_from_outside(uint32_t offset, unsigned bytes) {
  uint32_t offsets[LANES];
  std::fill_n(offsets, LANES, offset);
  const Noted& noted = note(Kind::FromOutside, static_cast<Mark>(block_began_) << 32, {1, bytes, offsets});
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

void Shadow::global(const WarpAccess& by, const uint64_t* addresses) {
  if (__builtin_expect(to_acquire_.m != 0, 0)) acquire();
  if (__builtin_expect(synchronises(by.i, by.access), 0)) synchronise(by, addresses);
  GlobalShadow::instance().access(*this, by, addresses, mark(by.w, by.i));
}

const Shadow::Quiet* Shadow::quiet_at(uint64_t address) {
  if (is_early()) return nullptr;
  GlobalShadow& shadow = GlobalShadow::instance();
  const uint64_t changes = shadow.changes();
  if (quiet_since_ != changes) quiet_.clear();
  quiet_since_ = changes;
  for (const Quiet& range : quiet_)
    if (address - range.base < range.end - range.base) return &range;
  Quiet range{};
  if (!shadow.find_written(address, &range.base, &range.end)) return nullptr;
  quiet_.push_back(range);
  return &quiet_.back();
}

std::string Shadow::buffer_of(uint32_t byte, uint32_t* offset) const {
  const unsigned fixed = block_->kernel().dynamic_offset;
  const bool dynamic = byte >= fixed && block_->plan().dynamic_shared_bytes;
  *offset = dynamic ? byte - fixed : byte;
  return dynamic ? "dynamic shared memory" : "static shared memory";
}

std::string Shadow::byte_of(uint32_t byte) const {
  for (const Home& array : block_->kernel().arrays)
    if (byte >= array.from && byte < array.to)
      return std::to_string(byte - array.from) + " of " + array.name + " (static shared memory)";
  uint32_t offset;
  const std::string buffer = buffer_of(byte, &offset);
  return std::to_string(offset) + " of " + buffer;
}

void Shadow::report(const Warp& w, const Race& race) {
  const auto& [earlier, earlier_wrote, now, writes, byte, bytes, by_async_proxy, with_atomic] = race;
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
  fault.thread = block.thread_index(thread_at(now));
  fault.place = place_of(block, now);
  fault.warp = static_cast<int>(w.index);
  fault.lanes = 1u << (now & LANE_BITS);
  const std::string other = called(block, earlier);
  const uint3 theirs = block.thread_index(thread_at(earlier));
  const std::string what =
      "thread " + describe(fault.thread) + verb(writes) + " byte " + byte_of(byte) + " at " + called(block, now);
  if (by_async_proxy)
    fault.message = what + " through the async proxy, which thread " + describe(theirs) + " wrote at " + other +
                    ", with no fence.proxy.async between them (a barrier is not enough)";
  else if ((earlier & IN_FLIGHT) && !earlier_wrote)
    fault.message = what + ", which a bulk store of thread " + describe(theirs) + " at " + other +
                    " may still be reading, with no wait for it (cp.async.bulk.wait_group.read by that thread, and a" +
                    " barrier for other threads) between them";
  else if (earlier & IN_FLIGHT)
    fault.message = what + ", which a cp.async of thread " + describe(theirs) + " at " + other +
                    " is still writing, with no wait for it (cp.async.wait_group, and a barrier for other threads)" +
                    " between them";
  else if (actor_of(earlier) >= FIRST_WARPGROUP)
    fault.message = what + ", which the wgmma of a warpgroup at " + other + " may still be reading, with no wait for " +
                    "it (wgmma.wait_group, and a barrier for other warps) between them";
  else if (actor_of(earlier) >= FIRST_COPIER)
    fault.message =
        what + ", which a bulk copy of thread " + describe(theirs) + " at " + other +
        " wrote, with no wait for its mbarrier (by this thread, or by one that a barrier orders before it)" +
        " between them";
  else
    fault.message = what + ", which thread " + describe(theirs) + (earlier_wrote ? " wrote" : " read") + " at " +
                    other + ", with no __syncthreads()" +
                    (actor_of(earlier) != actor_of(now) ? "" : " or __syncwarp()") + " between them" +
                    (with_atomic ? BESIDE_ATOMIC : why_volatile(earlier | now));
  fault.threads.push_back({fault.thread, std::string(writes ? "write" : "read") + " at " + fault.place});
  fault.threads.push_back({theirs, std::string(earlier_wrote ? "write" : "read") + " at " + place_of(block, earlier)});
  fault.threads_total = 2;
  throw fault;
}

void Shadow::note_unwritten(const LaneAt& at, uint32_t byte, unsigned bytes) {
  if (!taint.reached) taint.reached = unwritten_fault(at, byte, bytes);
}

Fault Shadow::unwritten_fault(const LaneAt& at, uint32_t byte, unsigned bytes) const {
  uint32_t offset;
  Fault fault;
  fault.kind = "UNINITIALISED_READ";
  fault.buffer = buffer_of(byte, &offset);
  fault.has_address = true;
  fault.address = byte;
  fault.access = "read";
  fault.bytes = bytes;
  fault.message = "read byte " + byte_of(byte) + ", which no thread of the block has written";
  try {
    at.w.fail(at.i, at.lane, std::move(fault));
  } catch (Fault& whole) {
    return std::move(whole);
  }
}

}  // namespace flashcore::emu::ptx
