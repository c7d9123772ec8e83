// cp.async. Issuing a copy only records it. The copy, including the read of its source, runs when its thread waits for
// the copy's group. A kernel that forgets the wait therefore sees the old contents: poison, or the tile of two stages
// ago.
#include <algorithm>
#include <cstring>
#include <string>

#include "block.h"

using namespace flashcore::emu;

namespace {

void carry_out(const AsyncCopy& copy) {
  memcpy(copy.destination, copy.source, copy.source_bytes);
  if (copy.source_bytes < copy.bytes)
    memset(static_cast<char*>(copy.destination) + copy.source_bytes, 0, copy.bytes - copy.source_bytes);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void flashcore_emu_cp_async(void* destination, const void* source,
                                                                   unsigned bytes, unsigned source_bytes) {
  Fibre* fibre = current_fibre();
  if (bytes != 4 && bytes != 8 && bytes != 16)
    flashcore_emu_fault("TRAP", ("cp.async copies 4, 8 or 16 bytes, not " + std::to_string(bytes)).c_str());
  if (reinterpret_cast<uintptr_t>(destination) % bytes) flashcore_emu_misaligned(destination, bytes, 1);
  if (reinterpret_cast<uintptr_t>(source) % bytes) flashcore_emu_misaligned(source, bytes, 0);
  fibre->copies.push_back({destination, source, bytes, std::min(source_bytes, bytes), fibre->open_group});
}

__attribute__((visibility("default"))) void flashcore_emu_cp_async_commit(void) { ++current_fibre()->open_group; }

__attribute__((visibility("default"))) void flashcore_emu_cp_async_wait(int pending) {
  Fibre* fibre = current_fibre();
  std::vector<AsyncCopy>& copies = fibre->copies;
  size_t done = 0;
  // Groups are numbered in commit order. The group open_group is not committed yet.
  while (done < copies.size()) {
    const AsyncCopy& copy = copies[done];
    if (pending >= 0 && copy.group + static_cast<unsigned>(pending) >= fibre->open_group) break;
    carry_out(copy);
    ++done;
  }
  copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(done));
}
}
