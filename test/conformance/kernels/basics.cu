// Indices, arguments, shared memory, barriers, warps and atomics, each in the smallest kernel that shows it.
#include <cuda_fp16.h>

// Launch: any grid and block; out is [gridDim.z][gridDim.y][gridDim.x][threads of a block].
extern "C" __global__ void indices(int* out) {
  const int threads = blockDim.x * blockDim.y * blockDim.z;
  const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * threads + thread] = block * 10000 + thread;
}

// One argument of each type, with 8-byte ones between 4-byte ones.
extern "C" __global__ void arguments(float* out, int a, const float* values, float b, int c) {
  out[threadIdx.x] = a * values[threadIdx.x] + b - c;
}

// Launch: 1 CTA; dynamic shared memory holds blockDim.x ints.
extern "C" __global__ void reverse_through_smem(int* values) {
  extern __shared__ int values_smem[];
  values_smem[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  values[threadIdx.x] = values_smem[blockDim.x - 1 - threadIdx.x];
}

// Launch: 1 CTA of 256 threads. A tree sum with a barrier per step.
extern "C" __global__ void tree_sum(const int* values, int* out) {
  __shared__ int partial_smem[256];
  partial_smem[threadIdx.x] = values[threadIdx.x];
  for (int half_width = 128; half_width > 0; half_width /= 2) {
    __syncthreads();
    if (threadIdx.x < half_width) partial_smem[threadIdx.x] += partial_smem[threadIdx.x + half_width];
  }
  __syncthreads();
  if (threadIdx.x == 0) *out = partial_smem[0];
}

// Launch: 1 warp; out is [7][32].
extern "C" __global__ void warp_exchanges(const int* values, int* out) {
  const unsigned all = 0xffffffffu;
  const int lane = threadIdx.x;
  const int value = values[lane];
  out[lane] = __shfl_xor_sync(all, value, 5);
  out[32 + lane] = __shfl_up_sync(all, value, 3);
  out[64 + lane] = __shfl_down_sync(all, value, 3, 8);
  out[96 + lane] = __shfl_sync(all, value, (lane * 7) % 32);
  out[128 + lane] = (int)__ballot_sync(all, value % 3 == 0);
  out[160 + lane] = __any_sync(all, value == values[31]) * 2 + __all_sync(all, value < 1000000);
  out[192 + lane] = (int)__reduce_add_sync(all, (unsigned)value);
}

// Launch: any grid; bins is [16].
extern "C" __global__ void count_bins(const int* values, int* bins, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[values[i] & 15], 1);
}

// fp32 to fp16 and back, rounding to nearest even. Launch: one thread per value.
extern "C" __global__ void convert_half(const float* values, unsigned short* halves, float* back, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const half h = __float2half_rn(values[i]);
  halves[i] = __half_as_ushort(h);
  back[i] = __half2float(h);
}

// out[i] += 1. Used to test graphs and streams.
extern "C" __global__ void increment(int* out) { out[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
