// Merges divided keys: several warps have computed the same 16 rows, each from its own keys. Their results are merged
// in pairs. With row maxima m_i (log2 units), row sums l_i and unnormalised outputs O_i, and m = max(m_1, m_2):
//   O = 2^(m_1 - m) O_1 + 2^(m_2 - m) O_2,  l likewise      (Flash-Decoding's formula)
// A part that saw no key of a row has l_i = 0, O_i = 0 and a finite m_i.
//
// Parts are stored as mma fragments, 16 bytes a lane. That avoids bank
// conflicts and index arithmetic, and the reader gets a fragment again.
#pragma once
#include "primitives/exp2.cuh"

// TILES: 8-column tiles of the head dimension. STRIPES: stripes of 16 rows in the CTA's tile of rows. A slot has one
// part for all stripes.
template <int TILES, int STRIPES>
struct MergeBuffer {
  static constexpr int SLOT_BYTES = STRIPES * (TILES * 32 * 16 + 16 * 8);
  unsigned char* slots;

  __device__ __forceinline__ float4* fragments(int slot, int stripe, int lane) const {
    return reinterpret_cast<float4*>(slots + slot * SLOT_BYTES) + stripe * TILES * 32 + lane;
  }
  __device__ __forceinline__ float2* max_and_sum(int slot, int stripe,
                                                 int lane) const {  // of row lane / 4; row + 8 is 8 elements further
    return reinterpret_cast<float2*>(slots + slot * SLOT_BYTES + STRIPES * TILES * 32 * 16) + stripe * 16 + (lane >> 2);
  }

  // O_rmem: [TILES][4] mma accumulators, elements 0 and 1 of row lane / 4, 2 and 3 of row lane / 4 + 8. The maxima and
  // sums are those of these two rows.
  __device__ __forceinline__ void hand_over(const float* O_rmem, float max_0, float max_1, float sum_0, float sum_1,
                                            int slot, int stripe, int lane) const {
    float4* to = fragments(slot, stripe, lane);
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile)
      to[tile * 32] = make_float4(O_rmem[4 * tile], O_rmem[4 * tile + 1], O_rmem[4 * tile + 2], O_rmem[4 * tile + 3]);
    if ((lane & 3) == 0) {
      float2* rows = max_and_sum(slot, stripe, lane);
      rows[0] = make_float2(max_0, sum_0);
      rows[8] = make_float2(max_1, sum_1);
    }
  }

  // To be called after a barrier with the warps that wrote the part.
  __device__ __forceinline__ void take_over(float* O_rmem, float& max_0, float& max_1, float& sum_0, float& sum_1,
                                            int slot, int stripe, int lane) const {
    const float2* rows = max_and_sum(slot, stripe, lane);
    const float2 other_0 = rows[0], other_1 = rows[8];
    const float raised_0 = fmaxf(max_0, other_0.x), raised_1 = fmaxf(max_1, other_1.x);
    const float own_0 = exp2_approx(max_0 - raised_0), own_1 = exp2_approx(max_1 - raised_1);
    const float taken_0 = exp2_approx(other_0.x - raised_0), taken_1 = exp2_approx(other_1.x - raised_1);
    max_0 = raised_0, max_1 = raised_1;
    sum_0 = own_0 * sum_0 + taken_0 * other_0.y, sum_1 = own_1 * sum_1 + taken_1 * other_1.y;
    const float4* from = fragments(slot, stripe, lane);
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
      const float4 other = from[tile * 32];
      O_rmem[4 * tile] = own_0 * O_rmem[4 * tile] + taken_0 * other.x;
      O_rmem[4 * tile + 1] = own_0 * O_rmem[4 * tile + 1] + taken_0 * other.y;
      O_rmem[4 * tile + 2] = own_1 * O_rmem[4 * tile + 2] + taken_1 * other.z;
      O_rmem[4 * tile + 3] = own_1 * O_rmem[4 * tile + 3] + taken_1 * other.w;
    }
  }
};
