// A block's shared memory. The static part is the module's thread-local storage; the dynamic part ends at a guard page.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../include/flashcore_emulator/abi.h"

namespace flashcore::emu {

struct LaunchPlan;

constexpr size_t MAX_DYNAMIC_SHARED_BYTES = 228 * 1024;
constexpr unsigned char SHARED_POISON = 0xFF;  // a NaN in fp16, bf16 and fp32

struct Region {
  char* base = nullptr;
  size_t bytes = 0;
  bool contains(const void* pointer) const { return pointer >= base && pointer < base + bytes; }
};

/**
 * The static shared memory that a loaded module (a dlopen handle) has on the calling OS thread. Empty if the module has
 * none or the platform cannot find it.
 */
Region static_shared_of(void* library);

class SharedMemory {
 public:
  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;

  /** Poisons the shared memory for a new block. */
  void begin_block(const LaunchPlan& plan);
  /** The first changed byte in the slack between the dynamic part and the guard page; null if there is none. */
  const char* overwritten_slack() const;

  const Region& static_part() const { return static_; }
  const Region& dynamic_part() const { return dynamic_; }
  bool contains(const void* pointer) const { return static_.contains(pointer) || dynamic_.contains(pointer); }
  /** True for the guard pages around the dynamic part. */
  bool is_guard(const void* address) const;

  unsigned address_of(const void* pointer) const;
  void* pointer_to(unsigned address) const;

 private:
  char* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
  char* end_ = nullptr;  // start of the guard after the dynamic part
  Region static_;
  Region dynamic_;
  uint64_t static_of_ = 0;  // serial of the module whose static part is static_
};

}  // namespace flashcore::emu
