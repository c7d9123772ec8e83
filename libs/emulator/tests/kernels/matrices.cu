// entries: wmma_rr wmma_rc wmma_cr wmma_cc wmma_half_accumulator wmma_m32n8k16 wmma_m8n32k16 wmma_bf16 mma_f32 mma_f16
// matrix_moves
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#include "primitives/ldmatrix.cuh"
#include "primitives/mma.cuh"
#include "primitives/smem.cuh"
#include "primitives/stmatrix.cuh"
using namespace nvcuda;

// D[M][N] = 2 (A B) + C. A and B have the given layouts, C is row-major and D is col-major.
template <int M, int N, int K, class T, class LA, class LB, class Acc>
__device__ void multiply(const T* A, const T* B, const Acc* C, Acc* D) {
  wmma::fragment<wmma::matrix_a, M, N, K, T, LA> a;
  wmma::fragment<wmma::matrix_b, M, N, K, T, LB> b;
  wmma::fragment<wmma::accumulator, M, N, K, Acc> c, d;
  wmma::load_matrix_sync(a, A, std::is_same_v<LA, wmma::row_major> ? K : M);
  wmma::load_matrix_sync(b, B, std::is_same_v<LB, wmma::row_major> ? N : K);
  wmma::load_matrix_sync(c, C, N, wmma::mem_row_major);
  for (int i = 0; i < a.num_elements; ++i) a.x[i] = T(2.0f * float(a.x[i]));
  wmma::mma_sync(d, a, b, c);
  wmma::store_matrix_sync(D, d, M, wmma::mem_col_major);
}

#define WMMA_ENTRY(NAME, M, N, K, T, LA, LB, ACC)                                 \
  extern "C" __global__ void NAME(const T* A, const T* B, const ACC* C, ACC* D) { \
    multiply<M, N, K, T, wmma::LA, wmma::LB>(A, B, C, D);                         \
  }
WMMA_ENTRY(wmma_rr, 16, 16, 16, half, row_major, row_major, float)
WMMA_ENTRY(wmma_rc, 16, 16, 16, half, row_major, col_major, float)
WMMA_ENTRY(wmma_cr, 16, 16, 16, half, col_major, row_major, float)
WMMA_ENTRY(wmma_cc, 16, 16, 16, half, col_major, col_major, float)
WMMA_ENTRY(wmma_half_accumulator, 16, 16, 16, half, row_major, row_major, half)
WMMA_ENTRY(wmma_m32n8k16, 32, 8, 16, half, row_major, row_major, float)
WMMA_ENTRY(wmma_m8n32k16, 8, 32, 16, half, row_major, col_major, float)
WMMA_ENTRY(wmma_bf16, 16, 16, 16, __nv_bfloat16, row_major, row_major, float)

// A [16][16] and B [8][16] (col-major: the rows of B^T) go through shared memory and ldmatrix into the PTX manual's
// register layout.
struct Operands {
  uint32_t a[4], b0, b1;
};

__device__ Operands load_operands(const half* A, const half* B) {
  __shared__ __align__(16) half A_smem[256], B_smem[128];
  Operands of;
  const int lane = threadIdx.x;
  for (int i = lane; i < 256; i += 32) A_smem[i] = A[i];
  for (int i = lane; i < 128; i += 32) B_smem[i] = B[i];
  __syncwarp();
  // Matrices 0 and 1 are rows 0..7 and 8..15 of the left half; 2 and 3 the same rows of the right half.
  ldmatrix_x4(of.a[0], of.a[1], of.a[2], of.a[3], smem_address(A_smem + (lane % 16) * 16 + lane / 16 * 8));
  ldmatrix_x2(of.b0, of.b1, smem_address(B_smem + (lane % 8) * 16 + lane / 8 % 2 * 8));
  return of;
}

extern "C" __global__ void mma_f32(const half* A, const half* B, const float* C, float* D) {
  const auto [a, b0, b1] = load_operands(A, B);
  const int group = threadIdx.x / 4, member = threadIdx.x % 4;
  float d[4] = {C[group * 8 + 2 * member], C[group * 8 + 2 * member + 1], C[(group + 8) * 8 + 2 * member],
                C[(group + 8) * 8 + 2 * member + 1]};
  mma_m16n8k16_f32(d, a, b0, b1);
  for (int i = 0; i < 4; ++i) D[(group + i / 2 * 8) * 8 + 2 * member + i % 2] = d[i];
}

extern "C" __global__ void mma_f16(const half* A, const half* B, const half* C, half* D) {
  const auto [a, b0, b1] = load_operands(A, B);
  const int group = threadIdx.x / 4, member = threadIdx.x % 4;
  uint32_t d[2] = {*(const uint32_t*)(C + group * 8 + 2 * member),
                   *(const uint32_t*)(C + (group + 8) * 8 + 2 * member)};
  mma_m16n8k16_f16(d, a, b0, b1);
  *(uint32_t*)(D + group * 8 + 2 * member) = d[0];
  *(uint32_t*)(D + (group + 8) * 8 + 2 * member) = d[1];
}

// Loads four 8 x 8 matrices transposed and stores them unchanged: out[m] = in[m]^T.
extern "C" __global__ void matrix_moves(const uint16_t* in, uint16_t* out) {
  __shared__ __align__(16) uint16_t tile[256];
  const int lane = threadIdx.x;
  for (int i = lane; i < 256; i += 32) tile[i] = in[i];
  __syncwarp();
  uint32_t m[4];
  ldmatrix_x4_trans(m[0], m[1], m[2], m[3], smem_address(tile + lane * 8));
  __syncwarp();
  stmatrix_x4(smem_address(tile + lane * 8), m[0], m[1], m[2], m[3]);
  __syncwarp();
  for (int i = lane; i < 256; i += 32) out[i] = tile[i];
}
