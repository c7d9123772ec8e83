// Asynchronous copies from device memory to shared memory, past the registers (sm_80 and later).
#pragma once
#include <cstdint>

#ifndef FLASHCORE_EMULATOR

// Copies 16 bytes (both addresses 16-byte aligned), or fills with zeros without reading the source when in_bounds is
// false. .cg: cached in L2 only; a tile is read once by a CTA, so L1 would only be polluted.
__device__ __forceinline__ void cp_async_16(uint32_t destination_smem, const void* source, bool in_bounds) {
  const int source_bytes = in_bounds ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(destination_smem), "l"(source),
               "r"(source_bytes)
               : "memory");
}

// As above, always in bounds.
__device__ __forceinline__ void cp_async_16(uint32_t destination_smem, const void* source) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n" ::"r"(destination_smem), "l"(source) : "memory");
}

// Closes this thread's current group of copies.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

// Waits until at most PENDING of this thread's latest groups are still in flight. Other threads' copies need a barrier
// after it.
template <int PENDING>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(PENDING) : "memory");
}

#else  // the emulated twins

#include "flashcore_emulator/memory.h"

// Carried out at the matching wait, and not before: a missing wait shows.
inline void cp_async_16(uint32_t destination_smem, const void* source, bool in_bounds) {
  flashcore::emu::cp_async(flashcore::emu::shared_pointer(destination_smem), source, 16, in_bounds ? 16 : 0);
}
inline void cp_async_16(uint32_t destination_smem, const void* source) { cp_async_16(destination_smem, source, true); }
inline void cp_async_commit() { flashcore::emu::cp_async_commit(); }

template <int PENDING>
inline void cp_async_wait() {
  flashcore::emu::cp_async_wait(PENDING);
}

#endif
