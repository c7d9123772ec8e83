#include "shared_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "fibre.h"
#include "launch_plan.h"
#if defined(__linux__)
#include <dlfcn.h>
#include <link.h>

extern "C" void* __tls_get_addr(size_t* module_and_offset);
#endif

namespace flashcore::emu {

namespace {
// Positions of the two parts in the 32-bit window of cvta.to.shared. Each part starts at a multiple of 256 KB, so that
// arithmetic on low address bits (swizzles) gives the same result as with pointers.
constexpr unsigned STATIC_WINDOW = 0x00040000;
constexpr unsigned DYNAMIC_WINDOW = 0x00080000;
// Largest alignment that a kernel may declare for its dynamic part. The part ends as close to the guard page as this
// allows.
constexpr size_t DYNAMIC_ALIGNMENT = 128;
}  // namespace

#if defined(__linux__)

Region static_shared_of(void* library) {
  struct Search {
    size_t tls_module;
    size_t bytes;
  } search{0, 0};
  if (dlinfo(library, RTLD_DI_TLS_MODID, &search.tls_module) != 0 || search.tls_module == 0) return {};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* wanted = static_cast<Search*>(data);
        if (info->dlpi_tls_modid != wanted->tls_module) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i)
          if (info->dlpi_phdr[i].p_type == PT_TLS) wanted->bytes = info->dlpi_phdr[i].p_memsz;
        return 1;
      },
      &search);
  size_t start[2] = {search.tls_module, 0};
  return {static_cast<char*>(__tls_get_addr(start)), search.bytes};
}
#else
Region static_shared_of(void*) { return {}; }
#endif

SharedMemory::SharedMemory() {
  const size_t page = page_bytes();
  const size_t usable = (MAX_DYNAMIC_SHARED_BYTES + DYNAMIC_ALIGNMENT + page - 1) / page * page;
  mapping_bytes_ = usable + 32 * page;
  void* mapping = mmap(nullptr, mapping_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<char*>(mapping);
  end_ = mapping_ + 16 * page + usable;
  mprotect(mapping_ + 16 * page, usable, PROT_READ | PROT_WRITE);
}

SharedMemory::~SharedMemory() { munmap(mapping_, mapping_bytes_); }

void SharedMemory::begin_block(const LaunchPlan& plan) {
  const unsigned dynamic_bytes = plan.dynamic_shared_bytes;
  if (static_of_ != plan.module_serial) {
    static_ = static_shared_of(plan.library);
    static_of_ = plan.module_serial;
  }
  if (static_.bytes) memset(static_.base, SHARED_POISON, static_.bytes);
  char* base = end_ - (dynamic_bytes + DYNAMIC_ALIGNMENT - 1) / DYNAMIC_ALIGNMENT * DYNAMIC_ALIGNMENT;
  dynamic_ = {base, dynamic_bytes};
  if (dynamic_bytes) memset(base, SHARED_POISON, static_cast<size_t>(end_ - base));
}

const char* SharedMemory::overwritten_slack() const {
  for (const char* byte = end_; byte-- > dynamic_.base + dynamic_.bytes;)
    if (static_cast<unsigned char>(*byte) != SHARED_POISON) return byte;
  return nullptr;
}

bool SharedMemory::is_guard(const void* address) const {
  return address >= mapping_ && address < mapping_ + mapping_bytes_ && !dynamic_.contains(address);
}

unsigned SharedMemory::address_of(const void* pointer) const {
  const char* where = static_cast<const char*>(pointer);
  if (static_.bytes && where >= static_.base && where <= static_.base + static_.bytes)
    return STATIC_WINDOW + static_cast<unsigned>(where - static_.base);
  return DYNAMIC_WINDOW + static_cast<unsigned>(where - dynamic_.base);
}

void* SharedMemory::pointer_to(unsigned address) const {
  if (address < DYNAMIC_WINDOW - 0x20000) return static_.base + static_cast<int>(address - STATIC_WINDOW);
  return dynamic_.base + static_cast<int>(address - DYNAMIC_WINDOW);
}

}  // namespace flashcore::emu
