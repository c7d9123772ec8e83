// Small programs like those of checked.cu, after what CUDA's documentation says of warp functions, scopes, phases and
// groups of copies: a comment above each has the expected verdict, blocks, threads and bytes of dynamic shared memory.
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

#include "programs.cuh"

namespace cg = cooperative_groups;

// --- warp functions do not order memory ------------------------------------------------------------------------------

// correct, RACE 1 32 0
PAIR(shuffle_and_syncwarp, shuffle_for_syncwarp) {
  __shared__ float part[32];
  part[threadIdx.x] = in[threadIdx.x];  // fault
  const float sum = __shfl_xor_sync(ALL, in[threadIdx.x], 1);
  if (RIGHT) __syncwarp();
  out[threadIdx.x] = part[31 - threadIdx.x] + sum;  // fault
}

// RACE 1 32 0
PROGRAM(vote_for_syncwarp) {
  __shared__ float part[32];
  part[threadIdx.x] = in[threadIdx.x];  // fault
  if (__any_sync(ALL, in[threadIdx.x] > 1000)) return;
  out[threadIdx.x] = part[31 - threadIdx.x];  // fault
}

// RACE 1 32 0
PROGRAM(reduction_for_syncwarp) {
  __shared__ int part[32];
  part[threadIdx.x] = static_cast<int>(in[threadIdx.x]);  // fault
  const int sum = __reduce_add_sync(ALL, static_cast<int>(in[threadIdx.x]));
  scratch[threadIdx.x] = part[31 - threadIdx.x] + sum;  // fault
}

// The rows that the warp read before the shuffles are overwritten after them.
// correct, RACE 1 32 0
PAIR(row_used_again, row_used_again_after_shuffles) {
  __shared__ float row[32];
  for (int k = 0; k < 4; ++k) {
    row[threadIdx.x] = in[k * 32 + threadIdx.x];  // fault
    __syncwarp();
    float most = row[31 - threadIdx.x];  // fault
    for (int d = 16; d > 0; d /= 2) most = fmaxf(most, __shfl_xor_sync(ALL, most, d));
    if (RIGHT) __syncwarp();
    out[k * 32 + threadIdx.x] = most;
  }
}

// RACE 1 32 0
PROGRAM(fence_for_syncwarp) {
  __shared__ float part[32];
  part[threadIdx.x] = in[threadIdx.x];  // fault
  __threadfence_block();
  out[threadIdx.x] = part[31 - threadIdx.x];  // fault
}

// Each half of the warp has a barrier of its own.
// correct 1 32 0
PROGRAM(halves_of_a_warp) {
  __shared__ float part[32];
  const cg::thread_block_tile<16> half_warp = cg::tiled_partition<16>(cg::this_thread_block());
  for (int k = 0; k < 4; ++k) {
    part[threadIdx.x] = in[k * 32 + threadIdx.x];
    half_warp.sync();
    out[k * 32 + threadIdx.x] = part[threadIdx.x ^ 15];
    half_warp.sync();
  }
}

// RACE 1 32 0
PROGRAM(halves_of_a_warp_that_read_each_other) {
  __shared__ float part[32];
  const cg::thread_block_tile<16> half_warp = cg::tiled_partition<16>(cg::this_thread_block());
  part[threadIdx.x] = in[threadIdx.x];  // fault
  half_warp.sync();
  out[threadIdx.x] = part[threadIdx.x ^ 31];  // fault
}

// Lanes 8 to 15 carry what the first lanes wrote to the last ones.
// correct, RACE 1 32 0
PAIR(handed_on_by_lanes, handed_on_by_lanes_too_early) {
  __shared__ float part[32];
  const unsigned lane = threadIdx.x;
  if (lane < 8) part[lane] = in[lane];  // fault
  if (!RIGHT && lane >= 8) __syncwarp(0xffffff00);
  if (lane < 16) __syncwarp(0x0000ffff);
  if (RIGHT && lane >= 8) __syncwarp(0xffffff00);
  if (lane >= 16) out[lane] = part[lane % 8];  // fault
}

// Warps of lanes that took different branches.
// correct 1 32 0
PROGRAM(branches_with_barriers_of_their_own) {
  __shared__ float part[32];
  const unsigned lane = threadIdx.x;
  part[lane] = in[lane];
  __syncwarp();
  if (lane % 2) {
    const float x = part[lane ^ 2];
    __syncwarp(0xaaaaaaaa);
    part[lane] = x + 1;
  } else {
    const float x = part[lane ^ 2];
    __syncwarp(0x55555555);
    part[lane] = x + 2;
  }
  __syncwarp();
  out[lane] = part[31 - lane];
}

// RACE 1 32 0
PROGRAM(branches_with_a_coalesced_group) {
  __shared__ float part[32];
  const unsigned lane = threadIdx.x;
  part[lane] = in[lane];
  __syncwarp();
  if (lane % 2) {
    const cg::coalesced_group odd = cg::coalesced_threads();
    part[lane] += 1;  // fault
    odd.sync();
    out[lane] = part[lane - 1] + part[lane ^ 2];
  } else {
    part[lane] += 2;  // fault
    out[lane] = part[lane];
  }
}

// A fragment is loaded from what the lanes have just stored.
// correct, RACE, RACE 1 32 0
TRIO(tile_stored_and_multiplied, tile_stored_and_loaded_at_once, tile_read_without_syncwarp) {
  using namespace nvcuda::wmma;
  __shared__ half A[256];
  __shared__ float C[256];
  for (int i = threadIdx.x; i < 256; i += 32) A[i] = __float2half(in[i]);  // fault
  if (FAULT != 1) __syncwarp();
  fragment<matrix_a, 16, 16, 16, half, row_major> a;
  fragment<matrix_b, 16, 16, 16, half, col_major> b;
  fragment<accumulator, 16, 16, 16, float> c;
  load_matrix_sync(a, A, 16);  // fault
  load_matrix_sync(b, A, 16);  // fault
  fill_fragment(c, 0.0f);
  mma_sync(c, a, b, c);
  store_matrix_sync(C, c, 16, mem_row_major);  // fault
  if (FAULT != 2) __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) out[i] = C[255 - i];  // fault
}

// The lanes of a warp take turns at a lock.
// correct 1 32 0
PROGRAM(lock_among_lanes) {
  __shared__ int lock, count;
  if (threadIdx.x == 0) lock = count = 0;
  __syncwarp();
  for (bool done = false; !done;)
    if (atomicCAS(&lock, 0, 1) == 0) {
      __threadfence_block();
      count += threadIdx.x;
      __threadfence_block();
      atomicExch(&lock, 0);
      done = true;
    }
  __syncwarp();
  scratch[threadIdx.x] = count;
}

// DEADLOCK 1 32 0
PROGRAM(shuffle_that_half_a_warp_misses) {
  float value = in[threadIdx.x];
  if (threadIdx.x < 16)
    value = __shfl_xor_sync(ALL, value, 1);  // fault
  else
    __syncwarp();  // fault
  out[threadIdx.x] = value;
}

// --- scopes ----------------------------------------------------------------------------------------------------------

// correct 2 64 0
PROGRAM(counted_by_two_blocks) {
  atomicAdd(&scratch[threadIdx.x % 4], 1);
  out[blockIdx.x * 64 + threadIdx.x] = in[threadIdx.x];
}

// RACE 2 64 0
PROGRAM(counted_by_two_blocks_in_block_scope) {
  atomicAdd_block(&scratch[threadIdx.x % 4], 1);  // fault
  out[blockIdx.x * 64 + threadIdx.x] = in[threadIdx.x];
}

// correct 2 64 0
PROGRAM(counted_by_each_block_in_block_scope) {
  atomicAdd_block(&scratch[blockIdx.x * 4 + threadIdx.x % 4], 1);
  __syncthreads();
  out[blockIdx.x * 64 + threadIdx.x] = scratch[blockIdx.x * 4 + threadIdx.x % 4];
}

// correct, RACE 2 32 0
PAIR(released_to_the_device, released_to_the_block) {
  if (threadIdx.x) return;
  cuda::atomic_ref<int, cuda::thread_scope_device> flag(scratch[0]);
  if (blockIdx.x == 0) {
    scratch[64] = static_cast<int>(in[5]);  // fault
    if (RIGHT) flag.store(1, cuda::memory_order_release);
    if (!RIGHT)
      cuda::atomic_ref<int, cuda::thread_scope_block>(scratch[0]).store(1, cuda::memory_order_release);  // fault
  } else {
    while (flag.load(cuda::memory_order_acquire) == 0) {}  // fault
    out[0] = scratch[64];  // fault
  }
}

// RACE 2 32 0
PROGRAM(acquired_by_the_block) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    scratch[64] = static_cast<int>(in[5]);  // fault
    cuda::atomic_ref<int, cuda::thread_scope_device>(scratch[0]).store(1, cuda::memory_order_release);  // fault
  } else {
    cuda::atomic_ref<int, cuda::thread_scope_block> flag(scratch[0]);
    while (flag.load(cuda::memory_order_acquire) == 0) {}  // fault
    out[0] = scratch[64];  // fault
  }
}

// RACE 2 32 0
PROGRAM(acquired_relaxed) {
  if (threadIdx.x) return;
  cuda::atomic_ref<int, cuda::thread_scope_device> flag(scratch[0]);
  if (blockIdx.x == 0) {
    scratch[64] = static_cast<int>(in[5]);  // fault
    flag.store(1, cuda::memory_order_release);
  } else {
    while (flag.load(cuda::memory_order_relaxed) == 0) {}
    out[0] = scratch[64];  // fault
  }
}

// A place in a queue is reserved before it is filled.
// correct, RACE 2 32 0
PAIR(queue_with_flags, queue_by_its_length) {
  if (threadIdx.x) return;
  int* const entries = scratch + 64;
  int* const ready = scratch + 128;
  if (blockIdx.x == 0) {
    for (int k = 0; k < 8; ++k) {
      const int place = atomicAdd(&scratch[0], 1);
      entries[place] = static_cast<int>(in[k]);  // fault
      __threadfence();
      if (RIGHT) atomicExch(&ready[place], 1);
    }
  } else {
    int sum = 0;
    for (int k = 0; k < 8; ++k) {
      while (RIGHT ? atomicAdd(&ready[k], 0) == 0 : atomicAdd(&scratch[0], 0) <= k) {}
      __threadfence();
      sum += entries[k];  // fault
    }
    out[0] = sum;
  }
}

// RACE 1 64 0
PROGRAM(counter_that_is_volatile) {
  volatile __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (threadIdx.x % 32 == 0) count = count + 1;  // fault
  __syncthreads();
  scratch[threadIdx.x] = count;
}

// --- phases of barriers ----------------------------------------------------------------------------------------------

__device__ __forceinline__ void start(uint64_t* barrier, unsigned count) {
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_at(barrier)), "r"(count));
  __syncthreads();
}
__device__ __forceinline__ void arrive(uint64_t* barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_at(barrier)) : "memory");
}
__device__ __forceinline__ void wait(uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{ .reg .pred done; again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1; @!done bra again; }" ::"r"(
          shared_at(barrier)),
      "r"(parity)  // fault in phase_with_one_arrival_too_few
      : "memory");
}

// correct, RACE 1 64 0
PAIR(phases_in_turn, phase_that_never_turns) {
  __shared__ uint64_t full, empty;
  __shared__ float part[32];
  start(&full, 32);
  start(&empty, 32);
  const unsigned lane = threadIdx.x % 32;
  for (unsigned k = 0; k < (RIGHT ? 4 : 2); ++k)
    if (threadIdx.x < 32) {
      if (k) wait(&empty, (k - 1) & 1);
      part[lane] = in[k * 32 + lane];  // fault
      arrive(&full);
    } else {
      wait(&full, RIGHT ? k & 1 : 0);
      out[k * 32 + lane] = part[31 - lane];  // fault
      if (RIGHT || k == 0) arrive(&empty);
    }
}

// DEADLOCK 1 64 0
PROGRAM(phase_with_one_arrival_too_few) {
  __shared__ uint64_t full;
  __shared__ float part[32];
  start(&full, 32);
  const unsigned lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    part[lane] = in[lane];
    if (lane) arrive(&full);
  } else {
    wait(&full, 0);
    out[lane] = part[31 - lane];
  }
}

// DEADLOCK 1 96 0
PROGRAM(named_barrier_of_too_few) {
  __shared__ float part[96];
  part[threadIdx.x] = in[threadIdx.x];
  asm volatile("bar.sync 1, 64;" ::: "memory");  // fault
  out[threadIdx.x] = threadIdx.x < 64 ? part[63 - threadIdx.x] : part[threadIdx.x];
}

// RACE 1 64 0
PROGRAM(arrival_where_the_wait_should_be) {
  __shared__ float part[32];
  const unsigned lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    part[lane] = in[lane];  // fault
    asm volatile("bar.sync 1, 64;" ::: "memory");
  } else {
    asm volatile("bar.arrive 1, 64;" ::: "memory");
    out[lane] = part[31 - lane];  // fault
  }
}

// DEADLOCK 1 64 0
PROGRAM(barrier_for_some_of_a_warp) {
  __shared__ float part[64];
  part[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x < 48) {
    __syncthreads();  // fault
    out[threadIdx.x] = part[47 - threadIdx.x];
  } else {
    __syncthreads();  // fault
    out[threadIdx.x] = 0;
  }
}

// --- groups of copies ------------------------------------------------------------------------------------------------

// Three stages. After the last tile, groups without copies keep the count of groups right.
// correct, RACE 1 64 0
PAIR(three_stages, three_stages_without_empty_groups) {
  __shared__ float tile[3][64];
  float sum = 0;
  for (int k = 0; k < 2; ++k) {
    __pipeline_memcpy_async(&tile[k][threadIdx.x], &in[k * 64 + threadIdx.x], 4);  // fault
    __pipeline_commit();
  }
  for (int k = 0; k < 8; ++k) {
    __pipeline_wait_prior(1);
    __syncthreads();
    sum += tile[k % 3][63 - threadIdx.x];  // fault
    if (k + 2 < 8)
      __pipeline_memcpy_async(&tile[(k + 2) % 3][threadIdx.x], &in[(k + 2) * 64 + threadIdx.x], 4);  // fault
    if (RIGHT || k + 2 < 8) __pipeline_commit();
  }
  out[threadIdx.x] = sum;
}

// RACE 1 64 0
PROGRAM(three_stages_and_no_barrier) {
  __shared__ float tile[3][64];
  float sum = 0;
  for (int k = 0; k < 8; ++k) {
    __pipeline_memcpy_async(&tile[k % 3][threadIdx.x], &in[k * 64 + threadIdx.x], 4);  // fault
    __pipeline_commit();
    __pipeline_wait_prior(0);
    sum += tile[k % 3][63 - threadIdx.x];  // fault
  }
  out[threadIdx.x] = sum;
}

__device__ __forceinline__ void store_bulk(float* to, const float* from, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_at(from)), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// correct, RACE 1 64 0
PAIR(two_buffers_stored, two_buffers_and_three_groups) {
  __shared__ alignas(128) float tile[2][64];
  for (int k = 0; k < 6; ++k) {
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(RIGHT ? 1 : 2) : "memory");
    __syncthreads();
    tile[k % 2][threadIdx.x] = in[k * 64 + threadIdx.x];  // fault
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) store_bulk(out + k * 64, tile[k % 2], sizeof tile[0]);  // fault
  }
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// RACE 1 64 0
PROGRAM(waited_for_by_another_thread) {
  __shared__ alignas(128) float tile[64];
  for (int k = 0; k < 2; ++k) {
    tile[threadIdx.x] = in[k * 64 + threadIdx.x];  // fault
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) store_bulk(out + k * 64, tile, sizeof tile);  // fault
    if (threadIdx.x == 32) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    __syncthreads();
  }
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// --- the cache of read-only data -------------------------------------------------------------------------------------

// RACE 1 64 0
PROGRAM(own_store_read_by_ldg) {
  out[threadIdx.x] = in[threadIdx.x];  // fault
  out[64 + threadIdx.x] = __ldg(&out[threadIdx.x]) + 1;  // fault
}

// correct 1 64 0
PROGRAM(own_store_read_plainly) {
  out[threadIdx.x] = in[threadIdx.x];
  out[64 + threadIdx.x] = *static_cast<volatile float*>(&out[threadIdx.x]) + 1;
}

// --- bounds, alignment -----------------------------------------------------------------------------------------------

// OUT_OF_BOUNDS 1 64 256
PROGRAM(static_array_into_dynamic_memory) {
  extern __shared__ float dynamic[];
  __shared__ float fixed[64];
  fixed[threadIdx.x] = in[threadIdx.x];
  dynamic[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < 8; ++k) sum += fixed[threadIdx.x + k];  // fault
  out[threadIdx.x] = sum + dynamic[threadIdx.x];
}

// correct 1 64 512
PROGRAM(dynamic_memory_in_parts) {
  extern __shared__ float dynamic[];
  float* const keys = dynamic;
  float* const values = dynamic + 64;
  keys[threadIdx.x] = in[threadIdx.x];
  values[threadIdx.x] = in[64 + threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = keys[63 - threadIdx.x] + values[63 - threadIdx.x];
}

// The keys have one row too many, in which the first warp's stores meet the second warp's reads of values.
// RACE 1 64 512
PROGRAM(dynamic_part_into_the_next) {
  extern __shared__ float dynamic[];
  float* const keys = dynamic;
  float* const values = dynamic + 64;
  values[threadIdx.x] = in[64 + threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 32)
    for (int k = 0; k <= n / 32; ++k) keys[k * 32 + threadIdx.x] = in[k * 32 + threadIdx.x];  // fault
  else
    out[threadIdx.x] = values[threadIdx.x - 32];  // fault
}

// MISALIGNED_ADDRESS 1 32 0
PROGRAM(rows_of_an_odd_pitch) {
  __shared__ alignas(16) float tile[32][5];
  for (int k = 0; k < 5; ++k) tile[threadIdx.x][k] = in[k];
  __syncwarp();
  const float4 row = *reinterpret_cast<const float4*>(&tile[threadIdx.x][0]);  // fault
  out[threadIdx.x] = row.x + row.y + row.z + row.w;
}

// MISALIGNED_ADDRESS 1 32 0
PROGRAM(matrix_rows_of_an_odd_pitch) {
  __shared__ alignas(16) half tile[16 * 20];
  for (int i = threadIdx.x; i < 16 * 20; i += 32) tile[i] = __float2half(in[i % 64]);
  __syncwarp();
  unsigned a, b, c, d;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"  // fault
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"(shared_at(&tile[threadIdx.x % 16 * 20 + threadIdx.x / 16 * 8]))  // fault
               : "memory");
  scratch[threadIdx.x] = a + b + c + d;
}

// MISALIGNED_ADDRESS 1 32 0
PROGRAM(copy_from_an_odd_element) {
  __shared__ alignas(16) float tile[128];
  __pipeline_memcpy_async(&tile[threadIdx.x * 4], &in[threadIdx.x * 4 + (n - 63)], 16);  // fault
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncwarp();
  out[threadIdx.x] = tile[127 - threadIdx.x];
}

// --- unwritten values ------------------------------------------------------------------------------------------------

// correct 1 32 0
PROGRAM(set_where_it_is_used) {
  float own;
  const bool is_large = in[threadIdx.x] > 3;
  if (is_large) own = in[threadIdx.x + 32];
  __syncwarp();
  out[threadIdx.x] = is_large ? own : 0;
}

// correct, UNINITIALISED_READ 1 64 0
PAIR(halo_that_is_loaded, halo_that_nobody_loads) {
  __shared__ float tile[66];
  tile[threadIdx.x + 1] = in[threadIdx.x];
  if (threadIdx.x == 0) tile[0] = 0;
  if (RIGHT && threadIdx.x == 63) tile[65] = 0;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x] + tile[threadIdx.x + 1] + tile[threadIdx.x + 2];  // fault
}

// UNINITIALISED_READ 1 32 0
PROGRAM(stack_that_is_popped_too_far) {
  float stack[16];
  int top = 0;
  for (int k = 0; k < 8; ++k)
    if (in[threadIdx.x + k] > 2) stack[top++] = in[k];
  float sum = 0;
  for (int k = 0; k < 8; ++k) sum += stack[k];  // fault
  out[threadIdx.x] = sum;
}
