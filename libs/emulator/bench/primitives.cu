// Entries: sync_threads sync_warp shuffle_xor wmma_product wmma_load mma_product scalar_fma half_fma nothing
#include <cuda_fp16.h>
#include <mma.h>
#include "primitives/mma.cuh"
using namespace nvcuda;

extern "C" __global__ void sync_threads(float* out, int count) {
  for (int i = 0; i < count; ++i) __syncthreads();
}
extern "C" __global__ void sync_warp(float* out, int count) {
  for (int i = 0; i < count; ++i) __syncwarp();
}
extern "C" __global__ void shuffle_xor(float* out, int count) {
  float value = threadIdx.x;
  for (int i = 0; i < count; ++i) value += __shfl_xor_sync(0xffffffffu, value, 1);
  out[threadIdx.x] = value;
}

__device__ half* zero_tile() {
  __shared__ __align__(32) half tile[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) tile[i] = __float2half(0.0f);
  __syncthreads();
  return tile;
}
extern "C" __global__ void wmma_product(float* out, int count) {
  const half* tile = zero_tile();
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::load_matrix_sync(a, tile, 16);
  wmma::load_matrix_sync(b, tile, 16);
  wmma::fill_fragment(c, 0.0f);
  for (int i = 0; i < count; ++i) wmma::mma_sync(c, a, b, c);
  out[threadIdx.x] = c.x[0];
}
extern "C" __global__ void wmma_load(float* out, int count) {
  const half* tile = zero_tile();
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
  float sum = 0;
  for (int i = 0; i < count; ++i) {
    wmma::load_matrix_sync(b, tile, 16);
    sum += __half2float(b.x[0]);
  }
  out[threadIdx.x] = sum;
}
extern "C" __global__ void mma_product(float* out, int count) {
  float d[4] = {};
  const uint32_t a[4] = {};
  for (int i = 0; i < count; ++i) mma_m16n8k16_f32(d, a, 0, 0);
  out[threadIdx.x] = d[0];
}

// Adds 16 independent sums of products from shared memory, like the loop of a scalar P V.
template <class T>
__device__ void multiply_add(const T* tile, float* out, int count) {
  float sums[16] = {};
  for (int i = 0; i < count; ++i) {
    const float p = static_cast<float>(i);
    for (int d = 0; d < 16; ++d) sums[d] = fmaf(p, static_cast<float>(tile[(i % 8) * 16 + d]), sums[d]);
  }
  for (int d = 0; d < 16; ++d) out[threadIdx.x] += sums[d];
}
extern "C" __global__ void half_fma(float* out, int count) { multiply_add(zero_tile(), out, count); }
extern "C" __global__ void scalar_fma(float* out, int count) {
  __shared__ float tile[128];
  tile[threadIdx.x % 128] = 0.0f;
  __syncthreads();
  multiply_add(tile, out, count);
}
extern "C" __global__ void nothing(float* out, int count) {}
