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

extern "C" __global__ void pinned_l2(const half* __restrict__ Q, const half* __restrict__ K, const half* __restrict__ V,
                                     half* __restrict__ O, int seq_len, float scale, int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const size_t row_offset = head_offset + (size_t)q_index * HEAD_DIM;
  RowState state;
  for (int key = 0; key < (causal ? q_index + 1 : seq_len); ++key) {
    alignas(16) half K_row[HEAD_DIM];
    alignas(16) half V_row[HEAD_DIM];
    for (int part = 0; part < HEAD_DIM / 8; ++part) {
      reinterpret_cast<uint4*>(K_row)[part] =
          load_pinned(reinterpret_cast<const uint4*>(K + head_offset + (size_t)key * HEAD_DIM) + part);
      reinterpret_cast<uint4*>(V_row)[part] =
          load_pinned(reinterpret_cast<const uint4*>(V + head_offset + (size_t)key * HEAD_DIM) + part);
    }
    attend_keys(state, Q + row_offset, K_row, V_row, 0, 1, scale);
  }
  store_row(O + row_offset, state);
}
