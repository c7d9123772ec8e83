// The line between an emulated kernel (compiled into its own shared object) and libcuda_emu: what a thread knows of
// itself, and the calls that only the emulator can answer. Both sides include this file.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../vector_types.h"

#define FLASHCORE_EMULATOR_ABI 2

// Last parameters of what threads wait in: the line that called it, for deadlock reports.
#define FLASHCORE_PLACE_PARAMETERS const char *file = __builtin_FILE(), int line = __builtin_LINE()

namespace flashcore::emu {

/**
 * What a CUDA thread knows of itself. The emulator keeps one a fibre and points at the running one. The first 64 bytes
 * are what a thread is asked for at its start; the emulator goes on where they end with what each switch touches.
 */
struct ThreadState {
  uint3 thread_index;
  uint3 block_index;
  dim3 block_dim;
  dim3 grid_dim;
  char* dynamic_shared;   // ends at a guard page
  unsigned dynamic_shared_bytes;
  unsigned linear_index;  // of the thread within its block: x fastest
  unsigned lane;          // linear_index % 32
  unsigned atomic_calls;  // by this thread; see atomics.h
};
static_assert(offsetof(ThreadState, lane) == 64, "a cache line");

/** What a warp does together. Lanes meet only with lanes that do the same with the same mask. */
enum WarpOperation : int {
  WARP_SYNC,
  WARP_SHUFFLE,
  WARP_VOTE,
  WARP_MATCH,
  WARP_REDUCE,
  WARP_LDMATRIX,
  WARP_STMATRIX,
  WARP_MOVMATRIX,
  WARP_MMA,
  WARP_WMMA_LOAD,
  WARP_WMMA_STORE,
  WARP_WMMA_MMA,
  WARP_CUSTOM
};

enum BarrierReduction : int { BARRIER_PLAIN, BARRIER_COUNT, BARRIER_AND, BARRIER_OR };

/** Where in the kernel's source a thread stands; both strings live as long as the module. */
struct Place {
  const char* file;
  int line;
};

/** One `__global__` function of a module. */
struct Entry {
  const char* name;
  unsigned parameter_count;
  const unsigned* parameter_sizes;    // bytes
  const unsigned* parameter_offsets;  // in the packed argument buffer, naturally aligned as CUDA packs them
  unsigned packed_bytes;
  void (*function)();
  void (*invoke)(void (*function)(), const char* packed);
  Entry* next;
};

/** What a module hands to cuModuleLoadData, through its export `flashcore_emu_module`. */
struct Module {
  int abi;
  int instrumented;  // 1: compiled with the memory-access hooks
  Entry* entries;
};

}  // namespace flashcore::emu

#pragma GCC visibility push(default)
extern "C" {

// The running fibre. Always in static TLS, so that a kernel reads it with two loads.
extern __thread flashcore::emu::ThreadState* flashcore_emu_thread
#if !defined(__APPLE__)
    __attribute__((tls_model("initial-exec")))
#endif
    ;

/** bar.sync id, count threads (0: all of the block that have not exited). Answers the reduction of `predicate`. */
int flashcore_emu_barrier(unsigned id, unsigned count, int reduction, int predicate, const char* what, const char* file,
                          int line);
/** bar.arrive: counts this thread and goes on. */
void flashcore_emu_barrier_arrive(unsigned id, unsigned count, const char* file, int line);

/**
 * Deposits `deposit` at the meeting of the lanes in `mask` and waits for the others. In one lane, the last, it returns
 * the 32 deposits (null for lanes that take no part): that lane computes for all and calls flashcore_emu_warp_release.
 * In the others it returns null once that has happened.
 */
void** flashcore_emu_warp_arrive(int operation, unsigned mask, void* deposit, const char* what, const char* file,
                                 int line);
void flashcore_emu_warp_release(void);
/** Lanes of this warp that exist and have not exited. */
unsigned flashcore_emu_active_mask(void);

/** Lets the other threads of the block run (called now and then by atomics, so that a spin lock can be let go). */
void flashcore_emu_yield(void);

/** Ends the launch with a fault of this kind ("TRAP", "ASSERT" …). */
[[noreturn]] void flashcore_emu_fault(const char* kind, const char* message);

/** cp.async: noted now, carried out at the matching wait. `source_bytes` < `bytes` fills the rest with zeros. */
void flashcore_emu_cp_async(void* destination, const void* source, unsigned bytes, unsigned source_bytes);
void flashcore_emu_cp_async_commit(void);
/** Waits until at most `pending` of this thread's newest committed groups are unfinished; negative: for everything. */
void flashcore_emu_cp_async_wait(int pending);

/** 32-bit shared-memory address of a generic pointer, as cvta.to.shared gives it, and back. */
unsigned flashcore_emu_shared_address(const void* pointer);
void* flashcore_emu_shared_pointer(unsigned address);

int flashcore_emu_printf(const char* format, ...) __attribute__((format(printf, 1, 2)));
unsigned long long flashcore_emu_nanoseconds(void);
}
#pragma GCC visibility pop

namespace flashcore::emu {
inline __attribute__((always_inline)) ThreadState& self() { return *flashcore_emu_thread; }
}  // namespace flashcore::emu
