// Called functions that are not inlined, and CUDA's own headers for groups of threads. Only for the PTX engine.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>

namespace cg = cooperative_groups;

struct Pair {
  int low, high;
};

__device__ __noinline__ int twice(int x) { return 2 * x; }

// Calls another function, has an array in local memory, and returns from the middle.
__device__ __noinline__ int picked(int x, const int* from, int count) {
  int kept[8];
  for (int i = 0; i < 8; ++i) kept[i] = i < count ? twice(from[i]) : -1;
  if (x < 0) return -100;
  return kept[x & 7];
}

__device__ __noinline__ Pair split(Pair whole, int by) { return {whole.low - by, whole.high + by}; }

__device__ __noinline__ void add_in_place(float* values, int i) {
  __shared__ float together[32];
  together[i] = values[i];
  __syncwarp();
  values[i] += together[31 - i];
}

extern "C" __global__ void calls(const int* in, int* out) {
  const int i = threadIdx.x;
  // The lanes call from different places. Some call twice, some never.
  int sum = picked(i - 4, in, 8);
  if (i % 3 == 0) sum += picked(i, in, 4);
  const Pair pair = split({sum, i}, twice(i));
  out[i] = pair.low * 1000 + pair.high;
}

extern "C" __global__ void shared_in_a_call(float* values) { add_in_place(values, threadIdx.x); }

struct Extremes {
  int least, most;
};
extern "C" __global__ void groups(const int* in, int* out) {
  const cg::thread_block block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<8>(block);
  int sum = in[block.thread_rank()];
  for (int step = tile.size() / 2; step > 0; step /= 2) sum += tile.shfl_down(sum, step);
  sum = tile.shfl(sum, 0);
  const auto warp = cg::tiled_partition<32>(block);
  const Extremes all = cg::reduce(warp, Extremes{sum, sum}, [](Extremes a, Extremes b) {
    return Extremes{min(a.least, b.least), max(a.most, b.most)};
  });
  const int greatest = cg::reduce(warp, sum, cg::greater<int>());
  const int most = all.most == greatest && all.least <= sum ? greatest : -1;
  block.sync();
  int odd = 0;
  if (threadIdx.x & 1) odd = cg::coalesced_threads().size();
  out[threadIdx.x] = sum * 10000 + most * 10 + (odd == 16 ? 1 : 0) + 2 * tile.meta_group_rank();
}

extern "C" __global__ void runtime_sized_groups(const int* in, int* out, int size) {
  const auto tile = cg::tiled_partition(cg::this_thread_block(), size);
  __shared__ int sums[64];
  sums[threadIdx.x] = 0;
  tile.sync();
  atomicAdd(&sums[threadIdx.x - tile.thread_rank()], in[threadIdx.x]);
  tile.sync();
  out[threadIdx.x] = sums[threadIdx.x - tile.thread_rank()];
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void recursion(int n, int* out) { *out = fibonacci(n); }
