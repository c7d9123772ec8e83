// Records pinned host memory: ordinary memory that kernels may access and that copies read without staging.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>

namespace flashcore::emu {

class HostMemory {
 public:
  static HostMemory& instance() {
    static HostMemory memory;
    return memory;
  }
  void* allocate(size_t bytes) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 4096, bytes) != 0) return nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    sizes_[reinterpret_cast<uintptr_t>(memory)] = bytes;
    return memory;
  }
  bool release(void* memory) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (sizes_.erase(reinterpret_cast<uintptr_t>(memory)) == 0) return false;
    }
    free(memory);
    return true;
  }
  bool covers(const void* memory, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto address = reinterpret_cast<uintptr_t>(memory);
    auto after = sizes_.upper_bound(address);
    if (after == sizes_.begin()) return false;
    --after;
    const size_t offset = address - after->first;
    return offset < after->second && bytes <= after->second - offset;
  }

 private:
  std::mutex mutex_;
  std::map<uintptr_t, size_t> sizes_;
};

}  // namespace flashcore::emu
