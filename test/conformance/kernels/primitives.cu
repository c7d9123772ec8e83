// Each function of kernels/primitives for sm_80, launched separately. Inputs and results are in device memory, as
// 32-bit words. Launched with one warp unless stated otherwise.
#include <cuda_fp16.h>

#include "primitives/barrier.cuh"
#include "primitives/convert.cuh"
#include "primitives/cp_async.cuh"
#include "primitives/exp2.cuh"
#include "primitives/ldmatrix.cuh"
#include "primitives/mma.cuh"
#include "primitives/smem.cuh"

extern "C" __global__ void pack_half2_all(const float* pairs, uint32_t* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = pack_half2(pairs[2 * i], pairs[2 * i + 1]);
}

extern "C" __global__ void pack_bfloat2_all(const float* pairs, uint32_t* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = pack_bfloat2(pairs[2 * i], pairs[2 * i + 1]);
}

extern "C" __global__ void exp2_approx_all(const float* x, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = exp2_approx(x[i]);
}

// 32 rows of 16 bytes. Lane i gives the address of row (5 i + 3) % 32, so that a wrong row order cannot pass by luck.
struct Rows {
  alignas(16) uint16_t elements[32][8];
};

__device__ void load_rows(Rows& rows, const uint16_t* in) {
  for (int i = threadIdx.x; i < 256; i += 32) rows.elements[i / 8][i % 8] = in[i];
  __syncwarp();
}

__device__ uint32_t row_of_lane(Rows& rows) { return smem_address(rows.elements[(5 * threadIdx.x + 3) % 32]); }

// out is [lane][matrix].
extern "C" __global__ void ldmatrix_x4_one(const uint16_t* in, uint32_t* out) {
  __shared__ Rows rows;
  load_rows(rows, in);
  uint32_t* m = out + 4 * threadIdx.x;
  ldmatrix_x4(m[0], m[1], m[2], m[3], row_of_lane(rows));
}
extern "C" __global__ void ldmatrix_x4_trans_one(const uint16_t* in, uint32_t* out) {
  __shared__ Rows rows;
  load_rows(rows, in);
  uint32_t* m = out + 4 * threadIdx.x;
  ldmatrix_x4_trans(m[0], m[1], m[2], m[3], row_of_lane(rows));
}
extern "C" __global__ void ldmatrix_x2_one(const uint16_t* in, uint32_t* out) {
  __shared__ Rows rows;
  load_rows(rows, in);
  uint32_t* m = out + 2 * threadIdx.x;
  ldmatrix_x2(m[0], m[1], row_of_lane(rows));
}
extern "C" __global__ void ldmatrix_x2_trans_one(const uint16_t* in, uint32_t* out) {
  __shared__ Rows rows;
  load_rows(rows, in);
  uint32_t* m = out + 2 * threadIdx.x;
  ldmatrix_x2_trans(m[0], m[1], row_of_lane(rows));
}

// Operands in register order: A [lane][4], B [lane][2], C and D [lane][4]; one product per CTA.
extern "C" __global__ void mma_f32_many(const uint32_t* A, const uint32_t* B, const float* C, float* D) {
  const int lane = blockIdx.x * 32 + threadIdx.x;
  const uint32_t a[4] = {A[4 * lane], A[4 * lane + 1], A[4 * lane + 2], A[4 * lane + 3]};
  float d[4] = {C[4 * lane], C[4 * lane + 1], C[4 * lane + 2], C[4 * lane + 3]};
  mma_m16n8k16_f32(d, a, B[2 * lane], B[2 * lane + 1]);
  for (int i = 0; i < 4; ++i) D[4 * lane + i] = d[i];
}
extern "C" __global__ void mma_f32_bf16_many(const uint32_t* A, const uint32_t* B, const float* C, float* D) {
  const int lane = blockIdx.x * 32 + threadIdx.x;
  const uint32_t a[4] = {A[4 * lane], A[4 * lane + 1], A[4 * lane + 2], A[4 * lane + 3]};
  float d[4] = {C[4 * lane], C[4 * lane + 1], C[4 * lane + 2], C[4 * lane + 3]};
  mma_m16n8k16_f32<true>(d, a, B[2 * lane], B[2 * lane + 1]);
  for (int i = 0; i < 4; ++i) D[4 * lane + i] = d[i];
}
// C and D [lane][2]: two halves per register.
extern "C" __global__ void mma_f16_many(const uint32_t* A, const uint32_t* B, const uint32_t* C, uint32_t* D) {
  const int lane = blockIdx.x * 32 + threadIdx.x;
  const uint32_t a[4] = {A[4 * lane], A[4 * lane + 1], A[4 * lane + 2], A[4 * lane + 3]};
  uint32_t d[2] = {C[2 * lane], C[2 * lane + 1]};
  mma_m16n8k16_f16(d, a, B[2 * lane], B[2 * lane + 1]);
  D[2 * lane] = d[0], D[2 * lane + 1] = d[1];
}

// Two groups of 512 bytes: in the first, every third copy is out of bounds (zeros); the second is complete. Each is
// read after its own wait.
extern "C" __global__ void cp_async_groups(const uint32_t* in, uint32_t* out) {
  __shared__ __align__(16) uint32_t tile[2][128];
  const int lane = threadIdx.x;
  cp_async_16(smem_address(tile[0] + 4 * lane), in + 4 * lane, lane % 3 != 0);
  cp_async_commit();
  cp_async_16(smem_address(tile[1] + 4 * lane), in + 128 + 4 * lane);
  cp_async_commit();
  cp_async_wait<1>();
  __syncwarp();
  for (int i = lane; i < 128; i += 32) out[i] = tile[0][i];
  cp_async_wait<0>();
  __syncwarp();
  for (int i = lane; i < 128; i += 32) out[128 + i] = tile[1][i];
}

// Four warps: 1, 2 and 3 write and arrive, each at its own barrier. Warp 0 waits at each barrier in turn, and reads.
extern "C" __global__ void named_barriers(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t passed[3][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp > 0) {
    passed[warp - 1][31 - lane] = in[32 * (warp - 1) + lane];
    named_barrier_arrive(warp, 64);
  } else {
    for (int from = 1; from < 4; ++from) {
      named_barrier_sync(from, 64);
      out[32 * (from - 1) + lane] = passed[from - 1][lane];
    }
  }
}

template <int ROW_BYTES>
__device__ void offsets(uint32_t* out) {
  for (int row = threadIdx.x; row < 32; row += 32)
    for (int chunk = 0; chunk < ROW_BYTES / 16; ++chunk)
      out[row * (ROW_BYTES / 16) + chunk] = swizzled_offset<ROW_BYTES>(row, chunk);
}
// The offset of each chunk of 32 rows of 64, 128 and 256 bytes.
extern "C" __global__ void swizzled_offsets(uint32_t* out) {
  offsets<64>(out);
  offsets<128>(out + 32 * 4);
  offsets<256>(out + 32 * 12);
}
