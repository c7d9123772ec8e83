// Matrix products of one warp: C = A B, A [16][16] and B [16][16] (or [16][8]) fp16, C fp32.
#include <cuda_fp16.h>
#include <mma.h>

#include "primitives/cp_async.cuh"
#include "primitives/ldmatrix.cuh"
#include "primitives/mma.cuh"
#include "primitives/smem.cuh"

using namespace nvcuda;

extern "C" __global__ void wmma_product(const half* A, const half* B, float* C) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::load_matrix_sync(a, A, 16);
  wmma::load_matrix_sync(b, B, 16);
  wmma::fill_fragment(c, 0.0f);
  wmma::mma_sync(c, a, b, c);
  wmma::store_matrix_sync(C, c, 16, wmma::mem_row_major);
}

// A and B [16][8] come through cp.async and ldmatrix, as in a real kernel; C is [16][8].
extern "C" __global__ void mma_product(const half* A, const half* B, float* C) {
  __shared__ __align__(128) half A_smem[16 * 16];
  __shared__ __align__(128) half B_smem[16 * 8];
  const int lane = threadIdx.x;
  cp_async_16(smem_address(A_smem + lane * 8), A + lane * 8);
  if (lane < 16) cp_async_16(smem_address(B_smem + lane * 8), B + lane * 8);
  cp_async_commit();
  cp_async_wait<0>();
  __syncwarp();

  uint32_t a[4], b[2];
  ldmatrix_x4(a[0], a[1], a[2], a[3], smem_address(A_smem + (lane % 16) * 16 + lane / 16 * 8));
  ldmatrix_x2_trans(b[0], b[1], smem_address(B_smem + (lane % 16) * 8));
  float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  mma_m16n8k16_f32(d, a, b[0], b[1]);

  const int row = lane / 4, col = lane % 4 * 2;
  C[row * 8 + col] = d[0];
  C[row * 8 + col + 1] = d[1];
  C[(row + 8) * 8 + col] = d[2];
  C[(row + 8) * 8 + col + 1] = d[3];
}
