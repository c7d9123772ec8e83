// Split keys: the parts of a CTA have each attended BLOCK_Q rows to their own keys; here their results become one.
// With row maxima m_i (log2 units), row sums l_i and unnormalised outputs O_i of part i, and m = max m_i:
//   O = sum_i 2^(m_i - m) O_i / sum_i 2^(m_i - m) l_i      (Flash-Decoding's formula)
// A part that saw no key of a row brings l_i = 0, O_i = 0 and a finite m_i.
#pragma once
#include <cuda_fp16.h>

#include "primitives/convert.cuh"
#include "primitives/exp2.cuh"

template <int HEAD_DIM, int BLOCK_Q, int PARTS>
struct MergeBuffer {
  static constexpr int BYTES = PARTS * BLOCK_Q * (HEAD_DIM + 2) * 4;
  float* outputs;   // [PARTS][BLOCK_Q][HEAD_DIM], swizzled
  float* max;       // [PARTS][BLOCK_Q]
  float* sum;       // [PARTS][BLOCK_Q]

  __device__ __forceinline__ explicit MergeBuffer(void* smem)
      : outputs(static_cast<float*>(smem)), max(outputs + PARTS * BLOCK_Q * HEAD_DIM), sum(max + PARTS * BLOCK_Q) {}

  // Chunks of 16 bytes XORed with the row, so that neither the fragments' 8-byte stores nor the rows' 16-byte loads conflict.
  __device__ __forceinline__ float* output(int part, int row, int column) const {
    return outputs + (part * BLOCK_Q + row) * HEAD_DIM + (((column >> 2) ^ ((row & 7) << 1)) << 2) + (column & 3);
  }

  // Sums the parts and stores rows below S. Every thread of the CTA's THREADS takes four columns of a row at a time.
  template <int THREADS>
  __device__ __forceinline__ void sum_and_store(half* O, int first_row, int S, int thread) const {
    constexpr int QUADS = HEAD_DIM / 4;
#pragma unroll
    for (int item = thread; item < BLOCK_Q * QUADS; item += THREADS) {
      const int row = item / QUADS, column = item % QUADS * 4;
      if (first_row + row >= S) continue;
      float highest = max[row];
#pragma unroll
      for (int part = 1; part < PARTS; ++part) highest = fmaxf(highest, max[part * BLOCK_Q + row]);
      float row_sum = 0.0f;
      float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
      for (int part = 0; part < PARTS; ++part) {
        const float weight = exp2_approx(max[part * BLOCK_Q + row] - highest);
        const float4 values = *reinterpret_cast<const float4*>(output(part, row, column));
        row_sum += weight * sum[part * BLOCK_Q + row];
        total.x += weight * values.x, total.y += weight * values.y, total.z += weight * values.z, total.w += weight * values.w;
      }
      const float norm = 1.0f / row_sum;
      *reinterpret_cast<uint2*>(O + size_t(first_row + row) * HEAD_DIM + column) =
          make_uint2(pack_half2(total.x * norm, total.y * norm), pack_half2(total.z * norm, total.w * norm));
    }
  }
};
