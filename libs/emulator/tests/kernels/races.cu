// entries: missing_barrier with_barrier missing_syncwarp with_syncwarp misaligned_float wide_copy
#include <cuda_fp16.h>

template <bool BARRIER>
__device__ void reverse(const int* in, int* out) {
  __shared__ int tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  if (BARRIER) __syncthreads();
  out[blockIdx.x * 128 + threadIdx.x] = tile[127 - threadIdx.x];
}
extern "C" __global__ void missing_barrier(const int* in, int* out) { reverse<false>(in, out); }
extern "C" __global__ void with_barrier(const int* in, int* out) { reverse<true>(in, out); }

template <bool BARRIER>
__device__ void neighbours(half* out) {
  extern __shared__ half row[];
  row[threadIdx.x] = __float2half((float)threadIdx.x);
  if (BARRIER) __syncwarp();
  out[threadIdx.x] = row[threadIdx.x ^ 1];
}
extern "C" __global__ void missing_syncwarp(half* out) { neighbours<false>(out); }
extern "C" __global__ void with_syncwarp(half* out) { neighbours<true>(out); }
extern "C" __global__ void misaligned_float(const char* in, float* out) {
  out[0] = *reinterpret_cast<const float*>(in + 2);
}

// One thread writes 16 bytes that another thread reads without a barrier in between.
extern "C" __global__ void wide_copy(const uint4* in, uint4* out) {
  __shared__ uint4 tile[64];
  tile[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = tile[63 - threadIdx.x];
}
