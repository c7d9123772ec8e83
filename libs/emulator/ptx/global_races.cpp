// Finds races in device memory, and reads of device memory that was never written.
#include <algorithm>
#include <utility>

#include "../exec/device_memory.h"
#include "lanes.h"
#include "races.h"
#include "races/marks.h"

namespace flashcore::emu::ptx {

GlobalShadow& GlobalShadow::instance() {
  static GlobalShadow shadow;
  return shadow;
}

inline GlobalShadow::Cell& GlobalShadow::Region::cell(uint64_t offset) {
  std::unique_ptr<Cell[]>& chunk = chunks[offset / CHUNK_BYTES];
  if (__builtin_expect(!chunk, 0)) chunk = std::make_unique<Cell[]>(CHUNK_BYTES / grain);
  return chunk[offset % CHUNK_BYTES >> __builtin_ctz(grain)];
}

AtomicUses<GlobalShadow::AtomicTouch>& GlobalShadow::Region::atomics_at(uint64_t offset) {
  atomics.resize(chunks.size());
  std::unique_ptr<AtomicUses<AtomicTouch>[]>& chunk = atomics[offset / CHUNK_BYTES];
  if (!chunk) chunk = std::make_unique<AtomicUses<AtomicTouch>[]>(CHUNK_BYTES / 4);
  return chunk[offset % CHUNK_BYTES / 4];
}

void GlobalShadow::Region::refine(unsigned finer) {
  const unsigned parts = grain / finer;
  for (std::unique_ptr<Cell[]>& chunk : chunks) {
    if (!chunk) continue;
    auto more = std::make_unique<Cell[]>(CHUNK_BYTES / finer);
    for (unsigned n = 0; n < CHUNK_BYTES / finer; ++n) {
      more[n] = chunk[n / parts];
      if (more[n].is_known) more[n].value >>= 8 * finer * (n % parts);
    }
    chunk = std::move(more);
  }
  grain = finer;
}

namespace {

bool covers(const std::vector<std::pair<uint64_t, uint64_t>>& ranges, uint64_t address) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [=](const auto& range) { return address >= range.first && address < range.second; });
}

}  // namespace

bool GlobalShadow::Region::is_unwritten(uint64_t address) const { return covers(unwritten, address); }

GlobalShadow::Region* GlobalShadow::region_of(uint64_t address) {
  auto after = regions_.upper_bound(address);
  if (after != regions_.begin()) {
    Region& region = std::prev(after)->second;
    if (address - region.base < region.bytes) return &region;
  }
  CUdeviceptr base;
  size_t size;
  if (!DeviceMemory::instance().find_visible(address, &base, &size)) return nullptr;  // pinned host memory
  Region& region = regions_[base];
  region.base = base;
  region.bytes = size;
  region.chunks.resize((size + CHUNK_BYTES - 1) / CHUNK_BYTES);
  return &region;
}

bool GlobalShadow::find_written(uint64_t address, uint64_t* base, uint64_t* end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Region* region = region_of(address);
  if (!region || !region->is_known(orders_.launch())) return false;
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
  region->left.clear();
  for (std::unique_ptr<Cell[]>& chunk : region->chunks) chunk.reset();
}

void GlobalShadow::mark_workspace(uint64_t address, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (Region* region = region_of(address)) region->workspaces.emplace_back(address, address + bytes);
}

bool GlobalShadow::leave_unwritten(uint64_t address, const Fault& fault) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Region* region = region_of(address);
  if (!region || !covers(region->workspaces, address)) return false;
  const auto [number, is_new] = left_faults_at_.emplace(fault.place, static_cast<uint32_t>(left_faults_.size()));
  if (is_new) left_faults_.push_back(fault);
  if (region->left.empty()) ++changes_;
  region->left[address] = number->second;
  region->cell(address - region->base).has_unwritten = true;
  return true;
}

void GlobalShadow::each_unwritten(Taint& taint, const LaneAt& by, const Range& range,
                                  const std::function<void(unsigned, uint8_t)>& visit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Region* region = region_of(range.address);
  if (!region || (region->unwritten.empty() && region->left.empty())) return;
  for (unsigned n = 0; n < range.bytes; ++n) {
    const uint64_t at = range.address + n;
    if (const auto found = region->left.find(at); found != region->left.end()) {
      visit(n, taint.origin_from_workspace(found->second, left_faults_[found->second]));
    } else if (!region->cell(at - region->base).writer.launch && region->is_unwritten(at)) {
      uint8_t origin = taint.origin_at(by.i, Taint::Source::Memory);
      if (!origin) origin = taint.add_origin(by.i, Taint::Source::Memory, unwritten_fault(by, {at, range.bytes}));
      visit(n, origin);
    }
  }
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
  region.forget_left(address, address + bytes);
}

void GlobalShadow::forget_unwritten() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++changes_;
  for (auto& [base, region] : regions_) {
    region.unwritten.clear();
    region.left.clear();
  }
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

inline bool GlobalShadow::races(const Touching& t, const Earlier& earlier) const {
  const Touch& touch = earlier.touch;
  if (!unordered(t.shadow, touch, t.now)) return false;
  if (touch.block == t.now.block) return !t.shadow.meant_to_meet(touch.mark, earlier.wrote, t.now.mark, t.writes());
  return !(earlier.wrote && t.writes() && (touch.mark & t.now.mark & VOLATILE));
}

bool GlobalShadow::unordered(const Shadow& shadow, const Touch& earlier, const Touch& now) const {
  if (earlier.launch != now.launch) return false;
  if (earlier.block == now.block) return shadow.unordered(earlier.mark, now.mark);
  return !orders_.is_lost() && !shadow.is_of_cluster(earlier.block) && !shadow.is_acquired(earlier.block, earlier.mark);
}

/** Handles an access that does not race with others of its kind, such as an atomic. It races with plain accesses. */
void GlobalShadow::meet(const Touching& t, Region& region, Cell& cell) {
  const Ins* const i = t.by.i;
  const bool writes = t.writes(), waits = i->sharing == Sharing::Waiting;
  const auto look_at = [&](const Touch& earlier, bool wrote) {
    if (!(earlier.mark & (VOLATILE | MEETS_ATOMICS)) && unordered(t.shadow, earlier, t.now))
      report(t, {earlier, wrote}, BESIDE_ATOMIC);
  };
  if (!waits) look_at(cell.writer, true);
  if (writes) {
    look_at(cell.reader, false);
    look_at(cell.other, false);
    if (!cell.writer.launch) cell.writer.launch = ~0u;  // counts as written, but never races
  }
  AtomicUses<AtomicTouch>& uses = region.atomics_at(t.address - region.base);
  const AtomicTouch touch{t.now, t.shadow.is_of_block_scope(i)};
  const auto look_at_scope = [&](const AtomicTouch& earlier, bool wrote) {
    if (earlier.launch == t.now.launch && earlier.block != t.now.block &&
        (earlier.of_block_scope || touch.of_block_scope) && unordered(t.shadow, earlier, t.now))
      report(t, {earlier, wrote}, BESIDE_BLOCK_SCOPE);
  };
  look_at_scope(uses.writer, true);
  look_at_scope(uses.other, true);
  if (writes) look_at_scope(uses.reader, false);
  uses.note(touch, t.by.access, i->is_checked,
            [&](const Touch& earlier) { return unordered(t.shadow, earlier, t.now); });
  if (!writes && (!waits || touch.of_block_scope)) uses.reader = touch;
  cell.has_atomics = true;
}

/** Finds atomics that are not ordered with a plain access to their bytes. */
void GlobalShadow::look_for_atomics(const Touching& t, Region& region) {
  const AtomicUses<AtomicTouch>& uses = region.atomics_at(t.address - region.base);
  if (t.by.i->read_only && uses.writer.launch == t.now.launch) report_read_only(t, uses.writer);
  if (t.now.mark & (VOLATILE | MEETS_ATOMICS)) return;
  const auto is_unordered = [&](const Touch& earlier) { return unordered(t.shadow, earlier, t.now); };
  const bool is_after = uses.observer.launch == t.now.launch && !is_unordered(uses.observer);
  uses.each_unordered(t.writes(), is_after, is_unordered,
                      [&](const Touch& earlier, bool wrote) { report(t, {earlier, wrote}, BESIDE_ATOMIC); });
}

void GlobalShadow::publish(const Shadow& shadow, uint32_t m, const uint64_t* addresses, const Clock& own) {
  const std::lock_guard<std::mutex> lock(mutex_);
  orders_.begin(shadow.block().plan().launch);
  for (; m; m &= m - 1) orders_.publish(addresses[__builtin_ctz(m)], own);
}

void GlobalShadow::acquire(const Shadow& shadow, uint32_t m, const uint64_t* addresses, Clock& into) {
  const std::lock_guard<std::mutex> lock(mutex_);
  orders_.begin(shadow.block().plan().launch);
  for (; m; m &= m - 1) orders_.acquire(addresses[__builtin_ctz(m)], into);
}

namespace {

/** False for a copy to shared memory: Shadow::follow_copies() looks for unwritten bytes when it has landed. */
bool reads_at_once(const Shadow& shadow, const Ins* i, Access access) {
  return access != Access::Read || !shadow.taint.copies(i);
}

}  // namespace

inline void GlobalShadow::note_reader(const Shadow& shadow, Cell& cell, const Touch& now) {
  const bool another = cell.reader.launch == now.launch &&
                       (cell.reader.block != now.block || shadow.unordered(cell.reader.mark, now.mark));
  (another ? cell.other : cell.reader) = now;
}

void GlobalShadow::access(const Shadow& shadow, const WarpAccess& by, const uint64_t* addresses, Mark mark) {
  Warp& w = by.w;
  const Ins* const i = by.i;
  const unsigned bytes = by.bytes;
  const Access access = by.access;
  const std::lock_guard<std::mutex> lock(mutex_);
  orders_.begin(shadow.block().plan().launch);
  Region* region = nullptr;
  const auto launch = static_cast<uint32_t>(shadow.block().plan().launch);
  const bool atomic = is_atomic(i, access);
  const bool only_reads = access == Access::Read && !atomic && !i->read_only && !shadow.is_early();
  for (uint32_t m = by.m; m; m &= m - 1) {
    const auto k = static_cast<unsigned>(__builtin_ctz(m));
    const uint64_t address = addresses[k];
    if (!region || address - region->base >= region->bytes) region = region_of(address);
    if (!region) continue;
    if (access != Access::Read && region->written_in != orders_.launch()) {
      region->written_in = orders_.launch();
      ++changes_;
    }
    if (i->read_only && region->is_known(orders_.launch()) && !shadow.is_early()) continue;
    const auto measure = static_cast<uint32_t>(bytes | (address - region->base)), finest = measure & -measure;
    const bool is_written = !only_reads || !region->unwritten.empty();
    const unsigned wanted = is_written ? std::min(finest, WRITTEN_GRAIN) : finest;
    if (wanted < region->grain) region->refine(wanted);
    const Touch now{mark | k, shadow.linear_block(), launch};
    for (unsigned done = 0; done < bytes; done += region->grain) {
      Cell& cell = region->cell(address + done - region->base);
      // Most accesses read what this launch does not write.
      if (!is_written && cell.writer.launch != launch && !cell.has_atomics && !cell.has_unwritten) {
        note_reader(shadow, cell, now);
        continue;
      }
      if (access != Access::Write && !cell.writer.launch && !region->unwritten.empty() &&
          region->is_unwritten(address + done) && reads_at_once(shadow, i, access))
        read_unwritten({{w, i, k}, bytes, access}, address, done, std::min(region->grain, bytes - done));
      if (__builtin_expect(cell.has_unwritten, 0)) {
        if (access != Access::Write && reads_at_once(shadow, i, access))
          read_left({w, i, k}, *region, {address + done, std::min(region->grain, bytes - done)}, done);
        if (access != Access::Read) region->forget_left(address + done, address + done + region->grain);
        cell.has_unwritten = access == Access::Read;
      }
      const Touching touching{shadow, {{w, i, k}, bytes, access}, now, address + done};
      if (shadow.is_early()) look_for_launch_before(touching, cell);
      if (atomic) {
        meet(touching, *region, cell);
        continue;
      }
      const bool writes = access == Access::Write;
      if (cell.has_atomics) look_for_atomics(touching, *region);
      if (i->read_only) {
        if (cell.writer.launch == now.launch) report_read_only(touching, cell.writer);
        continue;
      }
      uint32_t value = 0;
      const bool is_known = writes && stored_value({w, i, k}, done, region->grain, &value);
      const bool is_same = is_known && cell.is_known && cell.value == value;
      if (!is_same && races(touching, {cell.writer, true})) report(touching, {cell.writer, true});
      if (!writes) {
        note_reader(shadow, cell, now);
        continue;
      }
      for (const Touch* reader : {&cell.reader, &cell.other})
        if (races(touching, {*reader, false})) report(touching, {*reader, false});
      cell.writer = now;
      cell.value = value;
      cell.is_known = is_known;
    }
  }
}

/**
 * Faults if a programmatic launch accesses what the previous launch uses before it has executed griddepcontrol.wait.
 */
void GlobalShadow::look_for_launch_before(const Touching& t, const Cell& cell) {
  const uint64_t address = t.address;
  const bool writes = t.writes();
  const auto look_at = [&](const Touch& earlier, bool wrote) {
    if (earlier.launch + 1 != t.now.launch) return;
    Fault fault;
    fault.kind = "RACE";
    fault.buffer = DeviceMemory::instance().describe(address);
    fault.has_address = true;
    fault.address = address;
    fault.access = writes ? "write" : "read";
    fault.bytes = static_cast<unsigned>(t.by.bytes);
    fault.message = std::string(writes ? "wrote " : "read ") + fault.buffer + " at " + t.by.w.block->place_of(t.by.i) +
                    ", which the launch before " + (wrote ? "wrote" : "read") +
                    ": a programmatic launch may run at the same time, and must first execute griddepcontrol.wait "
                    "(cudaGridDependencySynchronize)";
    t.by.w.fail(t.by.i, thread_of(t.now.mark) % LANES, std::move(fault));
  };
  look_at(cell.writer, true);
  if (cell.has_atomics) look_at(region_of(address)->atomics_at(address - region_of(address)->base).writer, true);
  if (!writes) return;
  look_at(cell.reader, false);
  look_at(cell.other, false);
}

void GlobalShadow::report(const Touching& t, const Earlier& other, const char* why) {
  const auto& [earlier, earlier_wrote] = other;
  const Touch& now = t.now;
  const bool writes = t.writes();
  const BlockRun& block = t.shadow.block();
  const dim3 grid = block.plan().grid;
  Fault fault;
  fault.kind = "RACE";
  fault.buffer = DeviceMemory::instance().describe(t.address);
  fault.has_address = true;
  fault.address = t.address;
  fault.access = writes ? "write" : "read";
  fault.bytes = static_cast<unsigned>(t.by.bytes);
  fault.has_thread = true;
  fault.thread = block.thread_index(thread_of(now.mark));
  fault.place = block.place_of(t.by.i);
  fault.warp = static_cast<int>(t.by.w.index);
  fault.lanes = 1u << (now.mark & 31);
  const std::string their_place = place_of(block, earlier.mark);
  const uint3 theirs = block.thread_index(thread_of(earlier.mark));
  const uint3 their_block{earlier.block % grid.x, earlier.block / grid.x % grid.y, earlier.block / grid.x / grid.y};
  const bool same_block = earlier.block == now.block;
  fault.message = "thread " + describe(fault.thread) + " of block " + describe(block.index()) + verb(writes) + " " +
                  fault.buffer + " at " + called(block, now.mark) + ", which thread " + describe(theirs) + " of " +
                  (same_block ? "the same block" : "block " + describe(their_block)) +
                  (earlier_wrote ? " wrote" : " read") + " at " + called(block, earlier.mark) + ", with " +
                  (same_block ? "no barrier" : "nothing that orders the blocks") + " between them" +
                  (why ? why : why_volatile(earlier.mark | now.mark));
  fault.threads.push_back({fault.thread, std::string(writes ? "write" : "read") + " at " + fault.place});
  fault.threads.push_back({theirs, std::string(earlier_wrote ? "write" : "read") + " at " + their_place});
  fault.threads_total = 2;
  throw fault;
}

void GlobalShadow::report_read_only(const Touching& t, const Touch& writer) {
  Fault fault;
  fault.kind = "RACE";
  fault.buffer = DeviceMemory::instance().describe(t.address);
  fault.has_address = true;
  fault.address = t.address;
  fault.access = "read";
  fault.bytes = static_cast<unsigned>(t.by.bytes);
  fault.message = "read " + fault.buffer + " at " + t.shadow.block().place_of(t.by.i) +
                  " by ld.global.nc (__ldg, const __restrict__), which this launch has written at " +
                  place_of(t.shadow.block(), writer.mark) + ": such a read may be of a cache that does not see it";
  t.by.w.fail(t.by.i, thread_of(t.now.mark) % LANES, std::move(fault));
}

void GlobalShadow::read_unwritten(const LaneAccess& by, uint64_t address, unsigned from, unsigned count) {
  Taint& taint = by.w.block->shadow->taint;
  uint8_t origin = taint.origin_at(by.i, Taint::Source::Memory);
  if (!origin || !taint.carries(by.i)) {
    Fault fault = unwritten_fault(by, {address + from, static_cast<unsigned>(by.bytes)});
    if (!taint.carries(by.i)) throw fault;
    origin = taint.add_origin(by.i, Taint::Source::Memory, std::move(fault));
  }
  taint.read(by.lane, ((1ull << count) - 1) << from % 64, origin);
}

void GlobalShadow::read_left(const LaneAt& by, const Region& region, const Range& read, unsigned from) {
  Taint& taint = by.w.block->shadow->taint;
  const auto end = region.left.lower_bound(read.address + read.bytes);
  for (auto at = region.left.lower_bound(read.address); at != end; ++at) {
    const Fault& fault = left_faults_[at->second];
    if (!taint.carries(by.i)) throw fault;
    taint.read(by.lane, 1ull << (at->first - read.address + from) % 64, taint.origin_from_workspace(at->second, fault));
  }
}

Fault GlobalShadow::unwritten_fault(const LaneAt& at, const Range& read) {
  Fault fault;
  fault.kind = "UNINITIALISED_READ";
  fault.buffer = DeviceMemory::instance().describe(read.address);
  fault.has_address = true;
  fault.address = read.address;
  fault.access = "read";
  fault.bytes = read.bytes;
  fault.message = "read " + fault.buffer + ", which nobody has written";
  try {
    at.w.fail(at.i, at.lane, std::move(fault));
  } catch (Fault& whole) {
    return std::move(whole);
  }
}

}  // namespace flashcore::emu::ptx
