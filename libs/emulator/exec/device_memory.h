// Device allocations, each between guard pages and ending as close to the one behind it as 16-byte alignment allows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "../driver/cuda_abi.h"

namespace flashcore::emu {

constexpr unsigned char DEVICE_POISON = 0xFF;  // a NaN in fp16, bf16 and fp32

class DeviceMemory {
 public:
  static DeviceMemory& instance();

  CUresult allocate(CUdeviceptr* pointer, size_t bytes);
  CUresult release(CUdeviceptr pointer);
    /** True if [pointer, pointer + bytes) lies within one live allocation. */
  bool covers(CUdeviceptr pointer, size_t bytes);
    /** The live allocation that holds `pointer`. */
  bool find(CUdeviceptr pointer, CUdeviceptr* base, size_t* bytes);
    /** What describe() calls an allocation instead of its number. */
  void name(CUdeviceptr base, const std::string& name);
    /** The part of it that kernels may touch: without what was hidden. */
  bool find_visible(CUdeviceptr pointer, CUdeviceptr* base, size_t* bytes);
    /** The first bytes of an allocation are a guard: the PTX engine faults a kernel that touches them. */
  void hide_start(CUdeviceptr base, size_t bytes);
    /** Which allocation an address belongs to or misses, in words; empty if none is near. */
  std::string describe(uint64_t address);
    /** Describes the first allocation whose slack before the guard page has been written; empty if none. */
  std::string overwritten_slack();
  void total_and_free(size_t* total, size_t* free_bytes);
  size_t live_allocations();

 private:
  struct Allocation {
    char* mapping;         // with its guard pages
    size_t mapping_bytes;
    char* base;
    size_t bytes;
    uint64_t number;       // counted from 1 in order of allocation
    bool freed;
    size_t hidden = 0;     // of its first bytes
    std::string name = {};
  };
  DeviceMemory();
  static char* usable_end(const Allocation& allocation);
  const Allocation* near(uint64_t address) const;

  std::mutex mutex_;
  std::map<uint64_t, Allocation> by_mapping_;
  std::map<CUdeviceptr, uint64_t> by_base_;
  std::vector<uint64_t> freed_;  // mappings kept unreadable, so that a use after free is named; oldest first
  size_t total_;
  size_t used_ = 0;
  uint64_t count_ = 0;
};

}  // namespace flashcore::emu
