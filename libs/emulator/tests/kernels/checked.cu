// Small programs after CUDA's Programming Guide and the PTX ISA, in pairs: a correct one, and one with a fault. The
// comment above each has the expected verdicts of the checks ("correct" or a kind of fault), blocks, threads and bytes
// of dynamic shared memory. A faulty line ends in "// fault", or in "// fault in" and names of programs if several
// programs call its function. If several lines are marked, as in a race, the report may name any of them.
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

#include "programs.cuh"

// --- barriers of a block ---------------------------------------------------------------------------------------------

// correct, RACE 1 256 0
PAIR(tiles_of_a_product, tiles_overwritten_early) {
  __shared__ float A[16][16], B[16][16];
  const int row = threadIdx.x / 16, column = threadIdx.x % 16;
  float sum = 0;
  for (int tile = 0; tile < 2; ++tile) {
    A[row][column] = in[row * 32 + tile * 16 + column];  // fault
    B[row][column] = in[(tile * 16 + row) * 16 + column];  // fault
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += A[row][k] * B[k][column];  // fault
    if (RIGHT) __syncthreads();
  }
  out[threadIdx.x] = sum;
}

// correct, RACE 1 256 0
PAIR(sum_of_a_block, sum_with_one_barrier) {
  __shared__ float part[256];
  part[threadIdx.x] = in[threadIdx.x];
  if (!RIGHT) __syncthreads();
  for (int stride = 128; stride > 0; stride /= 2) {
    if (RIGHT) __syncthreads();
    if (threadIdx.x < stride) part[threadIdx.x] += part[threadIdx.x + stride];  // fault
  }
  if (threadIdx.x == 0) out[0] = part[0];
}

// correct, RACE 1 256 0
PAIR(turned_tile, turned_without_barrier) {
  __shared__ float tile[16][17];
  const int row = threadIdx.x / 16, column = threadIdx.x % 16;
  tile[row][column] = in[threadIdx.x];  // fault
  if (RIGHT) __syncthreads();
  out[threadIdx.x] = tile[column][row];  // fault
}

// correct 1 64 0
PROGRAM(barrier_after_exit) {
  if (threadIdx.x >= 48) return;
  __shared__ float part[48];
  part[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = part[47 - threadIdx.x];
}

// DEADLOCK 1 64 0
PROGRAM(barrier_in_a_branch) {
  __shared__ float part[64];
  part[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x % 2)
    __syncthreads();  // fault
  else
    __syncthreads();  // fault
  out[threadIdx.x] = part[63 - threadIdx.x];
}

// correct, RACE 1 128 0
PAIR(named_barrier, named_barrier_too_early) {
  __shared__ float part[64];
  if (threadIdx.x < 64) {
    if (!RIGHT) asm volatile("bar.arrive 1, 128;" ::: "memory");
    part[threadIdx.x] = in[threadIdx.x];  // fault
    if (RIGHT) asm volatile("bar.arrive 1, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 1, 128;" ::: "memory");
    out[threadIdx.x - 64] = part[threadIdx.x - 64];  // fault
  }
}

// --- warps -----------------------------------------------------------------------------------------------------------

// correct 1 32 0
PROGRAM(sum_of_a_warp_in_shared) {
  __shared__ float part[32];
  float value = in[threadIdx.x];
  for (int stride = 16; stride > 0; stride /= 2) {
    part[threadIdx.x] = value;
    __syncwarp();
    if (threadIdx.x < stride) value += part[threadIdx.x + stride];
    __syncwarp();
  }
  if (threadIdx.x == 0) out[0] = value;
}

// RACE 1 32 0
PROGRAM(sum_of_a_warp_in_lockstep) {
  __shared__ float part[32];
  part[threadIdx.x] = in[threadIdx.x];
  __syncwarp();
  for (int stride = 16; stride > 0; stride /= 2)
    if (threadIdx.x < stride) part[threadIdx.x] += part[threadIdx.x + stride];  // fault
  if (threadIdx.x == 0) out[0] = part[0];
}

// correct 1 32 0
PROGRAM(shuffled_sum) {
  float value = in[threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(ALL, value, distance);
  out[threadIdx.x] = value;
}

// UNINITIALISED_READ 1 32 0
PROGRAM(shuffled_from_a_lane_outside) {
  float value = in[threadIdx.x];
  if (threadIdx.x < 20) value += __shfl_sync(0x000fffff, value, 31);  // fault
  out[threadIdx.x] = value;
}

// The sums of upper lanes include values of lanes that take no part. These sums are not used.
// correct 1 32 0
PROGRAM(sum_of_twenty) {
  float value = in[threadIdx.x];
  if (threadIdx.x >= 20) return;
  for (int distance = 16; distance > 0; distance /= 2) {
    const float other = __shfl_down_sync(0x000fffff, value, distance);
    if (threadIdx.x + distance < 20) value += other;
  }
  if (threadIdx.x == 0) out[0] = value;
}

// UNINITIALISED_READ 1 32 0
PROGRAM(sum_of_twenty_and_more) {
  float value = in[threadIdx.x];
  if (threadIdx.x >= 20) return;
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(0x000fffff, value, distance);  // fault
  if (threadIdx.x == 0) out[0] = value;
}

// correct 1 32 0
PROGRAM(scan_of_eights) {
  int value = static_cast<int>(in[threadIdx.x]);
  for (int distance = 1; distance <= 4; distance *= 2) {
    const int other = __shfl_up_sync(ALL, value, distance, 8);
    if (threadIdx.x % 8 >= distance) value += other;
  }
  out[threadIdx.x] = value;
}

// INVALID_WARP_MASK 1 32 0
PROGRAM(scan_with_the_mask_of_others) {
  int value = static_cast<int>(in[threadIdx.x]);
  value += __shfl_up_sync(0xffff0000, value, 1, 8);  // fault
  out[threadIdx.x] = value;
}

// correct, RACE 1 64 0
PAIR(compacted_by_ballot, compacted_without_atomic) {
  const bool kept = in[threadIdx.x] > 10;
  const unsigned lane = threadIdx.x % 32, kept_lanes = __ballot_sync(ALL, kept);
  int first = 0;
  if (lane == 0 && RIGHT) first = atomicAdd(scratch, __popc(kept_lanes));
  if (lane == 0 && !RIGHT) {
    first = *scratch;  // fault
    *scratch = first + __popc(kept_lanes);  // fault
  }
  first = __shfl_sync(ALL, first, 0);
  if (kept) out[first + __popc(kept_lanes & ((1u << lane) - 1))] = in[threadIdx.x];
}

// --- fences, flags and locks -----------------------------------------------------------------------------------------

// correct, RACE 4 64 0
PAIR(sum_by_the_last_block, sum_without_fence) {
  __shared__ bool is_last;
  float* parts = reinterpret_cast<float*>(scratch) + 64;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = in[blockIdx.x];  // fault
    if (RIGHT) __threadfence();
    is_last = atomicInc(reinterpret_cast<unsigned*>(scratch), gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (!is_last || threadIdx.x) return;
  float sum = 0;
  for (int block = 0; block < gridDim.x; ++block) sum += parts[block];  // fault
  out[0] = sum;
}

__device__ __forceinline__ void store_release(int* at, int value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ __forceinline__ int load_acquire(const int* at) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__device__ __forceinline__ void store_relaxed(int* at, int value) {
  asm volatile("st.relaxed.gpu.global.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ __forceinline__ int load_relaxed(const int* at) {
  int value;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}

// correct, RACE 2 32 0
PAIR(message_released, message_relaxed) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    scratch[64] = static_cast<int>(in[0]);  // fault
    RIGHT ? store_release(scratch, 1) : store_relaxed(scratch, 1);
  } else {
    while (!(RIGHT ? load_acquire(scratch) : load_relaxed(scratch))) {}
    out[0] = scratch[64];  // fault
  }
}

// correct, RACE 2 32 0
PAIR(message_with_fences, message_with_fences_of_the_block) {
  volatile int* flag = scratch;
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    scratch[64] = static_cast<int>(in[0]);  // fault
    RIGHT ? __threadfence() : __threadfence_block();
    *flag = 1;
  } else {
    while (!*flag) {}
    RIGHT ? __threadfence() : __threadfence_block();
    out[0] = scratch[64];  // fault
  }
}

// correct, RACE 4 32 0
PAIR(counted_under_a_lock, counted_after_the_lock) {
  if (threadIdx.x == 0) {
    while (atomicCAS(scratch, 0, 1)) {}
    __threadfence();
    const int count = scratch[64] + 1;
    if (RIGHT) scratch[64] = count;
    __threadfence();
    atomicExch(scratch, 0);
    if (!RIGHT) scratch[64] = count;  // fault
  }
  out[blockIdx.x * 32 + threadIdx.x] = in[threadIdx.x];
}

// correct, RACE 1 64 0
PAIR(handed_to_another_warp, handed_by_volatile_alone) {
  __shared__ float payload;
  __shared__ volatile int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    payload = in[0];  // fault
    if (RIGHT) __threadfence_block();
    flag = 1;
  } else if (threadIdx.x == 32) {
    while (!flag) {}
    if (RIGHT) __threadfence_block();
    out[0] = payload;  // fault
  }
}

// --- atomics, and stores that meet -----------------------------------------------------------------------------------

// correct, RACE 2 128 0
PAIR(histogram, histogram_without_atomics) {
  __shared__ int bins[16];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  int& bin = bins[static_cast<int>(in[threadIdx.x]) % 16];
  if (RIGHT) atomicAdd(&bin, 1);
  if (!RIGHT) bin += 1;  // fault
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&scratch[threadIdx.x], bins[threadIdx.x]);
}

// correct 4 64 0
PROGRAM(found_by_several) {
  __shared__ int found;
  if (in[threadIdx.x] >= 0) found = 1;  // lanes and warps
  if (in[threadIdx.x] > 3) scratch[0] = 1;  // blocks
  __syncthreads();
  out[blockIdx.x * 64 + threadIdx.x] = found;
}

// RACE 4 64 0
PROGRAM(found_at_several) {
  if (in[threadIdx.x] > 3) scratch[0] = threadIdx.x;  // fault
  out[blockIdx.x * 64 + threadIdx.x] = 0;
}

// correct 4 64 0
PROGRAM(neighbours_of_the_input) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  out[i] = in[i] + in[(i + 1) % 256];
}

// RACE 4 64 0
PROGRAM(neighbours_in_place) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  float* values = reinterpret_cast<float*>(scratch);
  const float other = values[(i + 1) % 256];  // fault
  values[i] = other + in[i];  // fault
  out[i] = other;
}

// correct 1 64 0
PROGRAM(read_only_input) { out[threadIdx.x] = __ldg(in + 63 - threadIdx.x); }

// RACE 1 64 0
PROGRAM(read_only_of_what_is_written) {
  scratch[threadIdx.x] = threadIdx.x;  // fault
  __syncthreads();
  out[threadIdx.x] = __ldg(scratch + 63 - threadIdx.x);  // fault
}

// --- bounds and alignment --------------------------------------------------------------------------------------------

// correct 1 64 1024
PROGRAM(arrays_in_dynamic_shared) {
  extern __shared__ float arrays[];
  float *first = arrays, *second = arrays + 64;
  first[threadIdx.x] = in[threadIdx.x];
  second[threadIdx.x] = 2 * in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = first[63 - threadIdx.x] + second[63 - threadIdx.x];
}

// OUT_OF_BOUNDS 1 64 0
PROGRAM(index_into_the_next_array) {
  __shared__ float first[64], second[64];
  first[threadIdx.x] = in[threadIdx.x];
  second[63 - threadIdx.x] = in[threadIdx.x + 1];
  __syncthreads();
  float sum = 0;
  for (int k = 0; k <= n / 64; ++k) sum += first[threadIdx.x + k];  // fault
  out[threadIdx.x] = sum + second[threadIdx.x];
}

// correct 5 256 0
PROGRAM(bounded_index) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = in[i];
}

// OUT_OF_BOUNDS 17 256 0
PROGRAM(unbounded_index) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  out[i] = in[i];  // fault
}

// correct 1 32 0
PROGRAM(aligned_pairs) {
  const float2 pair = reinterpret_cast<const float2*>(in)[threadIdx.x];
  out[threadIdx.x] = pair.x + pair.y;
}

// MISALIGNED_ADDRESS 1 32 0
PROGRAM(pairs_from_an_odd_index) {
  const float2 pair = *reinterpret_cast<const float2*>(in + threadIdx.x);  // fault
  out[threadIdx.x] = pair.x + pair.y;
}

// --- what nobody has written -----------------------------------------------------------------------------------------

// correct, UNINITIALISED_READ 1 32 0
PAIR(accumulators, accumulators_without_a_value) {
  float acc[64];
  if (RIGHT)
    for (float& value : acc) value = 0;
  for (int k = 0; k < (RIGHT ? 4 : n / 16); ++k)
#pragma unroll
    for (int j = 0; j < 64; ++j) acc[j] += in[(k * 64 + j + threadIdx.x) % 256];  // fault
#pragma unroll
  for (int j = 0; j < 64; ++j) out[threadIdx.x * 64 + j] = acc[j];
}

// correct 1 32 0
PROGRAM(table_of_its_own) {
  float table[16];
  for (int k = 0; k < 16; ++k) table[k] = in[k];
  float sum = 0;
  for (int k = 0; k < 16; ++k) sum += table[(k * n + threadIdx.x) & 15];
  out[threadIdx.x] = sum;
}

// UNINITIALISED_READ 1 32 0
PROGRAM(table_with_a_gap) {
  float table[16];
  for (int k = 0; k < n; k += 4) table[k & 15] = in[k];
  float sum = 0;
  for (int k = 0; k < 16; ++k) sum += table[(k + threadIdx.x) & 15];  // fault
  out[threadIdx.x] = sum;
}

// The last tile has 40 of 64 rows. The maximum of the other rows is computed and not used.
// correct 1 64 0
PROGRAM(ragged_tile) {
  __shared__ float tile[64][4];
  const int rows = n - 24;
  if (threadIdx.x < rows)
    for (int k = 0; k < 4; ++k) tile[threadIdx.x][k] = in[threadIdx.x * 4 + k];
  __syncthreads();
  float most = -1e30f;
  for (int k = 0; k < 4; ++k) most = fmaxf(most, tile[threadIdx.x][k]);
  const float kept = threadIdx.x < rows ? most : 0.0f;
  out[threadIdx.x] = kept;
}

// UNINITIALISED_READ 1 64 0
PROGRAM(ragged_tile_summed) {
  __shared__ float tile[64];
  if (threadIdx.x < n - 24) tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < 64; ++k) sum += tile[k];  // fault
  out[threadIdx.x] = sum;
}

// Rows of A beyond the tenth are never written. They only affect rows of the product that are not stored.
// correct, UNINITIALISED_READ 1 32 0
PAIR(ragged_product, ragged_depth) {
  using namespace nvcuda::wmma;
  __shared__ half A[16][16], B[16][16];
  __shared__ float C[16][16];
  const int rows = RIGHT ? 10 : 16, depth = RIGHT ? 16 : 10;
  for (int i = threadIdx.x; i < rows * 16; i += 32) A[i / 16][i % 16] = __float2half(i % 16 < depth ? in[i] : 0.0f);
  for (int i = threadIdx.x; i < depth * 16; i += 32) B[i / 16][i % 16] = __float2half(in[i]);
  __syncwarp();
  fragment<matrix_a, 16, 16, 16, half, row_major> a;
  fragment<matrix_b, 16, 16, 16, half, row_major> b;
  fragment<accumulator, 16, 16, 16, float> c;
  fill_fragment(c, 0.0f);
  load_matrix_sync(a, &A[0][0], 16);
  load_matrix_sync(b, &B[0][0], 16);  // fault: 0 times infinity is NaN
  mma_sync(c, a, b, c);
  store_matrix_sync(&C[0][0], c, 16, mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < rows * 16; i += 32) out[i] = C[i / 16][i % 16];
}

/** Each thread's scores for four keys. Only the first `keys` keys have been written. */
template <typename Scalar>
__device__ __forceinline__ void score_four(const float* in, Scalar (*K)[8], int keys, float (&s)[4]) {
  for (int i = threadIdx.x; i < keys * 8; i += 32) K[i / 8][i % 8] = in[i];
  __syncwarp();
  for (int d = 0; d < 8; ++d)
#pragma unroll
    for (int k = 0; k < 4; ++k) s[k] += in[threadIdx.x * 8 + d] * static_cast<float>(K[k][d]);
}

// correct 1 32 0
PROGRAM(ragged_sums) {
  __shared__ float K[4][8];
  __shared__ alignas(16) half V[4][8];
  float s[4] = {}, t[4] = {}, sum = 0;
  const int keys = n - 61;
  score_four(in, K, keys, s);
  score_four(in, V, keys, t);
  const half2 last = __halves2half2(V[keys - 1][7], V[keys][0]);  // the upper half is unwritten
#pragma unroll
  for (int k = 0; k < 4; ++k) sum += k < keys ? s[k] + t[k] : 0.0f;
  out[threadIdx.x] = sum + __low2float(__hmul2(last, last));
}

// UNINITIALISED_READ 1 32 0
PROGRAM(ragged_sums_off_by_one) {
  __shared__ float K[4][8];
  float s[4] = {}, sum = 0;
  const int keys = n - 61;
  score_four(in, K, keys, s);
#pragma unroll
  for (int k = 0; k < 4; ++k) sum += k <= keys ? s[k] : 0.0f;
  out[threadIdx.x] = sum;  // fault
}

/** A 16 x 16 and B 16 x 8 (column by column) through ldmatrix and mma.sync. d[0] and d[1] are in row lane / 4. */
__device__ __forceinline__ void multiply_warp(const half (*A)[16], const half (*B)[16], float (&d)[4]) {
  uint32_t a[4], b[2];
  const int lane = threadIdx.x % 32;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(shared_at(&A[lane % 16][lane / 16 * 8])));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(b[0]), "=r"(b[1])
               : "r"(shared_at(&B[lane % 8][lane / 8 % 2 * 8])));
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Scores of keys beyond the fifth are never written, and are masked before rows are summed.
// correct, UNINITIALISED_READ 1 32 0
PAIR(ragged_keys, ragged_keys_off_by_one) {
  __shared__ alignas(16) half Q[16][16], K[8][16];
  const int lane = threadIdx.x, keys = n - 59;
  for (int i = lane; i < 16 * 16; i += 32) Q[i / 16][i % 16] = __float2half(in[i]);
  for (int i = lane; i < keys * 16; i += 32) K[i / 16][i % 16] = __float2half(in[i]);
  __syncwarp();
  float s[4] = {};
  multiply_warp(Q, K, s);
  for (int k = 0; k < 4; ++k)
    if (lane % 4 * 2 + k % 2 >= (RIGHT ? keys : keys + 1)) s[k] = 0;
  for (int k = 0; k < 4; k += 2) {
    float sum = s[k] + s[k + 1];
    sum += __shfl_xor_sync(ALL, sum, 1);
    sum += __shfl_xor_sync(ALL, sum, 2);
    out[lane * 2 + k / 2] = sum;  // fault
  }
}

// correct 1 32 0
PROGRAM(index_from_shared) {
  __shared__ int order[32];
  order[threadIdx.x] = 31 - threadIdx.x;
  __syncwarp();
  out[threadIdx.x] = in[order[threadIdx.x ^ 1]];
}

// UNINITIALISED_READ 1 32 0
PROGRAM(index_that_nobody_has_written) {
  __shared__ int order[32];
  if (threadIdx.x < 30) order[threadIdx.x] = 31 - threadIdx.x;
  __syncwarp();
  out[threadIdx.x] = in[order[threadIdx.x ^ 1] & 63];  // fault
}

// correct 1 64 0
PROGRAM(flag_that_is_raised) {
  __shared__ volatile int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x == 0) flag = 1;
  if (threadIdx.x == 32)
    while (flag != 1) {}
  out[threadIdx.x] = in[threadIdx.x];
}

// UNINITIALISED_READ 1 64 0
PROGRAM(flag_that_nobody_raises) {
  __shared__ volatile int flag;
  if (threadIdx.x == 32)
    while (flag != 1) {  // fault
    }
  out[threadIdx.x] = in[threadIdx.x];
}

// --- asynchronous copies ---------------------------------------------------------------------------------------------

// correct, RACE 1 64 0
PAIR(copied_and_waited_for, copied_and_not_waited_for) {
  __shared__ float tile[64];
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], 4);  // fault
  __pipeline_commit();
  if (RIGHT) __pipeline_wait_prior(0);
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];  // fault
}

// correct, RACE 1 64 0
PAIR(two_stages, two_stages_one_too_late) {
  __shared__ float tile[2][64];
  __pipeline_memcpy_async(&tile[0][threadIdx.x], &in[threadIdx.x], 4);  // fault
  __pipeline_commit();
  float sum = 0;
  for (int k = 0; k < 4; ++k) {
    if (k < 3) __pipeline_memcpy_async(&tile[(k + 1) & 1][threadIdx.x], &in[(k + 1) * 64 + threadIdx.x], 4);  // fault
    __pipeline_commit();
    __pipeline_wait_prior(RIGHT ? 1 : 2);
    __syncthreads();
    sum += tile[k & 1][63 - threadIdx.x];  // fault
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}

__device__ __forceinline__ void init_barrier(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_at(barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void fence_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void load_bulk(void* to, const void* from, int bytes, uint64_t* barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_at(barrier)), "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_at(to)),
      "l"(from), "r"(bytes),
      "r"(shared_at(barrier))  // fault in ring_that_is_filled_early, operands_given_back_before_the_wait
      : "memory");
}
__device__ __forceinline__ void wait_for(uint64_t* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN;\n}" ::
          "r"(shared_at(barrier)),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void store_bulk(void* to, const void* from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_at(from)), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void wait_for_reads() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// correct, RACE 1 64 0
PAIR(bulk_load, bulk_load_not_waited_for) {
  __shared__ alignas(128) float tile[64];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    init_barrier(&barrier, 1);
    fence_proxy();
  }
  __syncthreads();
  if (threadIdx.x == 0) load_bulk(tile, in, sizeof tile, &barrier);  // fault
  RIGHT ? wait_for(&barrier, 0) : __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];  // fault
}

// correct, RACE 1 64 0
PAIR(bulk_store, bulk_store_without_fence) {
  __shared__ alignas(128) float tile[64];
  tile[threadIdx.x] = in[threadIdx.x];  // fault
  if (RIGHT) fence_proxy();
  __syncthreads();
  if (threadIdx.x == 0) {
    store_bulk(out, tile, sizeof tile);  // fault
    wait_for_reads();
  }
}

// correct, RACE 1 64 0
PAIR(buffer_used_again, buffer_used_again_early) {
  __shared__ alignas(128) float tile[64];
  for (int k = 0; k < 2; ++k) {
    tile[threadIdx.x] = in[k * 64 + threadIdx.x];  // fault
    fence_proxy();
    __syncthreads();
    if (threadIdx.x == 0) {
      store_bulk(out + k * 64, tile, sizeof tile);  // fault
      if (RIGHT) wait_for_reads();
    }
    __syncthreads();
  }
  if (!RIGHT && threadIdx.x == 0) wait_for_reads();
}

/** A product of 64 x 16 by 16 x 8, without a swizzle: 8 x 8 pieces side by side. */
__device__ __forceinline__ void multiply_group(const half* A, const half* B, float (&d)[4]) {
  const auto descriptor = [](const half* at, uint64_t leading, uint64_t stride) {
    return static_cast<uint64_t>((shared_at(at) & 0x3ffff) >> 4) | leading >> 4 << 16 | stride >> 4 << 32;
  };
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(descriptor(A, 128, 256)), "l"(descriptor(B, 128, 256)));
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               :
               : "memory");
}

// correct, RACE 1 128 0
PAIR(operands_of_a_warpgroup, operands_without_fence) {
  __shared__ alignas(128) half A[64 * 16], B[16 * 8];
  for (int i = threadIdx.x; i < 64 * 16; i += 128) A[i] = __float2half(in[i]);  // fault
  B[threadIdx.x] = __float2half(in[threadIdx.x]);  // fault
  if (RIGHT) fence_proxy();
  __syncthreads();
  float d[4] = {};
  multiply_group(A, B, d);
  for (int k = 0; k < 4; ++k) out[threadIdx.x * 4 + k] = d[k];
}

// Rows of A beyond the fortieth are never written, and these rows of the product are not used.
// correct 1 128 0
PROGRAM(ragged_rows_of_a_warpgroup) {
  __shared__ alignas(128) half A[64 * 16], B[16 * 8];
  const int rows = n - 24;
  for (int i = threadIdx.x; i < 64 * 16; i += 128)
    if (i / 128 * 8 + i % 64 / 8 < rows) A[i] = __float2half(in[i]);
  B[threadIdx.x] = __float2half(in[threadIdx.x]);
  fence_proxy();
  __syncthreads();
  float d[4] = {};
  multiply_group(A, B, d);
  for (int k = 0; k < 4; ++k) {
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + k / 2 * 8;
    if (row < rows) out[row * 8 + threadIdx.x % 4 * 2 + k % 2] = d[k];
  }
}

// UNINITIALISED_READ 1 128 0
PROGRAM(ragged_columns_of_a_warpgroup) {
  __shared__ alignas(128) half A[64 * 16], B[16 * 8];
  for (int i = threadIdx.x; i < 64 * 16; i += 128) A[i] = __float2half(in[i]);
  if (threadIdx.x % 64 / 8 < 7) B[threadIdx.x] = __float2half(in[threadIdx.x]);
  fence_proxy();
  __syncthreads();
  float d[4] = {};
  multiply_group(A, B, d);
  for (int k = 0; k < 4; ++k) out[threadIdx.x * 4 + k] = d[k];  // fault
}

// --- some of a block's warps -----------------------------------------------------------------------------------------

template <int ID, int THREADS>
__device__ __forceinline__ void sync_some() {
  asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}
template <int ID, int THREADS>
__device__ __forceinline__ void arrive_at() {
  asm volatile("bar.arrive %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}

// correct, RACE 1 128 0
PAIR(halves_with_barriers_of_their_own, halves_that_read_each_other) {
  __shared__ float part[128];
  const int half = threadIdx.x / 64;
  part[threadIdx.x] = in[threadIdx.x];  // fault
  if (half == 0)
    sync_some<1, 64>();
  else
    sync_some<2, 64>();
  out[threadIdx.x] = part[RIGHT ? half * 64 + 63 - threadIdx.x % 64 : 127 - threadIdx.x];  // fault
}

// correct, RACE 1 96 0
PAIR(handed_on_by_a_second_warp, handed_on_before_it_came) {
  __shared__ float part[32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) {
    part[lane] = in[lane];  // fault
    arrive_at<1, 64>();
  } else if (warp == 1) {
    if (!RIGHT) arrive_at<2, 64>();
    sync_some<1, 64>();
    if (RIGHT) arrive_at<2, 64>();
  } else {
    sync_some<2, 64>();
    out[lane] = part[31 - lane];  // fault
  }
}

// correct, RACE, RACE 1 64 0
TRIO(full_and_empty_by_name, full_by_name_and_never_empty, empty_before_it_is_read) {
  __shared__ float part[32];
  const int lane = threadIdx.x % 32;
  for (int k = 0; k < 4; ++k)
    if (threadIdx.x < 32) {
      if (FAULT != 1 && k > 0) sync_some<2, 64>();
      part[lane] = in[k * 32 + lane];  // fault
      FAULT == 1 ? sync_some<1, 64>() : arrive_at<1, 64>();
    } else {
      sync_some<1, 64>();
      if (FAULT == 2 && k < 3) arrive_at<2, 64>();
      out[k * 32 + lane] = part[31 - lane];  // fault
      if (FAULT == 0 && k < 3) arrive_at<2, 64>();
    }
}

// Half a block votes.
// correct 1 128 0
PROGRAM(vote_of_half_a_block) {
  __shared__ float part[64];
  if (threadIdx.x >= 64) return;
  part[threadIdx.x] = in[threadIdx.x];
  int all;
  asm volatile(
      "{\n.reg .pred p, q;\nsetp.gt.f32 p, %1, 0f00000000;\nbarrier.sync 3, 64;\nbarrier.red.and.pred q, 4, 64, p;\n"
      "selp.s32 %0, 1, 0, q;\n}"
      : "=r"(all)
      : "f"(in[threadIdx.x])
      : "memory");
  out[threadIdx.x] = part[63 - threadIdx.x] + all;
}

// RACE 1 128 0
PROGRAM(vote_of_the_other_half) {
  __shared__ float part[64];
  if (threadIdx.x >= 64) {
    part[threadIdx.x - 64] = in[threadIdx.x];  // fault
    sync_some<2, 64>();
    return;
  }
  int all;
  asm volatile(
      "{\n.reg .pred p, q;\nsetp.gt.f32 p, %1, 0f00000000;\nbarrier.red.and.pred q, 4, 64, p;\n"
      "selp.s32 %0, 1, 0, q;\n}"
      : "=r"(all)
      : "f"(in[threadIdx.x])
      : "memory");
  out[threadIdx.x] = part[63 - threadIdx.x] + all;  // fault
}

// Two warps write device memory, and the third reads it.
// correct 1 96 0
PROGRAM(device_memory_after_a_named_barrier) {
  const int warp = threadIdx.x / 32;
  if (warp < 2) {
    scratch[threadIdx.x] = threadIdx.x;
    arrive_at<1, 96>();
  } else {
    sync_some<1, 96>();
    out[threadIdx.x - 64] = scratch[threadIdx.x - 64] + scratch[threadIdx.x - 32];
  }
}

// RACE 1 96 0
PROGRAM(device_memory_of_a_warp_that_did_not_come) {
  const int warp = threadIdx.x / 32;
  if (warp < 2) scratch[threadIdx.x] = threadIdx.x;  // fault
  if (warp == 1) arrive_at<1, 64>();
  if (warp < 2) return;
  sync_some<1, 64>();
  out[threadIdx.x - 64] = scratch[threadIdx.x - 64] + scratch[threadIdx.x - 32];  // fault
}

// --- mbarriers -------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void arrive_on(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_at(barrier)) : "memory");
}
__device__ __forceinline__ void arrive_relaxed_on(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" ::"r"(shared_at(barrier)) : "memory");
}
__device__ __forceinline__ void init_barriers(uint64_t* barriers, int count, int arrivals) {
  if (threadIdx.x == 0) {
    for (int n = 0; n < count; ++n) init_barrier(barriers + n, arrivals);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
}

// correct, RACE 1 96 0
PAIR(each_reader_waits, one_reader_waits) {
  __shared__ float part[32];
  __shared__ uint64_t barrier;
  init_barriers(&barrier, 1, 32);
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    part[lane] = in[lane];  // fault
    arrive_on(&barrier);
  } else {
    if (RIGHT || threadIdx.x < 64) wait_for(&barrier, 0);
    out[threadIdx.x] = part[31 - lane];  // fault
  }
}

// correct, RACE, RACE 1 64 0
TRIO(arrivals_with_a_fence, written_after_arriving, arrivals_that_order_nothing) {
  __shared__ float part[32];
  __shared__ uint64_t barrier;
  init_barriers(&barrier, 1, 32);
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    if (FAULT == 1) arrive_on(&barrier);
    part[lane] = in[lane];  // fault
    if (FAULT == 0) __threadfence_block();
    if (FAULT != 1) arrive_relaxed_on(&barrier);
  } else {
    wait_for(&barrier, 0);
    out[threadIdx.x] = part[31 - lane];  // fault
  }
}

// correct, RACE, RACE 1 96 0
TRIO(ring_of_two_stages, ring_that_is_filled_early, ring_that_is_given_back_early) {
  __shared__ alignas(128) float tile[2][64];
  __shared__ uint64_t full[2], empty[2];
  init_barriers(full, 2, 1);
  init_barriers(empty, 2, 64);
  if (threadIdx.x == 0)
    for (int k = 0; k < 6; ++k) {
      if (FAULT != 1) wait_for(&empty[k % 2], (k / 2 & 1) ^ 1);
      if (FAULT == 1 && k > 2) wait_for(&empty[(k - 1) % 2], ((k - 1) / 2 & 1) ^ 1);
      load_bulk(tile[k % 2], in + k * 64, sizeof tile[0], &full[k % 2]);  // fault
    }
  if (threadIdx.x < 32) return;
  const int i = threadIdx.x - 32;
  for (int k = 0; k < 6; ++k) {
    wait_for(&full[k % 2], k / 2 & 1);
    if (FAULT == 2) arrive_on(&empty[k % 2]);
    out[k * 64 + i] = tile[k % 2][63 - i];  // fault
    if (FAULT != 2) arrive_on(&empty[k % 2]);
  }
}

// In the faulty one, the second warp of readers waits for the keys only. The values are there because the first warp
// waited for both.
// correct, RACE 1 96 0
PAIR(two_tiles_with_barriers_of_their_own, one_tile_waited_for_by_another_warp) {
  __shared__ alignas(128) float keys[32], values[32];
  __shared__ uint64_t barriers[2];
  init_barriers(barriers, 2, 1);
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    load_bulk(keys, in, sizeof keys, &barriers[0]);
    load_bulk(values, in + 32, sizeof values, &barriers[1]);  // fault
  }
  if (threadIdx.x < 32) return;
  if (!RIGHT && threadIdx.x < 64) wait_for(&barriers[1], 0);
  wait_for(&barriers[0], 0);
  const float key = keys[31 - lane];
  if (RIGHT) wait_for(&barriers[1], 0);
  out[threadIdx.x] = key * values[31 - lane];  // fault
}

// RACE 1 64 0
PROGRAM(waited_for_the_phase_before) {
  __shared__ alignas(128) float tile[64];
  __shared__ uint64_t barrier;
  init_barriers(&barrier, 1, 1);
  if (threadIdx.x == 0) load_bulk(tile, in, sizeof tile, &barrier);  // fault
  wait_for(&barrier, 1);
  out[threadIdx.x] = tile[63 - threadIdx.x];  // fault
}

// correct, RACE 1 64 0
PAIR(copies_that_arrive, threads_that_arrive_before_their_copies) {
  __shared__ float tile[64];
  __shared__ uint64_t barrier;
  init_barriers(&barrier, 1, 64);
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], 4);  // fault
  if (RIGHT)
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_at(&barrier)) : "memory");
  else
    arrive_on(&barrier);
  wait_for(&barrier, 0);
  out[threadIdx.x] = tile[63 - threadIdx.x];  // fault
}

// --- locks and flags of a block --------------------------------------------------------------------------------------

// correct, RACE 1 128 0
PAIR(lock_of_a_block, lock_given_back_early) {
  __shared__ int lock, sum;
  if (threadIdx.x == 0) lock = sum = 0;
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    while (atomicCAS_block(&lock, 0, 1) != 0) {}
    __threadfence_block();
    if (RIGHT) sum += threadIdx.x;
    __threadfence_block();
    atomicExch_block(&lock, 0);
    if (!RIGHT) sum += threadIdx.x;  // fault
  }
  __syncthreads();
  out[threadIdx.x] = sum;
}

// correct, RACE 1 128 0
PAIR(last_warp_adds_up, last_warp_adds_up_unfenced) {
  __shared__ float part[128];
  __shared__ int arrived;
  if (threadIdx.x == 0) arrived = 0;
  __syncthreads();
  part[threadIdx.x] = in[threadIdx.x];  // fault
  if (RIGHT) __threadfence_block();
  __syncwarp();
  int before = 0;
  if (threadIdx.x % 32 == 0) before = atomicAdd(&arrived, 1);
  before = __shfl_sync(ALL, before, 0);
  if (before < 3) return;
  if (RIGHT) __threadfence_block();
  for (int k = 0; k < 4; ++k) out[k * 32 + threadIdx.x % 32] = part[k * 32 + 31 - threadIdx.x % 32];  // fault
}

// --- operands and buffers of asynchronous engines --------------------------------------------------------------------

__device__ __forceinline__ void start_unfenced(const half* A, const half* B, float (&d)[4]) {
  const auto descriptor = [](const half* at, uint64_t leading, uint64_t stride) {
    return static_cast<uint64_t>((shared_at(at) & 0x3ffff) >> 4) | leading >> 4 << 16 | stride >> 4 << 32;
  };
  asm volatile(
      "{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(descriptor(A, 128, 256)),
        "l"(descriptor(B, 128, 256)));  // fault in changed_without_a_fence, first_product_without_a_fence
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void start_group(const half* A, const half* B, float (&d)[4]) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  start_unfenced(A, B, d);
}
__device__ __forceinline__ void wait_for_group(float (&d)[4]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
}

// correct 1 128 0
PROGRAM(operands_used_again_after_the_wait) {
  __shared__ alignas(128) half A[64 * 16], B[16 * 8];
  for (int i = threadIdx.x; i < 64 * 16; i += 128) A[i] = __float2half(in[i]);
  float d[4] = {};
  for (int k = 0; k < 2; ++k) {
    B[threadIdx.x] = __float2half(in[k * 128 + threadIdx.x]);
    fence_proxy();
    __syncthreads();
    start_group(A, B, d);
    wait_for_group(d);
    __syncthreads();
  }
  for (int k = 0; k < 4; ++k) out[threadIdx.x * 4 + k] = d[k];
}

// RACE 1 128 0
PROGRAM(operands_used_again_before_the_wait) {
  __shared__ alignas(128) half A[64 * 16], B[16 * 8];
  for (int i = threadIdx.x; i < 64 * 16; i += 128) A[i] = __float2half(in[i]);
  B[threadIdx.x] = __float2half(in[threadIdx.x]);
  fence_proxy();
  __syncthreads();
  float d[4] = {};
  start_group(A, B, d);  // fault
  B[threadIdx.x] = __float2half(in[128 + threadIdx.x]);  // fault
  wait_for_group(d);
  for (int k = 0; k < 4; ++k) out[threadIdx.x * 4 + k] = d[k];
}

// A barrier does not wait for products.
// RACE 1 128 0
PROGRAM(operands_used_again_after_a_barrier) {
  __shared__ alignas(128) half A[64 * 16], B[16 * 8];
  for (int i = threadIdx.x; i < 64 * 16; i += 128) A[i] = __float2half(in[i]);
  B[threadIdx.x] = __float2half(in[threadIdx.x]);
  fence_proxy();
  __syncthreads();
  float d[4] = {};
  start_group(A, B, d);  // fault
  __syncthreads();
  B[threadIdx.x] = __float2half(in[128 + threadIdx.x]);  // fault
  wait_for_group(d);
  for (int k = 0; k < 4; ++k) out[threadIdx.x * 4 + k] = d[k];
}

// correct, RACE 1 160 0
PAIR(operands_given_back_after_the_wait, operands_given_back_before_the_wait) {
  __shared__ alignas(128) half A[64 * 16], B[16 * 8];
  __shared__ uint64_t full, empty;
  init_barriers(&full, 1, 1);
  init_barriers(&empty, 1, 1);
  for (int i = threadIdx.x; i < 64 * 16; i += 160) A[i] = __float2half(in[i]);
  fence_proxy();
  __syncthreads();
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128)
      for (int k = 0; k < 3; ++k) {
        wait_for(&empty, k & 1 ^ 1);
        load_bulk(B, in + 64 * k, sizeof B, &full);  // fault
      }
    return;
  }
  float d[4] = {};
  for (int k = 0; k < 3; ++k) {
    wait_for(&full, k & 1);
    start_group(A, B, d);  // fault
    if (!RIGHT && threadIdx.x == 0) arrive_on(&empty);
    wait_for_group(d);
    if (RIGHT && threadIdx.x == 0) arrive_on(&empty);
  }
  for (int k = 0; k < 4; ++k) out[threadIdx.x * 4 + k] = d[k];
}

template <class First, class Second>
__device__ __forceinline__ void multiply_twice(const float* in, float* out, First first, Second second) {
  __shared__ alignas(128) half A[64 * 16], B[16 * 8];
  for (int i = threadIdx.x; i < 64 * 16; i += 128) A[i] = __float2half(in[i]);
  B[threadIdx.x] = __float2half(in[threadIdx.x]);
  fence_proxy();
  __syncthreads();
  float d[4] = {};
  first(A, B, d);
  wait_for_group(d);
  for (float& each : d) each *= in[1];
  second(A, B, d);
  wait_for_group(d);
  for (int k = 0; k < 4; ++k) out[threadIdx.x * 4 + k] = d[k];
}

// correct 1 128 0
PROGRAM(changed_before_a_fence) { multiply_twice(in, out, start_group, start_group); }

// UNFENCED_PRODUCT 1 128 0
PROGRAM(changed_without_a_fence) { multiply_twice(in, out, start_group, start_unfenced); }

// UNFENCED_PRODUCT 1 128 0
PROGRAM(first_product_without_a_fence) { multiply_twice(in, out, start_unfenced, start_group); }

// Products that add to the same registers need no fence between them.
// correct 1 128 0
PROGRAM(products_one_after_another) {
  __shared__ alignas(128) half A[64 * 16], B[16 * 8];
  for (int i = threadIdx.x; i < 64 * 16; i += 128) A[i] = __float2half(in[i]);
  B[threadIdx.x] = __float2half(in[threadIdx.x]);
  fence_proxy();
  __syncthreads();
  float d[4] = {};
  start_group(A, B, d);
  start_unfenced(A, B, d);
  wait_for_group(d);
  start_unfenced(A, B, d);
  wait_for_group(d);
  for (int k = 0; k < 4; ++k) out[threadIdx.x * 4 + k] = d[k];
}

// Another warp writes the buffer again, after the warp that waited.
// correct, RACE 1 64 0
PAIR(buffer_for_another_warp, buffer_for_another_warp_too_early) {
  __shared__ alignas(128) float tile[32];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    tile[lane] = in[lane];  // fault
    fence_proxy();
    __syncwarp();
    if (!RIGHT) arrive_at<1, 64>();
    if (lane == 0) {
      store_bulk(out, tile, sizeof tile);  // fault
      wait_for_reads();
    }
    __syncwarp();
    if (RIGHT) arrive_at<1, 64>();
  } else {
    sync_some<1, 64>();
    tile[lane] = in[32 + lane];  // fault
    fence_proxy();
    __syncwarp();
    if (lane == 0) {
      store_bulk(out + 32, tile, sizeof tile);
      wait_for_reads();
    }
  }
}

// correct, RACE 1 64 0
PAIR(fenced_by_the_warp_that_copies, fenced_before_the_barrier) {
  __shared__ alignas(128) float tile[32];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    tile[lane] = in[lane];  // fault
    arrive_at<1, 64>();
  } else {
    if (!RIGHT) fence_proxy();
    sync_some<1, 64>();
    if (RIGHT) fence_proxy();
    if (lane == 0) {
      store_bulk(out, tile, sizeof tile);  // fault
      wait_for_reads();
    }
  }
}

// --- several accesses to neighbouring bytes --------------------------------------------------------------------------

// Lanes read their elements of a row with several instructions before they write the first one back.
// correct, RACE 1 32 0
PAIR(rows_scaled_in_place, rows_scaled_by_other_lanes) {
  __shared__ float rows[4 * 72];
  const unsigned member = threadIdx.x % 8;
  float* row = rows + threadIdx.x / 8 * 72;
  for (unsigned k = threadIdx.x; k < 4 * 72; k += 32) rows[k] = in[k % 256];
  __syncwarp();
  float own[4];
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) own[k] = row[8 * k + member];  // fault
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) row[8 * k + (RIGHT || k != 2 ? member : member ^ 1)] = 2 * own[k];  // fault
  __syncwarp();
  out[threadIdx.x] = row[member] + row[8 + member] + row[16 + member] + row[24 + member];
}

// One block reads 16 bytes at a time, another writes four of them.
// correct, RACE 2 32 0
PAIR(vectors_of_blocks, vectors_changed_by_other_blocks) {
  const unsigned at = blockIdx.x * 32 + threadIdx.x;
  const int4 own = reinterpret_cast<int4*>(scratch)[at];  // fault
  scratch[4 * (RIGHT ? at : at ^ 32) + 2] = own.x + own.y + own.z + own.w + 1;  // fault
}

// --- clusters --------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void arrive_in_cluster() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
__device__ __forceinline__ void wait_in_cluster() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

// correct, RACE 2 64 0
PAIR_OF_CLUSTER(barrier_of_a_cluster, written_between_arrival_and_wait) {
  __shared__ float part[64];
  if (!RIGHT) arrive_in_cluster();
  part[threadIdx.x] = in[threadIdx.x];  // fault
  if (RIGHT) arrive_in_cluster();
  wait_in_cluster();
  out[blockIdx.x * 64 + threadIdx.x] = part[63 - threadIdx.x];  // fault
}
