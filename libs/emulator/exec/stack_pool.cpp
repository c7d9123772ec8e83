#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "fibre.h"

namespace flashcore::emu {

namespace {
constexpr size_t STACKS_PER_SLAB = 64;
// Stacks are whole pages apart, so the same depth of every stack maps to the same few cache sets, and 128 fibres would
// evict one another at every switch. Starting each stack a little lower than the previous one spreads them over the
// sets.
constexpr size_t COLOURS = 32;
constexpr size_t COLOUR_BYTES = 448;
}  // namespace

size_t page_bytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

StackPool::~StackPool() {
  for (const Slab& slab : slabs_) munmap(slab.base, slab.bytes);
}

char* StackPool::top(size_t index) {
  while (tops_.size() <= index) {
    const size_t stride = STACK_BYTES + page_bytes();
    const size_t bytes = STACKS_PER_SLAB * stride;
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    slabs_.push_back({static_cast<char*>(base), bytes});
    for (size_t i = 0; i < STACKS_PER_SLAB; ++i) {
      char* guard = static_cast<char*>(base) + i * stride;
      mprotect(guard, page_bytes(), PROT_NONE);
      tops_.push_back(guard + stride - (tops_.size() % COLOURS) * COLOUR_BYTES);
    }
  }
  return tops_[index];
}

bool StackPool::is_guard(const void* address) const {
  const char* where = static_cast<const char*>(address);
  for (const Slab& slab : slabs_)
    if (where >= slab.base && where < slab.base + slab.bytes)
      return static_cast<size_t>(where - slab.base) % (STACK_BYTES + page_bytes()) < page_bytes();
  return false;
}

}  // namespace flashcore::emu
