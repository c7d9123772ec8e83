// Volatile accesses for the race check. Some are mistakes; others are flags, or data that locks guard.

// Two warps communicate through volatile shared memory, with or without a barrier.
template <bool BARRIER>
__device__ void exchange(int* out) {
  __shared__ volatile int tile[64];
  tile[threadIdx.x] = (int)threadIdx.x;
  if (BARRIER) __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x ^ 32];
}
extern "C" __global__ void volatile_exchange(int* out) { exchange<false>(out); }
extern "C" __global__ void volatile_with_barrier(int* out) { exchange<true>(out); }

// The end of a reduction as it was written before Volta's independent thread scheduling.
extern "C" __global__ void volatile_warp_sum(int* out) {
  __shared__ volatile int sums[64];
  sums[threadIdx.x] = (int)threadIdx.x;
  __syncthreads();
  if (threadIdx.x < 32) {
    sums[threadIdx.x] = sums[threadIdx.x] + sums[threadIdx.x + 32];
    sums[threadIdx.x] = sums[threadIdx.x] + sums[threadIdx.x + 16];
    out[threadIdx.x] = sums[threadIdx.x];
  }
}

// The second warp waits for the first warp's flag. A fence in each warp orders the first warp's earlier writes.
template <bool FENCES>
__device__ void hand_over(int* out) {
  __shared__ volatile int flag, value;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    value = 7;
    if (FENCES) __threadfence_block();
    flag = 1;
  } else if (threadIdx.x == 32) {
    while (flag == 0) __nanosleep(20);
    if (FENCES) __threadfence_block();
    out[0] = value;
  }
}
extern "C" __global__ void flag_with_fences(int* out) { hand_over<true>(out); }
extern "C" __global__ void flag_without_fences(int* out) { hand_over<false>(out); }

// All threads share a lock in device memory. The data that the lock guards is volatile.
__device__ int lock;
__device__ volatile int guarded;
extern "C" __global__ void volatile_under_lock(int* out) {
  for (bool done = false; !done;) {
    if (atomicCAS(&lock, 0, 1) == 0) {
      __threadfence();
      guarded = guarded + 1;
      __threadfence();
      atomicExch(&lock, 0);
      done = true;
    }
  }
}

// Counts without a lock, either with the threads of one block or with one thread of each block.
extern "C" __global__ void volatile_sum(const int* threads) {
  if (threadIdx.x < (unsigned)threads[0]) guarded = guarded + 1;
}

// Any thread may raise the flag, and no thread waits for it.
extern "C" __global__ void raised_by_many() {
  __shared__ volatile int found;
  found = 1;
}
