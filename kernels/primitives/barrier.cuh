// Named barriers: a part of a CTA synchronizes without stopping the rest (barrier 0 is __syncthreads). `threads` must
// be a multiple of 32.
#pragma once

#ifndef FLASHCORE_EMULATOR

// Arrives at barrier `id` (0 .. 15) and waits until `threads` threads have arrived there, with or without waiting.
__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(id), "r"(threads) : "memory");
}

// Arrives at the barrier without waiting.
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;\n" ::"r"(id), "r"(threads) : "memory");
}

#else  // for the emulator

#include "flashcore_emulator/synchronisation.h"

inline void named_barrier_sync(int id, int threads, FLASHCORE_PLACE_PARAMETERS) {
  flashcore::emu::named_barrier_sync(id, threads, file, line);
}
inline void named_barrier_arrive(int id, int threads, FLASHCORE_PLACE_PARAMETERS) {
  flashcore::emu::named_barrier_arrive(id, threads, file, line);
}

#endif
