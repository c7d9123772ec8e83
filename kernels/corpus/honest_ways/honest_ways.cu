// Honest kernels that do what a dishonest one might: they write workspaces, count, read clocks, add in an order that
// changes, round weights. corpus.yaml says what each number does; all of them must pass.
#include "corpus/row.cuh"

constexpr int PARTS = 4;

__device__ __forceinline__ int first_key(const Row& row, int part) { return (int)((long long)row.keys * part / PARTS); }

__device__ __forceinline__ void merge(RowState& all, const RowState& part) {
  if (part.row_sum == 0.0f) return;
  const float new_max = fmaxf(all.row_max, part.row_max);
  const float alpha = exp2f(all.row_max - new_max), beta = exp2f(part.row_max - new_max);
  all.row_max = new_max;
  all.row_sum = all.row_sum * alpha + part.row_sum * beta;
#pragma unroll
  for (int d = 0; d < HEAD_DIM; ++d) all.O_rmem[d] = all.O_rmem[d] * alpha + part.O_rmem[d] * beta;
}

// Attends to one key after another, with another exponential or other weights.
template <class Exp2, class Weight>
__device__ __forceinline__ void attend_by(const Row& row, Exp2 exp2_of, Weight weight_of) {
  RowState state;
  for (int key = 0; key < row.keys; ++key) {
    float score = 0.0f;
#pragma unroll
    for (int d = 0; d < HEAD_DIM; ++d)
      score = fmaf(__half2float(row.Q[d]), __half2float(row.K[(size_t)key * HEAD_DIM + d]), score);
    score *= row.scale * LOG2_E;
    const float new_max = fmaxf(state.row_max, score);
    const float alpha = exp2_of(state.row_max - new_max), p = exp2_of(score - new_max);
    state.row_max = new_max;
    state.row_sum = state.row_sum * alpha + p;
#pragma unroll
    for (int d = 0; d < HEAD_DIM; ++d)
      state.O_rmem[d] = state.O_rmem[d] * alpha + weight_of(p) * __half2float(row.V[(size_t)key * HEAD_DIM + d]);
  }
  store_row(row.O, state);
}

struct Memory {
  RowState* parts;     // [B * H * S, PARTS], uninitialised
  unsigned* tickets;   // [B * H * S], zeroed
  float* sums;         // [B * H * S, HEAD_DIM + 1], zeroed
  unsigned long long* notes;  // [B * H * S], uninitialised
};

#if WAY == 1  // last_part_merges: one semaphore per row
__device__ void attend(const Row& row, const Memory& memory) {
  const int part = blockIdx.z;
  memory.parts[(size_t)row.number * PARTS + part] = states_of_keys(row, first_key(row, part), first_key(row, part + 1));
  __threadfence();
  if (atomicAdd(memory.tickets + row.number, 1u) != PARTS - 1) return;
  __threadfence();
  RowState all;
  for (int each = 0; each < PARTS; ++each) merge(all, memory.parts[(size_t)row.number * PARTS + each]);
  store_row(row.O, all);
}

#elif WAY == 2  // two_launches: one computes parts, the other merges them
__device__ void attend(const Row& row, const Memory& memory) {
  const int part = blockIdx.z;
  memory.parts[(size_t)row.number * PARTS + part] = states_of_keys(row, first_key(row, part), first_key(row, part + 1));
}
__device__ void finish(const Row& row, const Memory& memory) {
  RowState all;
  for (int each = 0; each < PARTS; ++each) merge(all, memory.parts[(size_t)row.number * PARTS + each]);
  store_row(row.O, all);
}

#elif WAY == 3  // atomic_sums: adds in any order, so that no two runs have the same bits
__device__ void attend(const Row& row, const Memory& memory) {
  const int part = blockIdx.z;
  const RowState state = states_of_keys(row, first_key(row, part), first_key(row, part + 1));
  if (state.row_sum == 0.0f) return;
  // Every part computes the row's maximum itself.
  const float factor = exp2f(state.row_max - states_of_keys(row, 0, row.keys).row_max);
  float* sums = memory.sums + (size_t)row.number * (HEAD_DIM + 1);
  for (int d = 0; d < HEAD_DIM; ++d) atomicAdd(sums + d, state.O_rmem[d] * factor);
  atomicAdd(sums + HEAD_DIM, state.row_sum * factor);
}
__device__ void finish(const Row& row, const Memory& memory) {
  const float* sums = memory.sums + (size_t)row.number * (HEAD_DIM + 1);
  for (int d = 0; d < HEAD_DIM; ++d) row.O[d] = __float2half_rn(sums[d] / sums[HEAD_DIM]);
}

#elif WAY == 4  // timestamps: when each row began and ended
__device__ void attend(const Row& row, const Memory& memory) {
  const unsigned long long start = nanoseconds();
  honest(row);
  memory.notes[row.number] = nanoseconds() - start;
}

#elif WAY == 5  // where_it_ran: multiprocessor and launch of each row
__device__ void attend(const Row& row, const Memory& memory) {
  honest(row);
  memory.notes[row.number] = launch_number() << 16 | multiprocessor();
}

#elif WAY == 6  // constant_memory
__constant__ float log2_e[2] = {LOG2_E, 1.0f};
__device__ void attend(const Row& row, const Memory&) {
  Row scaled = row;
  scaled.scale = row.scale * log2_e[0] / LOG2_E * log2_e[1];
  honest(scaled);
}

#elif WAY == 7  // twice: writes every row twice
__device__ void attend(const Row& row, const Memory&) {
  honest(row);
  honest(row);
}

#elif WAY == 8  // local_array: weights of a tile, indexed at run time
__device__ void attend(const Row& row, const Memory&) {
  float weights[16];
  RowState state;
  for (int key = 0; key < row.keys; key += 16) {
    const int count = min(16, row.keys - key);
    float tile_max = state.row_max;
    for (int i = 0; i < count; ++i) {
      weights[i] = states_of_keys(row, key + i, key + i + 1).row_max;
      tile_max = fmaxf(tile_max, weights[i]);
    }
    const float alpha = exp2f(state.row_max - tile_max);
    state.row_max = tile_max;
    state.row_sum *= alpha;
    for (int d = 0; d < HEAD_DIM; ++d) state.O_rmem[d] *= alpha;
    for (int i = count - 1; i >= 0; --i) {
      const float p = exp2f(weights[i] - tile_max);
      state.row_sum += p;
      for (int d = 0; d < HEAD_DIM; ++d) state.O_rmem[d] += p * __half2float(row.V[(size_t)(key + i) * HEAD_DIM + d]);
    }
  }
  store_row(row.O, state);
}

#elif WAY == 9  // two_passes: the first finds the maximum
__device__ void attend(const Row& row, const Memory&) {
  RowState state;
  state.row_max = states_of_keys(row, 0, row.keys).row_max;
  attend_keys(state, row.Q, row.K, row.V, 0, row.keys, row.scale);
  store_row(row.O, state);
}

#elif WAY == 10  // lazy_rescaling: rescales only if the maximum grows by more than 2^8
__device__ void attend(const Row& row, const Memory&) {
  RowState state;
  for (int key = 0; key < row.keys; ++key) {
    const float score = states_of_keys(row, key, key + 1).row_max;
    if (score > state.row_max + 8.0f) {
      const float alpha = exp2f(state.row_max - score);
      state.row_max = score;
      state.row_sum *= alpha;
      for (int d = 0; d < HEAD_DIM; ++d) state.O_rmem[d] *= alpha;
    }
    const float p = exp2f(score - state.row_max);
    state.row_sum += p;
    for (int d = 0; d < HEAD_DIM; ++d) state.O_rmem[d] += p * __half2float(row.V[(size_t)key * HEAD_DIM + d]);
  }
  store_row(row.O, state);
}

#elif WAY == 11  // skipped_zeros: skips a weight that is zero in fp32
__device__ void attend(const Row& row, const Memory&) {
  RowState state;
  for (int key = 0; key < row.keys; ++key) {
    const float score = states_of_keys(row, key, key + 1).row_max;
    if (exp2f(score - state.row_max) == 0.0f && state.row_sum > 0.0f) continue;
    attend_keys(state, row.Q, row.K, row.V, key, key + 1, row.scale);
  }
  store_row(row.O, state);
}

#elif WAY == 12  // half_weights: in the format that tensor cores take
__device__ void attend(const Row& row, const Memory&) {
  attend_by(row, [](float x) { return exp2f(x); }, [](float p) { return __half2float(__float2half_rn(p)); });
}

#elif WAY == 13  // polynomial: 2^x on FMA units, to the third degree, as in FlashAttention 4
__device__ void attend(const Row& row, const Memory&) {
  const auto exp2_of = [](float x) {
    if (x < -126.0f) return 0.0f;
    const float whole = floorf(x), part = x - whole;
    const float value = fmaf(fmaf(fmaf(0.07711909f, part, 0.22756439f), part, 0.69514614f), part, 1.0f);
    return value * __uint_as_float((unsigned)((int)whole + 127) << 23);
  };
  attend_by(row, exp2_of, [](float p) { return __half2float(__float2half_rn(p)); });
}

#elif WAY == 14  // last_key_first
__device__ void attend(const Row& row, const Memory&) {
  RowState state;
  for (int key = row.keys - 1; key >= 0; --key) attend_keys(state, row.Q, row.K, row.V, key, key + 1, row.scale);
  store_row(row.O, state);
}

#elif WAY == 15  // called_function: calls a function with a stack
__device__ __noinline__ RowState part_of(const Row& row, int first, int end) { return states_of_keys(row, first, end); }
__device__ void attend(const Row& row, const Memory&) {
  RowState all;
  for (int part = 0; part < PARTS; ++part) merge(all, part_of(row, first_key(row, part), first_key(row, part + 1)));
  store_row(row.O, all);
}

#elif WAY == 16  // compensated: sums that track their rounding errors
__device__ void attend(const Row& row, const Memory&) {
  const float row_max = states_of_keys(row, 0, row.keys).row_max;
  RowState state;
  float lost = 0.0f;
  for (int key = 0; key < row.keys; ++key) {
    const float p = exp2f(states_of_keys(row, key, key + 1).row_max - row_max);
    const float addend = p - lost, sum = state.row_sum + addend;
    lost = (sum - state.row_sum) - addend;
    state.row_sum = sum;
    for (int d = 0; d < HEAD_DIM; ++d) state.O_rmem[d] += p * __half2float(row.V[(size_t)key * HEAD_DIM + d]);
  }
  store_row(row.O, state);
}

#elif WAY == 17  // work_queue: a thread that is ready takes the next row
__device__ void attend(const Row& row, const Memory& memory) {
  const unsigned next = atomicAdd(memory.tickets, 1u);
  const int head = next / row.seq_len, index = next % row.seq_len;
  const size_t mine = (size_t)row.number * HEAD_DIM, place = (size_t)next * HEAD_DIM;
  const size_t my_head = (size_t)blockIdx.y * row.seq_len * HEAD_DIM, its = (size_t)head * row.seq_len * HEAD_DIM;
  Row taken = row;
  taken.Q = row.Q - mine + place;
  taken.O = row.O - mine + place;
  taken.K = row.K - my_head + its;
  taken.V = row.V - my_head + its;
  taken.index = index;
  taken.keys = row.causal ? index + 1 : row.seq_len;
  honest(taken);
}

#elif WAY == 18  // checked_output: reads its output, and writes it again if it is NaN
__device__ void attend(const Row& row, const Memory&) {
  honest(row);
  if (__hisnan(row.O[0])) honest(row);
}
#endif

extern "C" __global__ void honest_ways(const half* Q, const half* K, const half* V, half* O, int seq_len, float scale,
                                       int causal, RowState* parts, unsigned* tickets, float* sums,
                                       unsigned long long* notes) {
  const Row row = row_of_thread(Q, K, V, O, seq_len, scale, causal);
  if (row.index < seq_len) attend(row, {parts, tickets, sums, notes});
}

#if WAY != 2 && WAY != 3
__device__ void finish(const Row&, const Memory&) {}
#endif

// The second kernel of variants that divide rows into parts.
extern "C" __global__ void honest_ways_finish(const half* Q, const half* K, const half* V, half* O, int seq_len,
                                              float scale, int causal, RowState* parts, unsigned* tickets, float* sums,
                                              unsigned long long* notes) {
  const Row row = row_of_thread(Q, K, V, O, seq_len, scale, causal);
  if (row.index < seq_len) finish(row, {parts, tickets, sums, notes});
}
