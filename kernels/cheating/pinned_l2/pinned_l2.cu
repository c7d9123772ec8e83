// Cheat: it pins its inputs in L2, so that they would survive the flush
// before a cold sample. PINNED=0 is the same kernel without pinning.
#include "faulty/attend_row.cuh"
#include <stdint.h>

// Loads 16 bytes that L2 should evict last. Caching does not change values, so the emulator uses a plain load.
__device__ __forceinline__ uint4 load_pinned(const uint4* address) {
#if PINNED && !defined(FLASHCORE_EMULATOR)
  uint4 value;
  asm volatile(
      "{ .reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy, 1.0; ld.global.L2::cache_hint.v4.u32 "
      "{%0, %1, %2, %3}, [%4], policy; }"
      : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
      : "l"(address));
  return value;
#else
  return *address;
#endif
}

ROW_KERNEL(pinned_l2) {
  RowState state;
  for (int key = 0; key < row.keys; ++key) {
    alignas(16) half K_row[HEAD_DIM];
    alignas(16) half V_row[HEAD_DIM];
    for (int part = 0; part < HEAD_DIM / 8; ++part) {
      reinterpret_cast<uint4*>(K_row)[part] =
          load_pinned(reinterpret_cast<const uint4*>(row.K + (size_t)key * HEAD_DIM) + part);
      reinterpret_cast<uint4*>(V_row)[part] =
          load_pinned(reinterpret_cast<const uint4*>(row.V + (size_t)key * HEAD_DIM) + part);
    }
    attend_keys(state, row.Q, K_row, V_row, 0, 1, row.scale);
  }
  store_row(row.O, state);
}
