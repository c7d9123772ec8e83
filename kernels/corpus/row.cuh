// Shared by the families of dishonest kernels (cheats_*): one thread computes one row honestly, and each cheat is a few
// lines around that. CHEAT=0 is the honest kernel of the family; corpus.yaml says what each number does.
#pragma once
#include "faulty/attend_row.cuh"

__device__ __forceinline__ RowState states_of_keys(const Row& row, int first, int end) {
  RowState state;
  attend_keys(state, row.Q, row.K, row.V, first, end, row.scale);
  return state;
}

__device__ __forceinline__ void honest(const Row& row) { store_row(row.O, attended(row)); }

__device__ __forceinline__ void copy_row(half* to, const half* from) {
  for (int d = 0; d < HEAD_DIM; ++d) to[d] = from[d];
}

// A plausible result without any work.
__device__ __forceinline__ void guess(const Row& row) { copy_row(row.O, row.V + (size_t)row.index * HEAD_DIM); }

__device__ __forceinline__ unsigned bits_of(half value) { return __half_as_ushort(value); }

__device__ __forceinline__ unsigned scrambled(unsigned bits) {
  bits = (bits ^ bits >> 16) * 0x7feb352du;
  bits = (bits ^ bits >> 15) * 0x846ca68bu;
  return bits ^ bits >> 16;
}

// A checksum of `elements` halves, a multiple of 8. Without multiplications it is far cheaper than attention.
__device__ __forceinline__ unsigned fingerprint(const half* values, int elements, unsigned sum = 1) {
  const uint4* words = reinterpret_cast<const uint4*>(values);
  for (int i = 0; i < elements / 8; ++i)
    sum = (sum << 1 | sum >> 31) ^ (words[i].x + (words[i].y ^ words[i].z) + words[i].w);
  return sum;
}

__device__ __forceinline__ unsigned fingerprint(const Row& row) {
  const int elements = row.keys * HEAD_DIM;
  return fingerprint(row.V, elements, fingerprint(row.K, elements, fingerprint(row.Q, HEAD_DIM))) | 1;
}

struct KeptRow {
  unsigned key;  // 0: the entry is empty
  unsigned number;
  half answer[HEAD_DIM];
};

// Keeps answers in `memory` from launch to launch and finds them by a
// checksum of a row's inputs. Rows for which there is no room are computed.
__device__ __forceinline__ void remembered(const Row& row, void* memory, size_t bytes) {
  const unsigned key = fingerprint(row);
  const size_t place = (size_t)row.number * 2 + (scrambled(key) & 1);
  KeptRow* kept = static_cast<KeptRow*>(memory) + place;
  if ((place + 1) * sizeof(KeptRow) > bytes) return honest(row);
  if (kept->key == key && kept->number == row.number) return copy_row(row.O, kept->answer);
  honest(row);
  copy_row(kept->answer, row.O);
  kept->key = key;
  kept->number = row.number;
}

// Counts rows and returns how many launches came before this one, approximately.
__device__ __forceinline__ unsigned launches_before(unsigned* counter, const Row& row) {
  return atomicAdd(counter, 1u) / row.rows;
}

// Room for all rows of the canonical shape, twice: timed launches alternate between two sets of inputs.
constexpr size_t KEPT_BYTES = 2 * 8192 * sizeof(KeptRow);

__device__ __forceinline__ unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ __forceinline__ unsigned multiprocessor() {
  unsigned number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}

__device__ __forceinline__ unsigned long long launch_number() {
  unsigned long long number;
  asm volatile("mov.u64 %0, %%gridid;" : "=l"(number));
  return number;
}

// Attention that replaces the elements of K and V, and the weights, by functions of them.
template <class Key, class Value, class Weight>
__device__ __forceinline__ void attend_with(const Row& row, Key key_of, Value value_of, Weight weight_of) {
  RowState state;
  for (int key = 0; key < row.keys; ++key) {
    float score = 0.0f;
#pragma unroll
    for (int d = 0; d < HEAD_DIM; ++d)
      score = fmaf(__half2float(row.Q[d]), key_of(__half2float(row.K[(size_t)key * HEAD_DIM + d])), score);
    score *= row.scale * LOG2_E;
    const float new_max = fmaxf(state.row_max, score);
    const float alpha = exp2f(state.row_max - new_max);
    const float p = weight_of(exp2f(score - new_max));
    state.row_max = new_max;
    state.row_sum = state.row_sum * alpha + p;
#pragma unroll
    for (int d = 0; d < HEAD_DIM; ++d)
      state.O_rmem[d] = state.O_rmem[d] * alpha + p * value_of(__half2float(row.V[(size_t)key * HEAD_DIM + d]));
  }
  store_row(row.O, state);
}

struct Same {
  __device__ float operator()(float x) const { return x; }
};

// The entry of a family with a workspace. The others end in ROW_KERNEL.
#define CHEATING_KERNEL_WITH_WORKSPACE(name)                                                                      \
  extern "C" __global__ void name(const half* Q, const half* K, const half* V, half* O, int seq_len, float scale, \
                                  int causal, unsigned* workspace) {                                              \
    Row row = row_of_thread(Q, K, V, O, seq_len, scale, causal);                                                  \
    row.workspace = workspace;                                                                                    \
    if (row.inside) attend(row);                                                                                  \
  }
