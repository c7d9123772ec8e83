#include "race.h"

#include <string>

#include "block.h"

namespace flashcore::emu {

void RaceDetector::begin_block(const SharedMemory& shared) {
  static_cells_.assign(shared.static_part().bytes, Cell());
  dynamic_cells_.assign(shared.dynamic_part().bytes, Cell());
}

bool RaceDetector::races(const Access& earlier, const Access& now) {
  if (earlier.barrier_epoch != now.barrier_epoch || earlier.thread == now.thread) return false;
  const bool same_warp = earlier.thread / 32 == now.thread / 32;
  return !same_warp || earlier.warp_epoch == now.warp_epoch;
}

void RaceDetector::note_reader(Cell& cell, const Access& now) {
  const bool current = cell.reader.barrier_epoch == now.barrier_epoch;
  if (!current || cell.reader.thread == now.thread) {
    cell.reader = now;
  } else if (cell.reader.thread / 32 != now.thread / 32) {
    cell.reader_of_other_warp = now;
  } else if (!races(cell.reader, now)) {
    cell.reader = now;  // a newer epoch of the same warp replaces the older one
  } else {
    cell.reader_of_same_warp = now;
  }
}

void RaceDetector::access(Block& block, const SharedAccess& access) {
  const auto [address, bytes, is_write, program_counter] = access;
  const SharedMemory& shared = block.shared();
  Cell* cells;
  size_t available;
  if (shared.dynamic_part().contains(address)) {
    const size_t offset = static_cast<size_t>(address - shared.dynamic_part().base);
    cells = dynamic_cells_.data() + offset;
    available = dynamic_cells_.size() - offset;
  } else if (shared.static_part().contains(address)) {
    const size_t offset = static_cast<size_t>(address - shared.static_part().base);
    cells = static_cells_.data() + offset;
    available = static_cells_.size() - offset;
  } else {
    return;
  }
  const Fibre* fibre = current_fibre();
  const Access now{block.barrier_epoch(), fibre->warp->epoch, fibre->linear_index, program_counter};
  for (unsigned i = 0; i < bytes && i < available; ++i) {
    Cell& cell = cells[i];
    if (races(cell.writer, now)) report(block, {address + i, bytes, is_write, program_counter}, cell.writer, true);
    if (!is_write) {
      note_reader(cell, now);
      continue;
    }
    for (const Access* reader : {&cell.reader, &cell.reader_of_other_warp, &cell.reader_of_same_warp})
      if (races(*reader, now)) report(block, {address + i, bytes, is_write, program_counter}, *reader, false);
    cell.writer = now;
  }
}

void RaceDetector::report(Block& block, const SharedAccess& now, const Access& earlier, bool earlier_was_write) {
  const auto [address, bytes, is_write, program_counter] = now;
  const Region& dynamic = block.shared().dynamic_part();
  const bool is_dynamic = dynamic.contains(address);
  Fault fault;
  fault.kind = "RACE";
  fault.has_address = true;
  fault.address = reinterpret_cast<uint64_t>(address);
  fault.access = is_write ? "write" : "read";
  fault.bytes = bytes;
  fault.buffer = is_dynamic ? "dynamic shared memory" : "static shared memory";
  fault.program_counter = program_counter;
  fault.other_program_counter = earlier.program_counter;
  const Fibre* fibre = current_fibre();
  const uint3 mine = fibre->thread_index;
  const uint3 theirs = block.thread_index(earlier.thread);
  const size_t offset = static_cast<size_t>(address - (is_dynamic ? dynamic.base : block.shared().static_part().base));
  fault.message =
      "thread " + describe(mine) + (is_write ? " writes" : " reads") + " byte " + std::to_string(offset) + " of " +
      fault.buffer + " at {place}, which thread " + describe(theirs) + (earlier_was_write ? " wrote" : " read") +
      " at {other}, with no __syncthreads()" +
      (mine.x / 32 == theirs.x / 32 && earlier.thread / 32 == fibre->linear_index / 32 ? " or __syncwarp()" : "") +
      " between them";
  fault.threads.push_back({mine, std::string(is_write ? "write" : "read") + " at {place}"});
  fault.threads.push_back({theirs, std::string(earlier_was_write ? "write" : "read") + " at {other}"});
  fault.threads_total = 2;
  block.fail(std::move(fault));
}

}  // namespace flashcore::emu

// --- what -fsanitize=thread calls ------------------------------------------------------------------------------

namespace {
using namespace flashcore::emu;

inline SharedAccess read_of(const void* address, unsigned bytes, const void* program_counter) {
  return {static_cast<const char*>(address), bytes, false, program_counter};
}
inline SharedAccess write_of(const void* address, unsigned bytes, const void* program_counter) {
  return {static_cast<const char*>(address), bytes, true, program_counter};
}

inline void note(const SharedAccess& access) {
  if (!flashcore_emu_thread) return;
  Block& block = current_block();
  if (RaceDetector* races = block.races()) races->access(block, access);
}

inline void note_aligned(const SharedAccess& access) {
  if (flashcore_emu_thread && reinterpret_cast<uintptr_t>(access.address) & (access.bytes - 1))
    flashcore_emu_misaligned(access.address, access.bytes, access.is_write);
  note(access);
}
}  // namespace

#define FLASHCORE_HOOK(BYTES)                                                          \
  __attribute__((visibility("default"))) void __tsan_read##BYTES(void* p) {            \
    note_aligned(read_of(p, BYTES, __builtin_return_address(0)));                      \
  }                                                                                    \
  __attribute__((visibility("default"))) void __tsan_write##BYTES(void* p) {           \
    note_aligned(write_of(p, BYTES, __builtin_return_address(0)));                     \
  }                                                                                    \
  __attribute__((visibility("default"))) void __tsan_unaligned_read##BYTES(void* p) {  \
    note(read_of(p, BYTES, __builtin_return_address(0)));                              \
  }                                                                                    \
  __attribute__((visibility("default"))) void __tsan_unaligned_write##BYTES(void* p) { \
    note(write_of(p, BYTES, __builtin_return_address(0)));                             \
  }                                                                                    \
  __attribute__((visibility("default"))) void __tsan_volatile_read##BYTES(void* p) {   \
    note_aligned(read_of(p, BYTES, __builtin_return_address(0)));                      \
  }                                                                                    \
  __attribute__((visibility("default"))) void __tsan_volatile_write##BYTES(void* p) {  \
    note_aligned(write_of(p, BYTES, __builtin_return_address(0)));                     \
  }

extern "C" {
FLASHCORE_HOOK(1)
FLASHCORE_HOOK(2)
FLASHCORE_HOOK(4)
FLASHCORE_HOOK(8)
FLASHCORE_HOOK(16)
__attribute__((visibility("default"))) void __tsan_read_range(void* p, unsigned long bytes) {
  note(read_of(p, static_cast<unsigned>(bytes), __builtin_return_address(0)));
}
__attribute__((visibility("default"))) void __tsan_write_range(void* p, unsigned long bytes) {
  note(write_of(p, static_cast<unsigned>(bytes), __builtin_return_address(0)));
}
__attribute__((visibility("default"))) void __tsan_init() {}
__attribute__((visibility("default"))) void __tsan_func_entry(void*) {}
__attribute__((visibility("default"))) void __tsan_func_exit() {}
__attribute__((visibility("default"))) void __tsan_vptr_update(void**, void*) {}
__attribute__((visibility("default"))) void __tsan_vptr_read(void**) {}
}
