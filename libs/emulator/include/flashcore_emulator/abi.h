// The interface between an emulated kernel (compiled into its own shared object) and libcuda_emu: the state of a
// thread, and the calls that only the emulator can answer. Both sides include this file.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../vector_types.h"

#define FLASHCORE_EMULATOR_ABI 2

// The last parameters of functions that wait: the caller's file and line, for deadlock reports.
#define FLASHCORE_PLACE_PARAMETERS const char *file = __builtin_FILE(), int line = __builtin_LINE()

namespace flashcore::emu {

/**
 * The state of a CUDA thread. The emulator has one per fibre, and a pointer to that of the running fibre. A thread
 * reads the first 64 bytes when it starts. After these, the emulator's Fibre has the fields that each switch touches.
 */
struct ThreadState {
  uint3 thread_index;
  uint3 block_index;
  dim3 block_dim;
  dim3 grid_dim;
  char* dynamic_shared;   // ends at a guard page
  unsigned dynamic_shared_bytes;
  unsigned linear_index;  // index of the thread within its block: x fastest
  unsigned lane;          // linear_index % 32
  unsigned atomic_calls;  // calls made by this thread; see atomics.h
};
static_assert(offsetof(ThreadState, lane) == 64, "a cache line");

/** Operations of a warp. Lanes meet only with lanes that do the same operation with the same mask. */
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

/** A thread's place in the kernel's source. Both strings live as long as the module. */
struct Place {
  const char* file;
  int line;
};

/** A call that may wait, as deadlock reports name it. */
struct WaitingCall {
  const char* name;
  Place place;
};

/** The lanes in `mask` of a warp, which do an operation together. */
struct LaneGroup {
  WarpOperation operation;
  unsigned mask;
};

/** One `__global__` function of a module. */
struct Entry {
  const char* name;
  unsigned parameter_count;
  const unsigned* parameter_sizes;    // in bytes
  const unsigned* parameter_offsets;  // in the packed argument buffer, with CUDA's natural alignment
  unsigned packed_bytes;
  void (*function)();
  void (*invoke)(void (*function)(), const char* packed);
  Entry* next;
};

/** The description that a module exports as `flashcore_emu_module` for cuModuleLoadData. */
struct Module {
  int abi;
  int instrumented;  // 1: compiled with the memory-access hooks
  Entry* entries;
};

}  // namespace flashcore::emu

#pragma GCC visibility push(default)
extern "C" {

// The running fibre. It is in static TLS, so that a kernel reads it with two loads.
extern __thread flashcore::emu::ThreadState* flashcore_emu_thread
#if !defined(__APPLE__)
    __attribute__((tls_model("initial-exec")))
#endif
    ;

// Scalars stay in registers. With structs of the same values the launches of flashcore_v6 took 13 to 38 % longer
// (g++ 12).

/** bar.sync id, count threads (0: all of the block that have not exited). Returns the reduction of `predicate`. */
int flashcore_emu_barrier(unsigned id, unsigned count, int reduction, int predicate, const char* what, const char* file,
                          int line);
/** bar.arrive: counts this thread and does not wait. */
void flashcore_emu_barrier_arrive(unsigned id, unsigned count, const char* file, int line);

/**
 * Deposits `deposit` at the meeting of the lanes in `mask`. The last lane to arrive gets the 32 deposits (null for
 * lanes that take no part), computes for all lanes and calls flashcore_emu_warp_release. The other lanes wait for that
 * call and get null.
 */
void** flashcore_emu_warp_arrive(int operation, unsigned mask, void* deposit, const char* what, const char* file,
                                 int line);
void flashcore_emu_warp_release(void);
/** The lanes of this warp that exist and have not exited. */
unsigned flashcore_emu_active_mask(void);

/**
 * Lets the block's other threads run. Atomics call it now and then so that the holder of a spin lock can release it.
 */
void flashcore_emu_yield(void);

/** Ends the launch with a fault of this kind ("TRAP", "ASSERT" …). */
[[noreturn]] void flashcore_emu_fault(const char* kind, const char* message);

/**
 * cp.async: records the copy, which the matching wait carries out. If `source_bytes` < `bytes`, the rest is filled with
 * zeros.
 */
void flashcore_emu_cp_async(void* destination, const void* source, unsigned bytes, unsigned source_bytes);
void flashcore_emu_cp_async_commit(void);
/**
 * Waits until at most `pending` of this thread's newest committed groups are unfinished. If negative, waits for
 * everything.
 */
void flashcore_emu_cp_async_wait(int pending);

/** Converts a generic pointer to a 32-bit shared-memory address, like cvta.to.shared, and back. */
unsigned flashcore_emu_shared_address(const void* pointer);
void* flashcore_emu_shared_pointer(unsigned address);

int flashcore_emu_printf(const char* format, ...) __attribute__((format(printf, 1, 2)));
unsigned long long flashcore_emu_nanoseconds(void);
}
#pragma GCC visibility pop

namespace flashcore::emu {
inline __attribute__((always_inline)) ThreadState& self() { return *flashcore_emu_thread; }
}  // namespace flashcore::emu
