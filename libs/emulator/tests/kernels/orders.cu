// Accesses between blocks and between warps, some ordered by fences and atomics and some not. Only for the PTX engine.

#include <cooperative_groups.h>

__device__ unsigned arrived;
__device__ int lock;

enum Publishing { FENCED, BY_ONE_AFTER_BARRIER, UNFENCED, FENCED_TOO_EARLY, BY_ONE_WITHOUT_BARRIER, OF_BLOCK_ONLY };

// The last block to arrive adds up the results of all blocks.
template <Publishing HOW>
__device__ void sum_of_last(const int* in, int* parts, int* out) {
  __shared__ bool is_last;
  const int i = threadIdx.x;
  if (HOW == FENCED_TOO_EARLY) __threadfence();
  parts[blockIdx.x * blockDim.x + i] = in[i] + 1;
  if (HOW == FENCED) __threadfence();
  if (HOW == OF_BLOCK_ONLY) __threadfence_block();
  if (HOW != BY_ONE_WITHOUT_BARRIER) __syncthreads();
  if (i == 0) {
    if (HOW == BY_ONE_AFTER_BARRIER || HOW == BY_ONE_WITHOUT_BARRIER) __threadfence();
    is_last = atomicAdd(&arrived, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last) return;
  int sum = 0;
  for (unsigned block = 0; block < gridDim.x; ++block) sum += parts[block * blockDim.x + i];
  out[i] = sum;
  if (i == 0) arrived = 0;
}
#define SUM_OF_LAST(NAME, HOW) \
  extern "C" __global__ void NAME(const int* in, int* parts, int* out) { sum_of_last<HOW>(in, parts, out); }
SUM_OF_LAST(last_fenced, FENCED)
SUM_OF_LAST(last_by_one, BY_ONE_AFTER_BARRIER)
SUM_OF_LAST(last_unfenced, UNFENCED)
SUM_OF_LAST(last_fenced_too_early, FENCED_TOO_EARLY)
SUM_OF_LAST(last_by_one_without_barrier, BY_ONE_WITHOUT_BARRIER)
SUM_OF_LAST(last_fenced_for_block, OF_BLOCK_ONLY)

// The atomic has nothing to do with the data that the blocks exchange.
extern "C" __global__ void unrelated_atomic(int* counter, int* out) {
  if (threadIdx.x == 0) atomicAdd(counter, 1);
  out[threadIdx.x] = blockIdx.x;
}

// Blocks share a lock.
template <bool FENCES>
__device__ void add_under_lock(int* sum) {
  if (threadIdx.x == 0) {
    while (atomicCAS(&lock, 0, 1) != 0) {}
    if (FENCES) __threadfence();
    *sum += 1;
    if (FENCES) __threadfence();
    atomicExch(&lock, 0);
  }
}
extern "C" __global__ void locked(int* sum) { add_under_lock<true>(sum); }
extern "C" __global__ void locked_without_fences(int* sum) { add_under_lock<false>(sum); }

// The lanes and warps of a block share a lock.
extern "C" __global__ void locked_by_lanes(int* sum) {
  for (bool done = false; !done;) {
    if (atomicCAS(&lock, 0, 1) == 0) {
      __threadfence();
      *sum += 1;
      __threadfence();
      atomicExch(&lock, 0);
      done = true;
    }
  }
}

// One warp passes data to another through shared memory.
template <bool FENCES>
__device__ void hand_over(int* out) {
  __shared__ int payload[32];
  __shared__ volatile int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x < 32) {
    payload[threadIdx.x] = threadIdx.x * 3;
    if (FENCES) __threadfence_block();
    __syncwarp();
    if (threadIdx.x == 0) flag = 1;
  } else {
    while (flag == 0) {}
    out[threadIdx.x - 32] = payload[threadIdx.x - 32];
  }
}
extern "C" __global__ void handed_over(int* out) { hand_over<true>(out); }
extern "C" __global__ void handed_over_without_fence(int* out) { hand_over<false>(out); }

__device__ __forceinline__ void store_release(int* at, int value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ __forceinline__ int load_acquire(const int* at) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
// Each block adds to the result of the previous block. If two blocks run together, both may wait.
extern "C" __global__ void chained(int* flags, int* values) {
  if (threadIdx.x == 0 && blockIdx.x > 0)
    while (load_acquire(flags + blockIdx.x - 1) == 0) {}
  __syncthreads();
  values[blockIdx.x * 64 + threadIdx.x] = (blockIdx.x ? values[(blockIdx.x - 1) * 64 + threadIdx.x] : 0) + 1;
  __syncthreads();
  if (threadIdx.x == 0) store_release(flags + blockIdx.x, 1);
}

enum Storing { EQUAL, DIFFERENT, READ_BETWEEN };
template <Storing HOW>
__device__ void store_together(int* out) {
  __shared__ int flag;
  __shared__ short halves[2];
  if (HOW == READ_BETWEEN && threadIdx.x < 32) flag = 7;
  if (HOW == READ_BETWEEN && threadIdx.x == 33) out[100] = *const_cast<volatile int*>(&flag);
  flag = HOW == DIFFERENT ? threadIdx.x : 7;  // lanes and warps
  halves[threadIdx.x & 1] = 5;
  __syncthreads();
  out[threadIdx.x] = flag + halves[0];
}
extern "C" __global__ void equal_in_shared(int* out) { store_together<EQUAL>(out); }
extern "C" __global__ void different_in_shared(int* out) { store_together<DIFFERENT>(out); }
extern "C" __global__ void equal_but_read(int* out) { store_together<READ_BETWEEN>(out); }
extern "C" __global__ void equal_in_global(int* found, float4* rows) {
  if (threadIdx.x & 1) *found = 1;
  rows[threadIdx.x & 3] = make_float4(1, 2, 3, threadIdx.x & 3);
}
extern "C" __global__ void different_in_global(int* found) {
  if (threadIdx.x == 0) *found = blockIdx.x;
}

extern "C" __global__ void read_only_of_written(const int* __restrict__ in, int* out) {
  out[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[64 + threadIdx.x] = __ldg(in + 63 - threadIdx.x);
}

// Two adjacent arrays. An index past the end of the first or before the start of the second reaches the other array.
extern "C" __global__ void next_array(int* out, int shift) {
  __shared__ int first[64];
  __shared__ int second[64];
  const int i = threadIdx.x;
  first[i] = i;
  second[i] = -i;
  __syncthreads();
  int sum = 0;
  for (int k = 0; k < 4; ++k) sum += first[(i + k * shift) % (64 + shift)];
  __syncthreads();
  second[i - shift / 2 * (i < 2)] = sum;
  __syncthreads();
  out[i] = second[i];
}
extern "C" __global__ void beyond_dynamic(int* out, int shift) {
  __shared__ int fixed[64];
  extern __shared__ int dynamic[];
  const int i = threadIdx.x;
  dynamic[i] = fixed[63 - i] = i;
  __syncthreads();
  out[i] = fixed[i + shift] + dynamic[i];
}

// Every block waits twice for all blocks of the grid. The sum needs the results of all blocks.
struct OfGroups {
  __device__ void operator()(int*) const { cooperative_groups::this_grid().sync(); }
};
struct ByHand {
  __device__ void operator()(int* meeting) const {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      const int goal = (atomicAdd(meeting, 1) / gridDim.x + 1) * gridDim.x;
      while (atomicAdd(meeting, 0) < goal) {}
      __threadfence();
    }
    __syncthreads();
  }
};
template <class Barrier>
__device__ void sum_of_all_blocks(int* parts, int* out, int* meeting) {
  const Barrier wait;
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  parts[i] = i;
  wait(meeting);
  int sum = 0;
  for (unsigned block = 0; block < gridDim.x; ++block) sum += parts[block * blockDim.x + threadIdx.x];
  wait(meeting);
  parts[i] = sum;
  wait(meeting);
  out[i] = parts[(i + blockDim.x) % (gridDim.x * blockDim.x)];
}
extern "C" __global__ void grid_sync(int* parts, int* out, int* meeting) {
  sum_of_all_blocks<OfGroups>(parts, out, meeting);
}
extern "C" __global__ void barrier_by_hand(int* parts, int* out, int* meeting) {
  sum_of_all_blocks<ByHand>(parts, out, meeting);
}
extern "C" __global__ void exchange_without_grid_sync(int* parts, int* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  parts[i] = i;
  out[i] = parts[(i + blockDim.x) % (gridDim.x * blockDim.x)];
}

extern "C" __global__ void first_of_two(const int* in, int* out) { out[threadIdx.x] = in[threadIdx.x] + 1; }
extern "C" __global__ void second_that_waits(const int* in, int* out) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  out[threadIdx.x] = in[threadIdx.x] + 1;
}
extern "C" __global__ void second_that_does_not_wait(const int* in, int* out) {
  asm volatile("griddepcontrol.launch_dependents;");
  out[threadIdx.x] = in[threadIdx.x] + 1;
}
