// entries: shuffles votes reductions sub_warps exited_lanes block_reductions named_barriers three_dimensions
#include <cuda_fp16.h>

extern "C" __global__ void shuffles(int* out) {    // [32][6]
  const int lane = threadIdx.x;
  out[lane * 6 + 0] = __shfl_sync(0xffffffffu, lane * 10, 5);
  out[lane * 6 + 1] = __shfl_up_sync(0xffffffffu, lane * 10, 3);
  out[lane * 6 + 2] = __shfl_down_sync(0xffffffffu, lane * 10, 3);
  out[lane * 6 + 3] = __shfl_xor_sync(0xffffffffu, lane * 10, 17);
  out[lane * 6 + 4] = __shfl_sync(0xffffffffu, lane * 10, 3, 8);
  out[lane * 6 + 5] = (int)__half2float(__shfl_xor_sync(0xffffffffu, __float2half((float)lane), 1));
}

extern "C" __global__ void votes(unsigned* out) {    // [32][5]
  const unsigned lane = threadIdx.x;
  out[lane * 5 + 0] = __ballot_sync(0xffffffffu, lane % 3 == 0);
  out[lane * 5 + 1] = __any_sync(0xffffffffu, lane == 31);
  out[lane * 5 + 2] = __all_sync(0xffffffffu, lane < 31);
  out[lane * 5 + 3] = __match_any_sync(0xffffffffu, (int)(lane / 8));
  int all = 0;
  __match_all_sync(0xffffffffu, 7, &all);
  out[lane * 5 + 4] = all;
}

extern "C" __global__ void reductions(int* out) {    // [32][3]
  const int lane = threadIdx.x;
  out[lane * 3 + 0] = __reduce_add_sync(0xffffffffu, lane);
  out[lane * 3 + 1] = __reduce_min_sync(0xffffffffu, 100 - lane);
  out[lane * 3 + 2] = (int)__reduce_xor_sync(0xffffffffu, 1u << lane);
}

// The two halves of a warp shuffle at the same time, each with a separate mask and number of steps.
extern "C" __global__ void sub_warps(int* out) {
  const int lane = threadIdx.x;
  int value = lane;
  if (lane < 16)
    for (int offset = 8; offset > 0; offset /= 2) value += __shfl_xor_sync(0x0000ffffu, value, offset);
  else
    for (int offset = 4; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffff0000u, value, offset);
  out[lane] = value;
}

extern "C" __global__ void exited_lanes(int* out) {
  const int lane = threadIdx.x % 32;
  if (lane >= 20) return;
  __syncthreads();
  out[threadIdx.x] = (int)__ballot_sync(0xffffffffu, 1);
}

extern "C" __global__ void block_reductions(int* out) {
  const int t = threadIdx.x;
  const int count = __syncthreads_count(t % 3 == 0), all = __syncthreads_and(t >= 0), any = __syncthreads_or(t == 500);
  out[t] = count * 100 + all * 10 + any;
}

// Warps 0 and 1 pass a value to warps 2 and 3 with bar.arrive and bar.sync.
#include "primitives/barrier.cuh"
extern "C" __global__ void named_barriers(int* out) {
  __shared__ int box[64];
  const int t = threadIdx.x;
  if (t < 64) {
    box[t] = t * 3;
    named_barrier_arrive(1, 128);
  } else {
    named_barrier_sync(1, 128);
    out[t - 64] = box[t - 64];
  }
}

extern "C" __global__ void three_dimensions(int* out) {
  const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}
