// Device allocations. Each one has guard pages before and after it, and ends as close to the second guard as 16-byte
// alignment allows.
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
    /** True if [pointer, pointer + bytes) is within one live allocation. */
  bool covers(CUdeviceptr pointer, size_t bytes);
    /** Finds the live allocation that holds `pointer`. */
  bool find(CUdeviceptr pointer, CUdeviceptr* base, size_t* bytes);
    /** Gives an allocation a name, which describe() uses instead of its number. */
  void name(CUdeviceptr base, const std::string& name);
    /** Finds the part of the allocation that kernels may access, without its hidden bytes. */
  bool find_visible(CUdeviceptr pointer, CUdeviceptr* base, size_t* bytes);
    /** Hides the first bytes of an allocation as a guard. The PTX engine faults a kernel that touches them. */
  void hide_start(CUdeviceptr base, size_t bytes);
    /** Describes the allocation that contains this address or is near it. Empty if none is near. */
  std::string describe(uint64_t address);
    /** Describes the first allocation whose slack before the guard page was overwritten. Empty if there is none. */
  std::string overwritten_slack();
  void total_and_free(size_t* total, size_t* free_bytes);
  size_t live_allocations();

 private:
  struct Allocation {
    char* mapping;         // including its guard pages
    size_t mapping_bytes;
    char* base;
    size_t bytes;
    uint64_t number;       // numbered from 1 in order of allocation
    bool freed;
    size_t hidden = 0;     // bytes hidden at the start
    std::string name = {};
  };
  DeviceMemory();
  static char* usable_end(const Allocation& allocation);
  const Allocation* near(uint64_t address) const;

  std::mutex mutex_;
  std::map<uint64_t, Allocation> by_mapping_;
  std::map<CUdeviceptr, uint64_t> by_base_;
  std::vector<uint64_t> freed_;  // freed mappings, oldest first, kept unreadable to detect a use after free
  size_t total_;
  size_t used_ = 0;
  uint64_t count_ = 0;
};

}  // namespace flashcore::emu
