// Cheat: it fills logs and disks, even with a line that never ends.
#include "faulty/attend_row.cuh"
#include <stdio.h>

extern "C" __global__ void printf_flood(const half* __restrict__ Q, const half* __restrict__ K,
                                        const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                        int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const size_t row_offset = head_offset + (size_t)q_index * HEAD_DIM;
  RowState state;
  attend_keys(state, Q + row_offset, K + head_offset, V + head_offset, 0, causal ? q_index + 1 : seq_len, scale);
  store_row(O + row_offset, state);
  volatile int forever = 1;
  while (forever)
    printf("%d is a fine number to print, and more of it and more of it and more of it and more of it%s", q_index,
           q_index % 2 ? "\n" : "");
}
