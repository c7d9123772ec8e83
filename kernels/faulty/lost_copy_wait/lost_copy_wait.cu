// Fault: no cp_async_wait_group() between copying a tile and reading it.
#include "faulty/attend_row.cuh"
#include "primitives/cp_async.cuh"
#include "primitives/smem.cuh"

ROW_KERNEL_FOR_ALL(lost_copy_wait) {
  RowState state;
  __shared__ __align__(16) half K_smem[64 * HEAD_DIM];
  for (int first = 0; first < row.seq_len; first += 64) {
    for (int i = threadIdx.x * 8; i < 64 * HEAD_DIM; i += 64 * 8) {
      const int key = min(first + i / HEAD_DIM, row.seq_len - 1);
      cp_async_16(smem_address(&K_smem[i]), row.K + (size_t)key * HEAD_DIM + i % HEAD_DIM);
    }
    cp_async_commit();
    // cp_async_wait_group<0>() belongs here
    __syncthreads();
    attend_keys(state, row.Q, K_smem, row.V + (size_t)first * HEAD_DIM, 0, min(64, row.keys - first), row.scale);
    __syncthreads();
  }
  if (row.inside) store_row(row.O, state);
}
