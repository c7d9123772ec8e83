// More small programs like those of checked.cu, after the documentation of libcu++, cooperative groups and atomics: a
// comment above each has the expected verdict, blocks, threads and bytes of dynamic shared memory.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/semaphore>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
#include <type_traits>

#include "programs.cuh"

// The Programming Guide does the same: nvcc warns of barriers in shared memory, which their first user initializes.
#pragma nv_diag_suppress static_var_with_dynamic_init

namespace cg = cooperative_groups;

// --- scans, histograms, sorts ----------------------------------------------------------------------------------------

// correct 1 128 0
PROGRAM(scan_double_buffered) {
  __shared__ float t[2][128];
  int p = 0;
  t[0][threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  for (int d = 1; d < 128; d *= 2) {
    t[1 - p][threadIdx.x] = t[p][threadIdx.x] + (threadIdx.x >= d ? t[p][threadIdx.x - d] : 0);
    p = 1 - p;
    __syncthreads();
  }
  out[threadIdx.x] = t[p][threadIdx.x];
}

// RACE 1 128 0
PROGRAM(scan_in_place_one_barrier) {
  __shared__ float t[128];
  t[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  for (int d = 1; d < 128; d *= 2) {
    float v = threadIdx.x >= d ? t[threadIdx.x - d] : 0;  // fault
    t[threadIdx.x] += v;  // fault
    __syncthreads();
  }
  out[threadIdx.x] = t[threadIdx.x];
}

// correct 4 64 0
PROGRAM(private_histograms) {
  __shared__ int bins[32];
  if (threadIdx.x < 32) bins[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&bins[int(in[blockIdx.x * 64 + threadIdx.x]) & 31], 1);
  __syncthreads();
  if (threadIdx.x < 32) atomicAdd(&scratch[threadIdx.x], bins[threadIdx.x]);
}

// RACE 4 64 0
PROGRAM(private_histograms_cleared_late) {
  __shared__ int bins[64];
  bins[threadIdx.x] = 0;  // fault
  atomicAdd(&bins[int(in[blockIdx.x * 64 + threadIdx.x]) & 63], 1);  // fault
  __syncthreads();
  atomicAdd(&scratch[threadIdx.x], bins[threadIdx.x]);
}

// RACE 4 64 0
PROGRAM(private_histograms_read_early) {
  __shared__ int bins[64];
  bins[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&bins[int(in[blockIdx.x * 64 + threadIdx.x]) & 63], 1);  // fault
  atomicAdd(&scratch[threadIdx.x], bins[threadIdx.x]);  // fault
}

// correct, RACE 1 64 0
PAIR(bitonic_sort, bitonic_sort_barrier_only_for_large_steps) {
  __shared__ float v[64];
  v[threadIdx.x] = in[(threadIdx.x * 37) & 63];
  if (!RIGHT) __syncthreads();
  for (int k = 2; k <= 64; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      if (RIGHT || j >= 32) __syncthreads();
      int o = threadIdx.x ^ j;
      if (o > threadIdx.x) {
        float a = v[threadIdx.x], b = v[o];  // fault
        if (((threadIdx.x & k) == 0) == (a > b)) v[threadIdx.x] = b, v[o] = a;  // fault
      }
    }
  __syncthreads();
  out[threadIdx.x] = v[threadIdx.x];
}

// --- values handed from block to block -------------------------------------------------------------------------------

__device__ __forceinline__ unsigned long long pack(int f, int v) { return (unsigned long long)f << 32 | (unsigned)v; }

// correct 8 32 0
PROGRAM(look_back_packed) {
  auto* st = reinterpret_cast<unsigned long long*>(scratch);
  int v = int(in[blockIdx.x]);
  if (threadIdx.x == 0) {
    int before = 0;
    if (blockIdx.x > 0) {
      unsigned long long w;
      do asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(w) : "l"(st + blockIdx.x - 1) : "memory");
      while (w >> 32 == 0);
      before = int(w);
    }
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(st + blockIdx.x), "l"(pack(1, before + v)) : "memory");
    out[blockIdx.x] = before + v;
  }
}

// correct, RACE 8 32 0
PAIR(look_back_fenced, look_back_fence_after_the_flag) {
  int v = int(in[blockIdx.x]);
  volatile int* flags = scratch;
  if (threadIdx.x == 0) {
    int before = 0;
    if (blockIdx.x > 0) {
      while (flags[blockIdx.x - 1] == 0) {}
      __threadfence();
      before = scratch[64 + blockIdx.x - 1];  // fault
    }
    scratch[64 + blockIdx.x] = before + v;  // fault
    if (!RIGHT) flags[blockIdx.x] = 1;
    __threadfence();
    if (RIGHT) flags[blockIdx.x] = 1;
    out[blockIdx.x] = before + v;
  }
}

// --- libcu++'s atomics -----------------------------------------------------------------------------------------------

// correct, RACE 2 32 0
PAIR(atomic_ref_release_acquire, atomic_ref_relaxed) {
  cuda::atomic_ref<int, cuda::thread_scope_device> flag(scratch[0]);
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) {
      scratch[32] = int(in[5]);  // fault
      flag.store(1, RIGHT ? cuda::memory_order_release : cuda::memory_order_relaxed);
    }
  } else if (threadIdx.x == 0) {
    while (flag.load(RIGHT ? cuda::memory_order_acquire : cuda::memory_order_relaxed) == 0) {}
    out[0] = scratch[32];  // fault
  }
}

// RACE 2 32 0
PROGRAM(atomic_ref_of_the_block_between_blocks) {
  cuda::atomic_ref<int, cuda::thread_scope_block> flag(scratch[0]);
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) {
      scratch[32] = int(in[5]);  // fault
      flag.store(1, cuda::memory_order_release);  // fault
    }
  } else if (threadIdx.x == 0) {
    while (flag.load(cuda::memory_order_acquire) == 0) {}  // fault
    out[0] = scratch[32];  // fault
  }
}

// correct, RACE 4 32 0
PAIR(ticket_lock, ticket_lock_relaxed_release) {
  if (threadIdx.x != 0) return;
  cuda::atomic_ref<int, cuda::thread_scope_device> next(scratch[0]), serving(scratch[1]);
  int mine = next.fetch_add(1, cuda::memory_order_relaxed);
  while (serving.load(cuda::memory_order_acquire) != mine) {}
  scratch[2] += 1;  // fault
  serving.store(mine + 1, RIGHT ? cuda::memory_order_release : cuda::memory_order_relaxed);
}

// correct, RACE 4 32 0
PAIR(spin_lock_fenced, spin_lock_no_fences) {
  if (threadIdx.x != 0) return;
  while (atomicCAS(&scratch[0], 0, 1)) __nanosleep(20);
  if (RIGHT) __threadfence();
  scratch[1] = scratch[1] * 3 + 1;  // fault
  if (RIGHT) __threadfence();
  atomicExch(&scratch[0], 0);
}

// correct 1 64 0
PROGRAM(spin_lock_in_a_warp) {
  __shared__ int lock, count;
  if (threadIdx.x == 0) lock = count = 0;
  __syncthreads();
  bool done = false;
  while (!done) {
    if (atomicCAS(&lock, 0, 1) == 0) {
      __threadfence_block();
      count += 1;
      __threadfence_block();
      atomicExch(&lock, 0);
      done = true;
    }
  }
  __syncthreads();
  out[threadIdx.x] = count;
}

// correct, RACE 6 64 0
PAIR(hand_made_grid_barrier, hand_made_grid_barrier_unfenced_side) {
  scratch[64 + blockIdx.x * 64 + threadIdx.x] = threadIdx.x;  // fault
  if (RIGHT) __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(scratch, 1);
    while (atomicAdd(scratch, 0) < gridDim.x) {}
    __threadfence();
  }
  __syncthreads();
  out[blockIdx.x * 64 + threadIdx.x] = scratch[64 + ((blockIdx.x + 1) % gridDim.x) * 64 + threadIdx.x];  // fault
}

// correct 4 64 0
PROGRAM(counter_reset_by_the_last) {
  __shared__ bool last;
  out[blockIdx.x * 64 + threadIdx.x] = in[threadIdx.x];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicInc(reinterpret_cast<unsigned*>(scratch), gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  if (last) {
    float sum = 0;
    for (int b = 0; b < gridDim.x; ++b) sum += out[b * 64 + threadIdx.x];
    out[1024 + threadIdx.x] = sum;
    if (threadIdx.x == 0) scratch[0] = 0;
  }
}

// --- libcu++'s barriers and pipelines, cooperative groups ------------------------------------------------------------

// correct, RACE 1 64 0
PAIR(split_barrier, split_barrier_read_before_wait) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ float t[64];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  t[threadIdx.x] = in[threadIdx.x];  // fault
  auto token = bar.arrive();
  float own = RIGHT ? in[64 + threadIdx.x] : t[63 - threadIdx.x];  // fault
  bar.wait(std::move(token));
  out[threadIdx.x] = RIGHT ? own + t[63 - threadIdx.x] : own;
}

// RACE 1 64 0
PROGRAM(split_barrier_written_after_arrive) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ float t[64];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  auto token = bar.arrive();
  t[threadIdx.x] = in[threadIdx.x];  // fault
  bar.wait(std::move(token));
  out[threadIdx.x] = t[63 - threadIdx.x];  // fault
}

// correct, RACE 1 128 0
PAIR(producers_and_consumers, producers_and_consumers_freed_early) {
  using barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ barrier ready[2], filled[2];
  __shared__ float buffer[2][64];
  if (threadIdx.x < 2) init(&ready[threadIdx.x], 128), init(&filled[threadIdx.x], 128);
  __syncthreads();
  if (threadIdx.x < 64) {
    for (int i = 0; i < 4; ++i) {
      ready[i % 2].arrive_and_wait();
      buffer[i % 2][threadIdx.x] = in[i * 64 + threadIdx.x];  // fault
      (void)filled[i % 2].arrive();
    }
  } else {
    (void)ready[0].arrive();
    (void)ready[1].arrive();
    for (int i = 0; i < 4; ++i) {
      filled[i % 2].arrive_and_wait();
      if (!RIGHT) (void)ready[i % 2].arrive();
      out[i * 64 + threadIdx.x - 64] = buffer[i % 2][127 - threadIdx.x];  // fault
      if (RIGHT) (void)ready[i % 2].arrive();
    }
  }
}

// correct, RACE 1 64 0
PAIR(group_memcpy, group_memcpy_synced_not_waited) {
  __shared__ alignas(16) float t[256];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, t, in, sizeof t);  // fault
  RIGHT ? cg::wait(block) : block.sync();
  out[threadIdx.x] = t[255 - threadIdx.x];  // fault
}

// correct 1 64 0
PROGRAM(pipeline_of_two_stages) {
  __shared__ alignas(16) float t[2][256];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  pipe.producer_acquire();
  cuda::memcpy_async(block, t[0], in, sizeof t[0], pipe);
  pipe.producer_commit();
  float sum = 0;
  for (int k = 0; k < 4; ++k) {
    if (k < 3) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, t[(k + 1) % 2], in + 256 * (k + 1), sizeof t[0], pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += t[k % 2][255 - threadIdx.x];
    pipe.consumer_release();
  }
  out[threadIdx.x] = sum;
}

// RACE 1 64 0
PROGRAM(pipeline_never_waited_for) {
  __shared__ alignas(16) float t[2][256];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  pipe.producer_acquire();
  cuda::memcpy_async(block, t[0], in, sizeof t[0], pipe);  // fault
  pipe.producer_commit();
  float sum = t[0][255 - threadIdx.x];  // fault
  pipe.consumer_wait();
  pipe.consumer_release();
  out[threadIdx.x] = sum;
}

// correct 1 64 0
PROGRAM(reduce_by_groups) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  float sum = cg::reduce(tile, in[threadIdx.x], cg::plus<float>());
  int scan = cg::inclusive_scan(tile, int(in[threadIdx.x]));
  if (threadIdx.x % 3) {
    auto active = cg::coalesced_threads();
    int place = 0;
    if (active.thread_rank() == 0) place = atomicAdd(scratch, active.size());
    sum += active.shfl(place, 0) * 0;
  }
  out[threadIdx.x] = sum + scan;
}

// correct 1 64 0
PROGRAM(partition_by_label) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  int label = int(in[threadIdx.x]) % 3;
  auto same = cg::labeled_partition(warp, label);
  int count = cg::reduce(same, 1, cg::plus<int>());
  unsigned match = __match_any_sync(ALL, label);
  out[threadIdx.x] = count - __popc(match);
}

// correct 1 96 0
PROGRAM(latch_and_semaphore) {
  __shared__ cuda::counting_semaphore<cuda::thread_scope_block, 1> sem;
  __shared__ int sum;
  if (threadIdx.x == 0) {
    new (&sem) cuda::counting_semaphore<cuda::thread_scope_block, 1>(1);
    sum = 0;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    sem.acquire();
    sum += threadIdx.x;
    sem.release();
  }
  __syncthreads();
  out[threadIdx.x] = sum;
}

// --- warps -----------------------------------------------------------------------------------------------------------

// correct, RACE 1 32 0
PAIR(butterfly_in_shared, butterfly_without_the_second_sync) {
  __shared__ std::conditional_t<RIGHT, volatile float, float> v[32];
  v[threadIdx.x] = in[threadIdx.x];
  __syncwarp();
  for (int d = 16; d > 0; d /= 2) {
    float x = v[threadIdx.x ^ d];  // fault
    if (RIGHT) __syncwarp();
    v[threadIdx.x] = v[threadIdx.x] + x;  // fault
    __syncwarp();
  }
  out[threadIdx.x] = v[threadIdx.x];
}

// INVALID_WARP_MASK 1 32 0
PROGRAM(syncwarp_without_itself) {
  __shared__ float v[32];
  v[threadIdx.x] = in[threadIdx.x];
  __syncwarp(0x0000ffff);  // fault
  out[threadIdx.x] = v[threadIdx.x ^ 1];
}

// DEADLOCK 1 64 0
PROGRAM(shuffle_in_a_branch) {
  float v = in[threadIdx.x];
  if (threadIdx.x % 32 < 16) {
    v += __shfl_xor_sync(ALL, v, 1);  // fault
    __syncthreads();
  } else {
    __syncthreads();  // fault
  }
  out[threadIdx.x] = v;
}

// DEADLOCK 1 64 0
PROGRAM(barriers_in_a_ragged_loop) {
  __shared__ float v[64];
  float sum = 0;
  for (int k = 0; k < 2 + threadIdx.x / 32; ++k) {
    v[threadIdx.x] = in[threadIdx.x + k];
    __syncthreads();
    sum += v[threadIdx.x ^ 1];
    if (k == 0)
      __syncthreads();
    else
      asm volatile("barrier.sync 1, 64;" ::: "memory");  // fault
  }
  out[threadIdx.x] = sum;
}

// correct 1 96 0
PROGRAM(subset_by_ballot) {
  bool mine = in[threadIdx.x] > 20;
  unsigned mask = __ballot_sync(ALL, mine);
  float v = 0;
  if (mine) {
    v = in[threadIdx.x];
    int leader = __ffs(mask) - 1;
    v += __shfl_sync(mask, v, leader);
    unsigned s = __reduce_add_sync(mask, unsigned(v));
    v += s;
  }
  out[threadIdx.x] = v;
}

// UNINITIALISED_READ 1 32 0
PROGRAM(last_lane_of_a_ragged_mask) {
  float v = in[threadIdx.x];
  if (threadIdx.x < 25) {
    v = __shfl_down_sync((1u << 25) - 1, v, 1);  // fault
    out[threadIdx.x] = v;  // fault
  }
}

// --- unwritten values ------------------------------------------------------------------------------------------------

// correct 1 64 0
PROGRAM(written_where_it_is_read) {
  float v;
  bool has = in[threadIdx.x] > 7;
  if (has) v = in[threadIdx.x + 1];
  float r = 3;
  if (has) r = v;
  out[threadIdx.x] = r;
}

struct Pair {
  char kind;
  float value;
};
// correct 1 32 0
PROGRAM(padding_of_structs_is_copied) {
  Pair local[4];
  for (int k = 0; k < 4; ++k) local[(k + n) & 3].kind = k, local[(k + n) & 3].value = in[k + threadIdx.x];
  Pair copy = local[threadIdx.x & 3];
  out[threadIdx.x] = copy.value + copy.kind;
}

// A struct with padding, which nobody writes. Copies take it along.
struct alignas(8) Kept {
  short kind;
  float value;
};
struct Found {
  int index;
  bool is_any;
};

// correct, UNINITIALISED_READ 1 32 0
PAIR(padding_in_a_workspace, field_in_a_workspace) {
  __shared__ Kept t[32];
  if (RIGHT) t[threadIdx.x].kind = n;
  t[threadIdx.x].value = in[threadIdx.x];
  __syncwarp();
  Kept* kept = reinterpret_cast<Kept*>(scratch);
  kept[threadIdx.x] = t[31 - threadIdx.x];  // fault
  __syncwarp();
  Kept other = kept[threadIdx.x ^ 3];
  if (other.kind > 3) out[threadIdx.x] = other.value;
}

// The same in two launches: the first has the fault if n is 0, and only the second finds it.
extern "C" __global__ void keeps_structs(PARAMETERS) {
  __shared__ Kept t[32];
  if (n) t[threadIdx.x].kind = n;
  t[threadIdx.x].value = in[threadIdx.x];
  __syncwarp();
  reinterpret_cast<Kept*>(scratch)[threadIdx.x] = t[31 - threadIdx.x];
}
extern "C" __global__ void reads_structs(PARAMETERS) {
  Kept kept = reinterpret_cast<Kept*>(scratch)[threadIdx.x];
  if (kept.kind > 3) out[threadIdx.x] = kept.value;
}

// correct, UNINITIALISED_READ 1 32 0
PAIR(padding_in_a_shuffled_integer, field_in_a_shuffled_integer) {
  __shared__ Kept t[32];
  if (RIGHT) t[threadIdx.x].kind = n;
  t[threadIdx.x].value = in[threadIdx.x];
  __syncwarp();
  long long bits = *reinterpret_cast<long long*>(&t[31 - threadIdx.x]);  // fault
  bits = __shfl_xor_sync(ALL, bits, 1);
  if (short(bits) > 3) out[threadIdx.x] = __int_as_float(int(bits >> 32));
}

// correct 1 32 0
PROGRAM(padding_of_the_first_found) {
  __shared__ Found t[32];
  t[threadIdx.x].index = threadIdx.x;
  t[threadIdx.x].is_any = in[threadIdx.x] > 3;
  for (int half = 16; half; half /= 2) {
    __syncwarp();
    if (threadIdx.x >= half) continue;
    Found a = t[threadIdx.x], b = t[threadIdx.x + half];
    t[threadIdx.x] = !a.is_any || (b.is_any && b.index < a.index) ? b : a;
  }
  Found* found = reinterpret_cast<Found*>(scratch);
  if (threadIdx.x == 0) found[0] = t[0];
  __syncwarp();
  Found first = found[0];
  out[threadIdx.x] = first.is_any ? first.index : -1;
}

// The copy reads elements of an output that nobody has written. The sum needs 50 of them.
// correct, UNINITIALISED_READ 1 64 0
PAIR(copied_tail_is_dropped, copied_tail_is_kept) {
  __shared__ float t[64];
  if (threadIdx.x < 50) out[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  __pipeline_memcpy_async(&t[threadIdx.x], &out[threadIdx.x], 4);  // fault
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  const int from = threadIdx.x ^ 1;
  out[64 + threadIdx.x] = from < (RIGHT ? 50 : 64) ? t[from] : 0;
}

// UNINITIALISED_READ 1 32 0
PROGRAM(maximum_without_a_start) {
  float most[8];
  for (int k = 0; k < 64; ++k) {
    float x = in[k * 32 + threadIdx.x];
    if (x > most[(k + n) & 7]) most[(k + n) & 7] = x;  // fault
  }
  out[threadIdx.x] = most[n & 7];
}

// UNINITIALISED_READ 1 32 0
PROGRAM(histogram_of_its_own_without_zeros) {
  int bins[16];
  for (int k = 0; k < 64; ++k) bins[int(in[k + threadIdx.x]) & 15] += 1;
  for (int k = 0; k < 16; ++k) out[threadIdx.x * 16 + k] = bins[k];  // fault
}

// UNINITIALISED_READ 1 64 256
PROGRAM(sum_of_the_tail_too) {
  extern __shared__ float t[];
  if (threadIdx.x < 50) t[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  float v = t[threadIdx.x];
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(ALL, v, d);
  if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = v;  // fault
}

// UNINITIALISED_READ 2 64 0
PROGRAM(adds_to_an_output_nobody_cleared) {
  atomicAdd(&out[threadIdx.x], in[threadIdx.x]);  // fault
}

// correct 1 32 0
PROGRAM(unwritten_half_of_a_vector) {
  __shared__ alignas(16) float t[4 * 32];
  for (int k = 0; k < 3; ++k) t[threadIdx.x * 4 + k] = in[threadIdx.x * 3 + k];
  __syncwarp();
  float4 v = *reinterpret_cast<float4*>(&t[(31 - threadIdx.x) * 4]);
  out[threadIdx.x] = v.x + v.y + v.z;
}

// correct 1 32 0
PROGRAM(unwritten_bytes_masked_away) {
  __shared__ unsigned char b[128];
  b[threadIdx.x * 4] = threadIdx.x;
  b[threadIdx.x * 4 + 2] = threadIdx.x + 1;
  __syncwarp();
  unsigned w = reinterpret_cast<unsigned*>(b)[31 - threadIdx.x];
  out[threadIdx.x] = (w & 0x00ff00ff) % 1000;
}

// --- bounds, alignment, shared bytes ---------------------------------------------------------------------------------

// OUT_OF_BOUNDS 1 32 0
PROGRAM(partials_of_33_warps) {
  __shared__ float partial[32], total[32];
  total[threadIdx.x] = in[threadIdx.x];
  partial[threadIdx.x + (n - 63)] = in[threadIdx.x];  // fault
  __syncwarp();
  out[threadIdx.x] = partial[threadIdx.x] + total[threadIdx.x];
}

// correct 1 32 0
PROGRAM(chosen_array) {
  __shared__ float a[32], b[64];
  a[threadIdx.x] = in[threadIdx.x];
  b[threadIdx.x] = in[threadIdx.x + 1];
  b[threadIdx.x + 32] = 0;
  __syncwarp();
  float* p = n & 1 ? a : b + 32;
  float* q = in[threadIdx.x] > 5 ? a : b;
  out[threadIdx.x] = p[threadIdx.x] + q[31 - threadIdx.x];
}

// correct 1 64 1024
PROGRAM(carved_from_dynamic) {
  extern __shared__ __align__(16) unsigned char raw[];
  auto* q = reinterpret_cast<half*>(raw);
  auto* k = q + 64;
  auto* sums = reinterpret_cast<float*>(k + 64);
  q[threadIdx.x] = __float2half(in[threadIdx.x]);
  k[threadIdx.x] = __float2half(in[64 + threadIdx.x]);
  __syncthreads();
  sums[threadIdx.x] = __half2float(q[63 - threadIdx.x]) * __half2float(k[threadIdx.x ^ 1]);
  __syncthreads();
  out[threadIdx.x] = sums[63 - threadIdx.x];
}

// OUT_OF_BOUNDS 1 64 256
PROGRAM(beyond_dynamic) {
  extern __shared__ float t[];
  t[threadIdx.x + n - 63] = in[threadIdx.x];  // fault
  __syncthreads();
  out[threadIdx.x] = t[threadIdx.x];
}

// MISALIGNED_ADDRESS 1 32 0
PROGRAM(vector_store_at_an_odd_place) {
  reinterpret_cast<float4*>(out + threadIdx.x * 4 + (n - 62))[0] = make_float4(1, 2, 3, 4);  // fault
}

// OUT_OF_BOUNDS 1 32 0
PROGRAM(local_index_off_by_one) {
  float v[9];
  for (int k = 0; k < 8; ++k) v[k] = in[k];
  v[8] = 1;
  v[(int(in[threadIdx.x]) & 7) + n - 62] = 3;  // fault
  out[threadIdx.x] = v[threadIdx.x & 7];
}

__device__ float table[64];
// OUT_OF_BOUNDS 1 64 0
PROGRAM(past_a_device_table) {
  table[threadIdx.x + n - 63] = in[threadIdx.x];  // fault
  out[threadIdx.x] = in[threadIdx.x];
}

// OUT_OF_BOUNDS 1 64 0
PROGRAM(null_pointer) {
  float* p = reinterpret_cast<float*>(static_cast<uintptr_t>(scratch[0]));
  p[threadIdx.x] = in[threadIdx.x];  // fault
}

// RACE 4 64 0
PROGRAM(blocks_that_overlap) {
  out[blockIdx.x * 63 + threadIdx.x] = in[threadIdx.x] + blockIdx.x;  // fault
}

// correct 4 64 0
PROGRAM(blocks_that_store_the_same) { out[blockIdx.x * 63 + threadIdx.x] = in[blockIdx.x * 63 + threadIdx.x]; }

// RACE 2 32 0
PROGRAM(bytes_of_one_word) {
  auto* bytes = reinterpret_cast<unsigned char*>(scratch);
  if (blockIdx.x == 0)
    bytes[threadIdx.x * 4 + 1] = 7;  // fault
  else
    scratch[threadIdx.x] += 5;  // fault
}

// correct 4 32 0
PROGRAM(bytes_of_each_block) {
  auto* bytes = reinterpret_cast<unsigned char*>(scratch);
  bytes[threadIdx.x * 4 + blockIdx.x] = threadIdx.x + blockIdx.x;
}

// correct 1 64 0
PROGRAM(flag_all_raise) {
  __shared__ int found;
  found = 0;
  __syncthreads();
  if (in[threadIdx.x] > 3) found = 1;
  __syncthreads();
  out[threadIdx.x] = found;
}

// RACE 2 64 0
PROGRAM(counted_without_atomics) {
  if (in[threadIdx.x] > 3) scratch[0]++;  // fault
}

// RACE 2 64 0
PROGRAM(next_to_an_atomic) {
  atomicAdd(&scratch[0], 1);  // fault
  if (blockIdx.x == 1 && threadIdx.x == 0) scratch[0] = 5;  // fault
}

// RACE 1 64 0
PROGRAM(read_only_alias) {
  float* writable = const_cast<float*>(in);
  writable[threadIdx.x] = threadIdx.x;  // fault
  __syncthreads();
  float v;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(in + 63 - threadIdx.x));  // fault
  out[threadIdx.x] = v;
}

// --- clusters --------------------------------------------------------------------------------------------------------

// correct 2 64 0
PROGRAM_OF_CLUSTER(distributed_shared) {
  __shared__ float t[64];
  auto cluster = cg::this_cluster();
  t[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
  cluster.sync();
  const float* other = cluster.map_shared_rank(t, cluster.block_rank() ^ 1);
  out[blockIdx.x * 64 + threadIdx.x] = other[63 - threadIdx.x];
  cluster.sync();
}

// OUT_OF_BOUNDS 2 64 0
PROGRAM_OF_CLUSTER(distributed_shared_of_a_block_that_left) {
  __shared__ float t[64];
  auto cluster = cg::this_cluster();
  t[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
  cluster.sync();
  if (cluster.block_rank() == 0) return;
  for (volatile int k = 0; k < 100000; k = k + 1) {}
  const float* other = cluster.map_shared_rank(t, 0);
  out[blockIdx.x * 64 + threadIdx.x] = other[63 - threadIdx.x];  // fault
}

// --- functions by address --------------------------------------------------------------------------------------------

typedef float (*Function)(float);
__device__ __noinline__ float twice(float x) { return 2 * x; }

__device__ __noinline__ float square(float x) { return x * x; }

struct Shape {
  __device__ virtual float area(float) const = 0;
};
struct Circle : Shape {
  __device__ float area(float r) const override { return 3 * r * r; }
};
struct Square : Shape {
  __device__ float area(float r) const override { return r * r; }
};
// correct 1 64 0
PROGRAM(functions_by_pointer_and_virtual) {
  Function f = in[threadIdx.x] > 9 ? twice : square;
  Circle c;
  Square s;
  const Shape* shapes[2] = {&c, &s};
  out[threadIdx.x] = f(in[threadIdx.x]) + shapes[(threadIdx.x + n) & 1]->area(2);
}

// RACE 1 64 0
PROGRAM(race_in_a_function_by_pointer) {
  __shared__ float t[64];
  t[threadIdx.x] = in[threadIdx.x];  // fault
  Function f = in[threadIdx.x] > 9 ? twice : square;
  out[threadIdx.x] = f(t[63 - threadIdx.x]);  // fault
}

// --- atomics next to other accesses ----------------------------------------------------------------------------------

/** From the Programming Guide. The first read may be outdated, which atomicCAS() notices. */
__device__ double atomic_add(double* address, double val) {
  unsigned long long int* address_as_ull = (unsigned long long int*)address;
  unsigned long long int old = *address_as_ull, assumed;
  do {
    assumed = old;
    old = atomicCAS(address_as_ull, assumed, __double_as_longlong(val + __longlong_as_double(assumed)));
  } while (assumed != old);
  return __longlong_as_double(old);
}

// correct 4 64 0
PROGRAM(sums_by_compare_and_swap) { atomic_add(reinterpret_cast<double*>(scratch), in[threadIdx.x]); }

// correct 1 128 0
PROGRAM(sums_by_compare_and_swap_in_shared) {
  __shared__ double sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomic_add(&sum, in[threadIdx.x]);
  __syncthreads();
  out[threadIdx.x] = sum;
}

// correct 4 64 0
PROGRAM(maximum_if_larger) {
  int x = int(in[threadIdx.x + blockIdx.x]);
  if (x > scratch[0]) atomicMax(&scratch[0], x);
}

// correct 1 128 0
PROGRAM(float_maximum_in_shared) {
  __shared__ int most;
  if (threadIdx.x == 0) most = 0;
  __syncthreads();
  int x = int(in[threadIdx.x]);
  int seen = most;
  while (x > seen) {
    int was = atomicCAS(&most, seen, x);
    if (was == seen) break;
    seen = was;
  }
  __syncthreads();
  out[threadIdx.x] = most;
}

// correct 4 64 0
PROGRAM(half_added_by_words) {
  half* at = reinterpret_cast<half*>(scratch) + threadIdx.x;
  unsigned* word = reinterpret_cast<unsigned*>(reinterpret_cast<uintptr_t>(at) & ~3ull);
  unsigned old = *word, assumed;
  do {
    assumed = old;
    unsigned short h = threadIdx.x & 1 ? assumed >> 16 : assumed & 0xffff;
    unsigned short sum = __half_as_ushort(__hadd(__ushort_as_half(h), __float2half(1)));
    unsigned next = threadIdx.x & 1 ? (assumed & 0xffff) | unsigned(sum) << 16 : (assumed & 0xffff0000) | sum;
    old = atomicCAS(word, assumed, next);
  } while (old != assumed);
}

// correct, RACE 4 32 0
PAIR(lock_given_back_by_a_store, lock_given_back_by_a_plain_store) {
  if (threadIdx.x) return;
  while (atomicCAS(&scratch[0], 0, 1)) {}  // fault
  __threadfence();
  scratch[1] += 1;
  __threadfence();
  if (RIGHT) *reinterpret_cast<volatile int*>(&scratch[0]) = 0;
  if (!RIGHT) scratch[0] = 0;  // fault
}

// correct, RACE 2 64 0
PAIR(polled_and_reset, raised_by_a_plain_store) {
  if (blockIdx.x == 0) {
    out[threadIdx.x] = in[threadIdx.x];
    __threadfence();
    __syncthreads();
    if (RIGHT && threadIdx.x == 0) asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(scratch), "r"(1) : "memory");
    if (!RIGHT && threadIdx.x == 0) scratch[0] = 1;  // fault
  } else {
    if (threadIdx.x == 0) {
      int f;
      do asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(f) : "l"(scratch) : "memory");  // fault
      while (!f);
    }
    __syncthreads();
    out[64 + threadIdx.x] = out[threadIdx.x];
    if (RIGHT && threadIdx.x == 40) scratch[0] = 0;
  }
}

// correct, RACE 3 64 0
PAIR(atomic_sums_read_by_the_last, atomic_sums_read_by_the_last_unfenced) {
  __shared__ bool last;
  atomicAdd(&scratch[64 + threadIdx.x], int(in[threadIdx.x]));  // fault
  if (RIGHT) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&scratch[0], 1) == gridDim.x - 1;
  __syncthreads();
  if (last) out[threadIdx.x] = scratch[64 + threadIdx.x];  // fault
}

// correct, RACE 1 64 0
PAIR(counter_of_a_warp, counter_of_a_warp_unsynced) {
  __shared__ int count[2];
  int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) count[warp] = 0;
  __syncwarp();
  if (in[threadIdx.x] > 5) atomicAdd(&count[warp], 1);  // fault
  if (RIGHT) __syncwarp();
  out[threadIdx.x] = count[warp];  // fault
}

// correct, RACE 1 64 0
PAIR(counter_used_again, counter_used_again_too_soon) {
  __shared__ int count;
  for (int k = 0; k < 3; ++k) {
    if (threadIdx.x == 0) count = 0;  // fault
    __syncthreads();
    if (in[threadIdx.x + k] > 5) atomicAdd(&count, 1);
    __syncthreads();
    out[k * 64 + threadIdx.x] = count;  // fault
    if (RIGHT) __syncthreads();
  }
}

// RACE 2 32 0
PROGRAM(payload_of_a_relaxed_store) {
  cuda::atomic_ref<int, cuda::thread_scope_device> value(scratch[0]);
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) value.store(7, cuda::memory_order_relaxed);  // fault
  } else {
    out[threadIdx.x] = scratch[0];  // fault
  }
}

// RACE 2 64 0
PROGRAM(read_only_of_an_atomic) {
  atomicAdd(&scratch[threadIdx.x], 1);  // fault
  out[blockIdx.x * 64 + threadIdx.x] = __ldg(&scratch[threadIdx.x]);  // fault
}

// RACE 2 32 0
PROGRAM(cleared_next_to_sums) {
  if (blockIdx.x == 0)
    atomicAdd(&scratch[threadIdx.x], 1);  // fault
  else
    scratch[threadIdx.x] = 0;  // fault
}

// RACE 2 32 0
PROGRAM(one_adds_and_stores) {
  atomicAdd(&scratch[0], 1);  // fault
  if (blockIdx.x == 1 && threadIdx.x == 3) scratch[0] = 5;  // fault
}

// correct, RACE 2 64 0
PAIR(queue_of_work, queue_of_work_one_barrier) {
  __shared__ int next;
  while (true) {
    if (threadIdx.x == 0) next = atomicAdd(&scratch[0], 1);  // fault
    __syncthreads();
    int k = next;  // fault
    if (RIGHT) __syncthreads();
    if (k >= 6) break;
    out[k * 64 + threadIdx.x] = in[k];
  }
}

// --- ends of arrays --------------------------------------------------------------------------------------------------

// OUT_OF_BOUNDS 1 64 0
PROGRAM(nine_of_eight) {
  __shared__ float v[9];
  if (threadIdx.x < 10) v[threadIdx.x] = in[threadIdx.x];  // fault
  __syncthreads();
  out[threadIdx.x] = v[threadIdx.x & 7];
}

// OUT_OF_BOUNDS 1 64 0
PROGRAM(bytes_past_an_odd_array) {
  __shared__ char v[70];
  v[threadIdx.x + (n - 57)] = threadIdx.x;  // fault
  __syncthreads();
  out[threadIdx.x] = v[63 - threadIdx.x];
}

// --- copies and products ---------------------------------------------------------------------------------------------

// RACE 1 64 0
PROGRAM(wait_for_all_but_one) {
  __shared__ float t[2][64];
  for (int k = 0; k < 2; ++k) {
    __pipeline_memcpy_async(&t[k][threadIdx.x], &in[k * 64 + threadIdx.x], 4);  // fault
    __pipeline_commit();
  }
  __pipeline_wait_prior(1);
  __syncthreads();
  out[threadIdx.x] = t[0][63 - threadIdx.x] + t[1][63 - threadIdx.x];  // fault
}

// RACE 1 64 0
PROGRAM(wmma_tiles_overlap) {
  using namespace nvcuda::wmma;
  __shared__ alignas(32) float C[16 * 24];
  fragment<accumulator, 16, 16, 16, float> c;
  fill_fragment(c, float(threadIdx.x / 32));
  store_matrix_sync(&C[threadIdx.x / 32 * 8], c, 24, mem_row_major);  // fault
  __syncthreads();
  out[threadIdx.x] = C[threadIdx.x];
}

// RACE 1 64 0
PROGRAM(rows_of_another_warp) {
  __shared__ alignas(16) half A[16][16];
  if (threadIdx.x < 32)
    for (int i = threadIdx.x; i < 256; i += 32) A[i / 16][i % 16] = __float2half(in[i]);  // fault
  uint32_t a[4];
  int lane = threadIdx.x % 32;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"  // fault
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(shared_at(&A[lane % 16][lane / 16 * 8]))  // fault
               : "memory");
  scratch[threadIdx.x] = a[0] + a[1] + a[2] + a[3];
}

__device__ __forceinline__ void init_barrier(uint64_t* b, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_at(b)), "r"(count) : "memory");
}

__device__ __forceinline__ void expect(uint64_t* b, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_at(b)), "r"(bytes) : "memory");
}

__device__ __forceinline__ void load(void* to, const void* from, unsigned bytes, uint64_t* b) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_at(to)),
      "l"(from), "r"(bytes), "r"(shared_at(b))
      : "memory");
}

__device__ __forceinline__ void wait(uint64_t* b, unsigned parity) {
  asm volatile(
      "{\n.reg .pred p;\nL: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra L;\n}" ::"r"(shared_at(b)),
      "r"(parity)
      : "memory");
}

// UNINITIALISED_READ 1 64 0
PROGRAM(half_of_the_bytes_announced) {
  __shared__ alignas(128) float t[64];
  __shared__ uint64_t b;
  if (threadIdx.x == 0) {
    init_barrier(&b, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    expect(&b, 128);
    load(t, in, 128, &b);
  }
  wait(&b, 0);
  float v = t[threadIdx.x];
  out[threadIdx.x] = v;  // fault
}

// A bulk store takes padding to a workspace, and a bulk load brings it back.
// correct, UNINITIALISED_READ 1 32 0
PAIR(padding_in_bulk, field_in_bulk) {
  __shared__ alignas(128) Kept t[32], back[32];
  __shared__ uint64_t b;
  if (threadIdx.x == 0) init_barrier(&b, 1);
  if (RIGHT) t[threadIdx.x].kind = n;
  t[threadIdx.x].value = in[threadIdx.x];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncwarp();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;" ::"l"(scratch), "r"(shared_at(t))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    expect(&b, 256);
    load(back, scratch, 256, &b);
  }
  __syncwarp();
  wait(&b, 0);
  Kept other = back[threadIdx.x ^ 3];
  if (other.kind > 3) out[threadIdx.x] = other.value;  // fault
}

// RACE 1 64 0
PROGRAM(written_while_loading) {
  __shared__ alignas(128) float t[64];
  __shared__ uint64_t b;
  if (threadIdx.x == 0) init_barrier(&b, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    expect(&b, 256);
    load(t, in, 256, &b);  // fault
  }
  __syncthreads();
  t[threadIdx.x] = 1;  // fault
  wait(&b, 0);
  out[threadIdx.x] = t[threadIdx.x];
}

// RACE 1 64 0
PROGRAM(reduced_without_fence) {
  __shared__ alignas(128) float t[64];
  t[threadIdx.x] = in[threadIdx.x];  // fault
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 256;" ::"l"(scratch),
                 "r"(shared_at(t))
                 : "memory");  // fault
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}

// correct 3 64 0
PROGRAM(reduced_by_several_blocks) {
  __shared__ alignas(128) float t[64];
  t[threadIdx.x] = in[threadIdx.x];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 256;" ::"l"(scratch),
                 "r"(shared_at(t))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}

// --- more of blocks, functions and structs ---------------------------------------------------------------------------

// RACE 4 64 0
PROGRAM(grid_barrier_without_fence) {
  scratch[64 + blockIdx.x * 64 + threadIdx.x] = threadIdx.x;  // fault
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(scratch, 1);
    while (atomicAdd(scratch, 0) < gridDim.x) {}
  }
  __syncthreads();
  out[blockIdx.x * 64 + threadIdx.x] = scratch[64 + ((blockIdx.x + 1) % gridDim.x) * 64 + threadIdx.x];  // fault
}

// INVALID_WARP_MASK 1 32 0
PROGRAM(sum_of_the_other_half) {
  unsigned mask = threadIdx.x < 16 ? 0xffff0000 : 0x0000ffff;
  scratch[threadIdx.x] = __reduce_add_sync(mask, unsigned(in[threadIdx.x]));  // fault
}

__device__ __noinline__ void put(float* t, float x) { *t = x; }  // fault in through_a_function
__device__ __noinline__ float get(const float* t) { return *t; }  // fault in through_a_function
// RACE 1 64 0
PROGRAM(through_a_function) {
  __shared__ float t[64];
  put(&t[threadIdx.x], in[threadIdx.x]);  // fault
  out[threadIdx.x] = get(&t[63 - threadIdx.x]);  // fault
}

struct Accumulator {
  float sum, most;
  int count;
};
// correct, UNINITIALISED_READ 1 32 0
PAIR(all_fields_set, one_field_forgotten) {
  Accumulator a[4];
  for (int k = 0; k < 4; ++k) {
    a[k].sum = 0, a[k].count = 0;
    if (RIGHT) a[k].most = -1e30f;
  }
  for (int k = 0; k < 16; ++k) {
    Accumulator& b = a[(k + n) & 3];
    b.sum += in[k];
    b.count += 1;
    b.most = fmaxf(b.most, in[k]);
  }
  const Accumulator& c = a[n & 3];
  out[threadIdx.x] = c.sum + c.count + c.most;  // fault
}

// RACE 2 64 0
PROGRAM(double_buffer_swapped_by_one_block) {
  float* from = reinterpret_cast<float*>(scratch);
  float* to = from + 256;
  for (int k = 0; k < 2; ++k) {
    int i = blockIdx.x * 64 + threadIdx.x;
    to[i] = from[(i + 1) % 128] + in[i];  // fault
    __syncthreads();
    float* t = from;
    from = to;
    to = t;
  }
}

// correct, RACE 1 64 0
PAIR(several_store_one_maximum, several_store_one_maximum_and_read) {
  __shared__ float most;
  float x = in[threadIdx.x];
  for (int d = 16; d; d /= 2) x = fmaxf(x, __shfl_xor_sync(ALL, x, d));
  __shared__ float part[2];
  part[threadIdx.x / 32] = x;  // fault
  if (RIGHT) __syncthreads();
  most = fmaxf(part[0], part[1]);  // fault
  __syncthreads();
  out[threadIdx.x] = most;
}
