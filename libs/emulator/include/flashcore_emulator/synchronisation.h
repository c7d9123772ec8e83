// Barriers and fences. A barrier records its caller's line for deadlock reports.
#pragma once
#include "abi.h"

inline __attribute__((always_inline)) void __syncthreads(FLASHCORE_PLACE_PARAMETERS) {
  flashcore_emu_barrier(0, 0, flashcore::emu::BARRIER_PLAIN, 0, "__syncthreads()", file, line);
}
inline int __syncthreads_count(int predicate, FLASHCORE_PLACE_PARAMETERS) {
  return flashcore_emu_barrier(0, 0, flashcore::emu::BARRIER_COUNT, predicate, "__syncthreads_count()", file, line);
}
inline int __syncthreads_and(int predicate, FLASHCORE_PLACE_PARAMETERS) {
  return flashcore_emu_barrier(0, 0, flashcore::emu::BARRIER_AND, predicate, "__syncthreads_and()", file, line);
}
inline int __syncthreads_or(int predicate, FLASHCORE_PLACE_PARAMETERS) {
  return flashcore_emu_barrier(0, 0, flashcore::emu::BARRIER_OR, predicate, "__syncthreads_or()", file, line);
}

namespace flashcore::emu {

/** bar.sync id, threads */
inline void named_barrier_sync(unsigned id, unsigned threads, FLASHCORE_PLACE_PARAMETERS) {
  flashcore_emu_barrier(id, threads, BARRIER_PLAIN, 0, "named barrier", file, line);
}
/** bar.arrive id, threads */
inline void named_barrier_arrive(unsigned id, unsigned threads, FLASHCORE_PLACE_PARAMETERS) {
  flashcore_emu_barrier_arrive(id, threads, file, line);
}

}  // namespace flashcore::emu

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __nanosleep(unsigned) { flashcore_emu_yield(); }
