// The pipeline primitives of cuda_pipeline.h: cp.async with its commit and wait, which order earlier memory accesses.
#pragma once
#include <cuda_runtime.h>

/** Copies 4, 8 or 16 bytes; the last `zero_fill` of them become 0 without being read. */
FLASHCORE_DEVICE void __pipeline_memcpy_async(void* shared, const void* global, size_t bytes, size_t zero_fill = 0) {
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const unsigned read = static_cast<unsigned>(bytes - zero_fill);
  if (bytes == 4)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(global), "r"(read) : "memory");
  else if (bytes == 8)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(global), "r"(read) : "memory");
  else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(read) : "memory");
}
FLASHCORE_DEVICE void __pipeline_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/** Waits until at most `pending` groups are unfinished. A switch, because PTX needs the number as a constant. */
FLASHCORE_DEVICE void __pipeline_wait_prior(size_t pending) {
  switch (pending) {
#define FLASHCORE_WAIT(N) \
  case N: asm volatile("cp.async.wait_group " #N ";" ::: "memory"); break;
    FLASHCORE_WAIT(1)
    FLASHCORE_WAIT(2)
    FLASHCORE_WAIT(3)
    FLASHCORE_WAIT(4)
    FLASHCORE_WAIT(5)
    FLASHCORE_WAIT(6)
    FLASHCORE_WAIT(7)
#undef FLASHCORE_WAIT
    default: asm volatile("cp.async.wait_all;" ::: "memory");
  }
}
