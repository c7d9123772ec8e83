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
const char* verb(bool writes) { return writes ? " writes" : " reads"; }

}  // namespace

// --- shared memory ----------------------------------------------------------------------------------------------------

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
    stamp_ = 0;
  }
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

template <class Visit>
inline void Shadow::each_cell(uint32_t m, unsigned bytes, const uint32_t* offsets, const Visit& visit) {
  const uint32_t measure = bytes | offsets[__builtin_ctz(m)], finest = measure & -measure;
  if (finest < grain_) refine(finest);
  const int shift = __builtin_ctz(grain_);
  const unsigned count = bytes >> shift;
  Cell* const cells = cells_.data();
  for (uint32_t left = m; left; left &= left - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(left));
    Cell* cell = cells + (offsets[k] >> shift);
    for (unsigned n = 0; n < count; ++n) visit(cell[n], k, offsets[k] + (n << shift));
  }
}

void Shadow::access(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, const uint32_t* offsets) {
  const Mark now = mark(w, i);
  const bool meant_to_meet = access == Access::ReadWrite || i->sharing == Sharing::Synchronised;
  if (access == Access::ReadWrite) fenced(w);
  if (access != Access::Write) {
    // Of lanes that read one address two stand for all.
    const uint32_t readers = m == ALL ? two_of_each(offsets) : m;
    const uint32_t since = since_, ordered = since - block_began_;
    each_cell(readers, bytes, offsets, [&](Cell& cell, unsigned lane, uint32_t byte) {
      const Mark writer = cell.writer;
      // Nearly always: written in this block, and before the latest barrier.
      if (__builtin_expect(stamp_of(writer) - block_began_ - 1 >= ordered || (writer & IN_FLIGHT), 0)) {
        if (stamp_of(writer) < block_began_) note_unwritten(w, i, lane, byte, bytes);
        if (meant_to_meet && !(writer & IN_FLIGHT)) return;
        if (races(writer, true, now | lane, false)) report(w, writer, true, now | lane, false, byte, bytes);
      } else if (meant_to_meet) {
        return;
      }
      if (stamp_of(cell.reader) <= since)
        cell.reader = now | lane;
      else
        note_reader(cell, now | lane);
    });
  }
  if (access == Access::Read) return;
  each_cell(m, bytes, offsets, [&](Cell& cell, unsigned lane, uint32_t byte) {
    if (meant_to_meet) {
      // Written, and ordered before everything.
      if (stamp_of(cell.writer) < block_began_) cell.writer = static_cast<Mark>(block_began_) << 32;
      return;
    }
    if (touched_since_barrier(cell)) check_write(w, cell, now | lane, byte, bytes);
    cell.writer = now | lane;
  });
}

void Shadow::copy_begins(Warp& w, const Ins* i, uint32_t m, unsigned bytes, const uint32_t* offsets) {
  const Mark now = mark(w, i);
  each_cell(m, bytes, offsets, [&](Cell& cell, unsigned lane, uint32_t byte) {
    if (touched_since_barrier(cell)) check_write(w, cell, now | lane, byte, bytes);
    cell.writer = now | lane | IN_FLIGHT;
  });
}

void Shadow::copy_ends(Warp& w, const Ins* i, uint32_t m, unsigned bytes, const uint32_t* offsets) {
  const Mark now = mark(w, i);
  each_cell(m, bytes, offsets, [&](Cell& cell, unsigned lane, uint32_t) { cell.writer = now | lane; });
}

void Shadow::written_from_outside(uint32_t offset, unsigned bytes) {
  uint32_t offsets[LANES];
  std::fill_n(offsets, LANES, offset);
  each_cell(1, bytes, offsets,
            [&](Cell& cell, unsigned, uint32_t) { cell.writer = static_cast<Mark>(block_began_) << 32; });
}

void Shadow::global(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, const uint64_t* addresses) {
  if (access == Access::ReadWrite) fenced(w);
  GlobalShadow::instance().access(*this, w, i, m, bytes, access, addresses, mark(w, i));
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

void GlobalShadow::mark_unwritten(uint64_t address, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Region* region = region_of(address);
  if (!region) return;
  region->unwritten.emplace_back(address, address + bytes);
  for (std::unique_ptr<Cell[]>& chunk : region->chunks) chunk.reset();
}

void GlobalShadow::note_written(uint64_t address, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
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
  for (auto& [base, region] : regions_) region.unwritten.clear();
}

void GlobalShadow::forget(uint64_t address) {
  const std::lock_guard<std::mutex> lock(mutex_);
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
  if (i->read_only) {
    region = region_of(addresses[__builtin_ctz(m)]);
    bool nothing_to_note = region && region->unwritten.empty();
    for (unsigned k = 0; k < LANES && nothing_to_note; ++k)
      nothing_to_note = !(m >> k & 1) || addresses[k] - region->base < region->bytes;
    if (nothing_to_note) return;
  }
  for (unsigned k = 0; k < LANES; ++k) {
    if (!(m >> k & 1)) continue;
    const uint64_t address = addresses[k];
    if (!region || address - region->base >= region->bytes) region = region_of(address);
    if (!region) continue;
    // Read-only by the kernel's own word: whoever writes it all the same is found by the comparison of the inputs.
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
