#include "shadow.h"

#include <string>

namespace flashcore::emu::ptx {

void Shadow::begin(const BlockRun& block) { cells_.assign(block.shared_bytes, Cell()); }

bool Shadow::unordered(const Touch& earlier, const Touch& now) {
  if (earlier.epoch != now.epoch || earlier.thread == now.thread) return false;
  return earlier.thread / LANES != now.thread / LANES || earlier.warp_epoch == now.warp_epoch;
}

void Shadow::note_reader(Cell& cell, const Touch& now) {
  if (cell.reader.epoch != now.epoch || cell.reader.thread == now.thread)
    cell.reader = now;
  else if (cell.reader.thread / LANES != now.thread / LANES)
    cell.other_warp = now;
  else if (!unordered(cell.reader, now))
    cell.reader = now;  // a newer meeting of the same warp says more
  else
    cell.same_warp = now;
}

void Shadow::access(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, const uint32_t* offsets) {
  if (access == Access::ReadWrite || i->volatile_access) return;  // atomics and volatile accesses are meant to meet
  const bool writes = access == Access::Write;
  for (unsigned k = 0; k < LANES; ++k) {
    if (!(m >> k & 1)) continue;
    const Touch now{w.block->epoch, w.epoch, w.linear(k), i};
    for (uint32_t at = offsets[k]; at < offsets[k] + bytes && at < cells_.size(); ++at) {
      Cell& cell = cells_[at];
      if (unordered(cell.writer, now)) report(w, cell.writer, true, now, writes, at, bytes);
      if (!writes) {
        note_reader(cell, now);
        continue;
      }
      for (const Touch* reader : {&cell.reader, &cell.other_warp, &cell.same_warp})
        if (unordered(*reader, now)) report(w, *reader, false, now, writes, at, bytes);
      cell.writer = now;
    }
  }
}

void Shadow::report(Warp& w, const Touch& earlier, bool earlier_wrote, const Touch& now, bool writes, uint32_t byte,
                    unsigned bytes) {
  BlockRun& block = *w.block;
  const unsigned fixed = block.kernel().dynamic_offset;
  const bool dynamic = byte >= fixed;
  Fault fault;
  fault.kind = "RACE";
  fault.has_address = true;
  fault.address = byte;
  fault.access = writes ? "write" : "read";
  fault.bytes = bytes;
  fault.buffer = dynamic ? "dynamic shared memory" : "static shared memory";
  fault.has_thread = true;
  fault.thread = block.thread_index(now.thread);
  fault.place = block.place_of(now.ins);
  const std::string other = block.place_of(earlier.ins);
  const uint3 theirs = block.thread_index(earlier.thread);
  fault.message = "thread " + describe(fault.thread) + (writes ? " writes" : " reads") + " byte " +
                  std::to_string(dynamic ? byte - fixed : byte) + " of " + fault.buffer + " at " + fault.place +
                  ", which thread " + describe(theirs) + (earlier_wrote ? " wrote" : " read") + " at " + other +
                  ", with no __syncthreads()" +
                  (earlier.thread / LANES == now.thread / LANES ? " or __syncwarp()" : "") + " between them";
  fault.threads.push_back({fault.thread, std::string(writes ? "write" : "read") + " at " + fault.place});
  fault.threads.push_back({theirs, std::string(earlier_wrote ? "write" : "read") + " at " + other});
  fault.threads_total = 2;
  throw fault;
}

}  // namespace flashcore::emu::ptx
