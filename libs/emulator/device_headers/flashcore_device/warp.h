// Barriers, fences, shuffles, votes and clocks. __syncthreads() is clang's own.
#pragma once
#include "math.h"

FLASHCORE_DEVICE int __syncthreads_and(int predicate) { return __nvvm_bar0_and(predicate); }
FLASHCORE_DEVICE int __syncthreads_or(int predicate) { return __nvvm_bar0_or(predicate); }
FLASHCORE_DEVICE int __syncthreads_count(int predicate) { return __nvvm_bar0_popc(predicate); }
FLASHCORE_DEVICE void __syncwarp(unsigned mask = 0xffffffffu) { __nvvm_bar_warp_sync(mask); }
FLASHCORE_DEVICE void __threadfence_block() { asm volatile("membar.cta;" ::: "memory"); }
FLASHCORE_DEVICE void __threadfence() { asm volatile("membar.gl;" ::: "memory"); }
FLASHCORE_DEVICE void __threadfence_system() { asm volatile("membar.sys;" ::: "memory"); }

FLASHCORE_DEVICE unsigned __activemask() {
  unsigned mask;
  asm volatile("activemask.b32 %0;" : "=r"(mask));
  return mask;
}
FLASHCORE_DEVICE int __all_sync(unsigned mask, int predicate) { return __nvvm_vote_all_sync(mask, predicate != 0); }
FLASHCORE_DEVICE int __any_sync(unsigned mask, int predicate) { return __nvvm_vote_any_sync(mask, predicate != 0); }
FLASHCORE_DEVICE int __uni_sync(unsigned mask, int predicate) { return __nvvm_vote_uni_sync(mask, predicate != 0); }
FLASHCORE_DEVICE unsigned __ballot_sync(unsigned mask, int predicate) {
  return __nvvm_vote_ballot_sync(mask, predicate != 0);
}
FLASHCORE_DEVICE unsigned __match_any_sync(unsigned mask, unsigned value) {
  return __nvvm_match_any_sync_i32(mask, value);
}
FLASHCORE_DEVICE unsigned __match_any_sync(unsigned mask, int value) {
  return __nvvm_match_any_sync_i32(mask, static_cast<unsigned>(value));
}
FLASHCORE_DEVICE unsigned __match_all_sync(unsigned mask, unsigned value, int* same) {
  return __nvvm_match_all_sync_i32p(mask, value, same);
}

// The last operand of a shuffle: the last lane of a segment that may be read, and a mask that says which lanes share a
// segment.
#define FLASHCORE_SHUFFLE(NAME, PTX, LAST)                                                                      \
  FLASHCORE_DEVICE int NAME(unsigned mask, int value, int lane, int width = 32) {                               \
    return __nvvm_shfl_sync_##PTX##_i32(mask, value, lane, (32 - width) << 8 | LAST);                           \
  }                                                                                                             \
  FLASHCORE_DEVICE unsigned NAME(unsigned mask, unsigned value, int lane, int width = 32) {                     \
    return static_cast<unsigned>(NAME(mask, static_cast<int>(value), lane, width));                             \
  }                                                                                                             \
  FLASHCORE_DEVICE float NAME(unsigned mask, float value, int lane, int width = 32) {                           \
    return __nvvm_shfl_sync_##PTX##_f32(mask, value, lane, (32 - width) << 8 | LAST);                           \
  }                                                                                                             \
  FLASHCORE_DEVICE unsigned long long NAME(unsigned mask, unsigned long long value, int lane, int width = 32) { \
    const unsigned low = NAME(mask, static_cast<unsigned>(value), lane, width);                                 \
    const unsigned high = NAME(mask, static_cast<unsigned>(value >> 32), lane, width);                          \
    return static_cast<unsigned long long>(high) << 32 | low;                                                   \
  }                                                                                                             \
  FLASHCORE_DEVICE long long NAME(unsigned mask, long long value, int lane, int width = 32) {                   \
    return static_cast<long long>(NAME(mask, static_cast<unsigned long long>(value), lane, width));             \
  }                                                                                                             \
  FLASHCORE_DEVICE unsigned long NAME(unsigned mask, unsigned long value, int lane, int width = 32) {           \
    return static_cast<unsigned long>(NAME(mask, static_cast<unsigned long long>(value), lane, width));         \
  }                                                                                                             \
  FLASHCORE_DEVICE long NAME(unsigned mask, long value, int lane, int width = 32) {                             \
    return static_cast<long>(NAME(mask, static_cast<unsigned long long>(value), lane, width));                  \
  }                                                                                                             \
  FLASHCORE_DEVICE double NAME(unsigned mask, double value, int lane, int width = 32) {                         \
    return __longlong_as_double(NAME(mask, __double_as_longlong(value), lane, width));                          \
  }
FLASHCORE_SHUFFLE(__shfl_sync, idx, 0x1f)
FLASHCORE_SHUFFLE(__shfl_up_sync, up, 0)
FLASHCORE_SHUFFLE(__shfl_down_sync, down, 0x1f)
FLASHCORE_SHUFFLE(__shfl_xor_sync, bfly, 0x1f)
#undef FLASHCORE_SHUFFLE

#define FLASHCORE_REDUCE(NAME, TYPE, OPERATION)                                                  \
  FLASHCORE_DEVICE TYPE __reduce_##NAME##_sync(unsigned mask, TYPE value) {                      \
    TYPE result;                                                                                 \
    asm volatile("redux.sync." OPERATION " %0, %1, %2;" : "=r"(result) : "r"(value), "r"(mask)); \
    return result;                                                                               \
  }
FLASHCORE_REDUCE(add, int, "add.s32")
FLASHCORE_REDUCE(add, unsigned, "add.u32")
FLASHCORE_REDUCE(min, int, "min.s32")
FLASHCORE_REDUCE(min, unsigned, "min.u32")
FLASHCORE_REDUCE(max, int, "max.s32")
FLASHCORE_REDUCE(max, unsigned, "max.u32")
FLASHCORE_REDUCE(and, unsigned, "and.b32")
FLASHCORE_REDUCE(or, unsigned, "or.b32")
FLASHCORE_REDUCE(xor, unsigned, "xor.b32")
#undef FLASHCORE_REDUCE

FLASHCORE_DEVICE long long clock64() {
  long long cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
  return cycles;
}
FLASHCORE_DEVICE int clock() {
  int cycles;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(cycles)::"memory");
  return cycles;
}
FLASHCORE_DEVICE unsigned long long __globaltimer() {
  unsigned long long nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}
FLASHCORE_DEVICE void cudaGridDependencySynchronize() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
FLASHCORE_DEVICE void cudaTriggerProgrammaticLaunchCompletion() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
FLASHCORE_DEVICE void __nanosleep(unsigned nanoseconds) { asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds)); }
[[noreturn]] FLASHCORE_DEVICE void __trap() {
  asm volatile("trap;");
  __builtin_unreachable();
}

extern "C" {
__attribute__((device)) int printf(const char* format, ...);
__attribute__((device, noreturn)) void __assertfail(const char* message, const char* file, unsigned line,
                                                    const char* function, size_t character_bytes);
}
