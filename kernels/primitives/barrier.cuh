// Named barriers: a part of a CTA meets without stopping the rest (barrier 0 is __syncthreads). threads: a multiple of
// 32.
#pragma once

#ifndef FLASHCORE_EMULATOR

// Waits until `threads` threads have arrived at or synchronised on barrier `id` (0 .. 15).
__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(id), "r"(threads) : "memory");
}

// Counts in at the barrier without waiting.
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;\n" ::"r"(id), "r"(threads) : "memory");
}

#else  // the emulated twins

#include "flashcore_emulator/synchronisation.h"

inline void named_barrier_sync(int id, int threads, FLASHCORE_PLACE_PARAMETERS) {
  flashcore::emu::named_barrier_sync(id, threads, file, line);
}
inline void named_barrier_arrive(int id, int threads, FLASHCORE_PLACE_PARAMETERS) {
  flashcore::emu::named_barrier_arrive(id, threads, file, line);
}

#endif
