// entries: poisoned copies copies_without_wait two_stages atomics block_lock globals prints spin_value byte_vectors
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include "primitives/cp_async.cuh"
#include "primitives/smem.cuh"

// Outputs the initial contents of shared memory, then overwrites them before the next block.
extern "C" __global__ void poisoned(unsigned* out) {
  __shared__ unsigned fixed[32];
  extern __shared__ unsigned dynamic[];
  out[blockIdx.x * 64 + threadIdx.x] = fixed[threadIdx.x];
  out[blockIdx.x * 64 + 32 + threadIdx.x] = dynamic[threadIdx.x];
  fixed[threadIdx.x] = dynamic[threadIdx.x] = 1;
}

template <bool WAIT>
__device__ void copy_tile(const int* in, int* out) {
  __shared__ __align__(16) int tile[32 * 4];
  cp_async_16(smem_address(tile + threadIdx.x * 4), in + threadIdx.x * 4, threadIdx.x < 16);
  cp_async_commit();
  if (WAIT) cp_async_wait<0>();
  __syncthreads();
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = tile[threadIdx.x * 4 + i];
}
extern "C" __global__ void copies(const int* in, int* out) { copy_tile<true>(in, out); }
extern "C" __global__ void copies_without_wait(const int* in, int* out) { copy_tile<false>(in, out); }

// Two groups are in flight. Waiting for the older one must not complete the newer one.
extern "C" __global__ void two_stages(const int* in, int* out) {
  __shared__ __align__(16) int tile[2][4];
  __pipeline_memcpy_async(tile[0], in, 16);
  __pipeline_commit();
  __pipeline_memcpy_async(tile[1], in + 4, 16);
  __pipeline_commit();
  __pipeline_wait_prior(1);
  out[0] = tile[0][0], out[1] = tile[1][0];
  __pipeline_wait_prior(0);
  out[2] = tile[1][0];
}

extern "C" __global__ void atomics(int* sum, float* float_sum, unsigned* highest, half* half_sum) {
  atomicAdd(sum, 1);
  atomicAdd(float_sum, 0.5f);
  atomicMax(highest, blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(half_sum, __float2half(0.25f));
}

// A spin lock within a block. The emulator must let the thread that holds the lock run.
extern "C" __global__ void block_lock(int* lock, int* counter) {
  for (bool done = false; !done;) {
    if (atomicCAS(lock, 0, 1) == 0) {
      for (int i = 0; i < 300; ++i) atomicAdd(counter, 0);
      *counter += 1;
      atomicExch(lock, 0);
      done = true;
    }
  }
}

__device__ int scale_factor = 3;
__constant__ float table[4];
extern "C" __global__ void globals(float* out) { out[threadIdx.x] = table[threadIdx.x] * scale_factor; }
extern "C" __global__ void prints(int value) { printf("thread %d says %d\n", (int)threadIdx.x, value); }
extern "C" __global__ void spin_value(int* out, int value) { out[threadIdx.x] = value; }

// Vectors of bytes and of shorts go through global and shared memory. Their elements are in wider registers.
extern "C" __global__ void byte_vectors(const uchar4* bytes, const char2* pairs, uchar4* out, short2* sums) {
  __shared__ uchar4 tile[32];
  const uchar4 four = bytes[threadIdx.x];
  tile[threadIdx.x] = make_uchar4(four.w, four.z, 0, four.x);
  __syncthreads();
  out[threadIdx.x] = tile[31 - threadIdx.x];
  const char2 two = pairs[threadIdx.x];
  sums[threadIdx.x] = make_short2(two.x + two.y, two.x - two.y);
}
