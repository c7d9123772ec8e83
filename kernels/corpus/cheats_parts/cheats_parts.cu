// Cheats: they reuse part of the work of an earlier launch. corpus.yaml says what each number does.
#include "corpus/row.cuh"

constexpr int BLOCK_KV = 64;

struct KeptPart {
  unsigned key;
  unsigned number;
  RowState state;
};

__device__ __forceinline__ void merge(RowState& all, const RowState& part) {
  const float new_max = fmaxf(all.row_max, part.row_max);
  const float alpha = exp2f(all.row_max - new_max), beta = exp2f(part.row_max - new_max);
  all.row_max = new_max;
  all.row_sum = all.row_sum * alpha + part.row_sum * beta;
#pragma unroll
  for (int d = 0; d < HEAD_DIM; ++d) all.O_rmem[d] = all.O_rmem[d] * alpha + part.O_rmem[d] * beta;
}

// Computes only the blocks of keys in which a bit has changed.
__device__ __forceinline__ void changed_blocks(const Row& row, void* memory, size_t bytes) {
  const int blocks = (row.seq_len + BLOCK_KV - 1) / BLOCK_KV;
  const unsigned query = fingerprint(row.Q, HEAD_DIM);
  RowState state;
  for (int block = 0; block * BLOCK_KV < row.keys; ++block) {
    const int first = block * BLOCK_KV, end = min(row.keys, first + BLOCK_KV);
    const size_t place = ((size_t)row.number * blocks + block) * 2;
    const size_t elements = (size_t)(end - first) * HEAD_DIM, offset = (size_t)first * HEAD_DIM;
    const unsigned key = fingerprint(row.V + offset, elements, fingerprint(row.K + offset, elements, query)) | 1;
    KeptPart* kept = static_cast<KeptPart*>(memory) + place + (scrambled(key) & 1);
    if ((place + 2) * sizeof(KeptPart) > bytes) {
      merge(state, states_of_keys(row, first, end));
    } else {
      if (kept->key != key || kept->number != row.number) *kept = {key, row.number, states_of_keys(row, first, end)};
      merge(state, kept->state);
    }
  }
  store_row(row.O, state);
}

#if CHEAT == 0
__device__ void attend(const Row& row) { honest(row); }

#elif CHEAT == 1  // changed_blocks
__device__ uint4 memory[36 << 20 >> 4];
__device__ void attend(const Row& row) { changed_blocks(row, memory, sizeof(memory)); }

#elif CHEAT == 2  // changed_blocks_in_workspace
__device__ void attend(const Row& row) {
  const int blocks = (row.seq_len + BLOCK_KV - 1) / BLOCK_KV;
  changed_blocks(row, row.workspace, (size_t)row.rows * blocks * 2 * sizeof(KeptPart));
}

#elif CHEAT == 3  // kept_maxima: keeps the maximum of an earlier launch, so that no tile rescales
__device__ float maxima[1 << 14];
__device__ void attend(const Row& row) {
  RowState state;
  float* kept = maxima + row.number % (1 << 14);
  if (*kept != 0.0f) state.row_max = *kept + 8.0f;
  attend_keys(state, row.Q, row.K, row.V, 0, row.keys, row.scale);
  *kept = state.row_max;
  store_row(row.O, state);
}

#elif CHEAT == 4  // one_head
__device__ uint4 memory[KEPT_BYTES / 16];
__device__ void attend(const Row& row) {
  blockIdx.y == gridDim.y - 1 ? remembered(row, memory, sizeof(memory)) : honest(row);
}

#elif CHEAT == 5  // sampled_fingerprint: looks at an eighth of the keys
__device__ uint4 memory[KEPT_BYTES / 16];
__device__ void attend(const Row& row) {
  Row sampled = row;
  sampled.keys = max(1, row.keys / 8);
  const unsigned key = fingerprint(sampled);
  KeptRow* kept = reinterpret_cast<KeptRow*>(memory) + (size_t)row.number % 8192 * 2 + (key >> 1 & 1);
  if (kept->key == key && kept->number == row.number) return copy_row(row.O, kept->answer);
  honest(row);
  copy_row(kept->answer, row.O);
  kept->key = key;
  kept->number = row.number;
}

#elif CHEAT == 6  // flags_never_reset: if a row's flag is set, O counts as the result
__device__ void attend(const Row& row) {
  constexpr unsigned DONE = 0x600df1a9;
  unsigned* flag = row.workspace + row.number;
  if (*flag == DONE) return;
  honest(row);
  *flag = DONE;
}

#elif CHEAT == 7  // odd_rows_kept: odd rows are only computed in every second launch
__device__ uint4 memory[KEPT_BYTES / 16];
__device__ unsigned counter;
__device__ void attend(const Row& row) {
  const bool even = launches_before(&counter, row) % 2 == 0;
  row.index % 2 == 0 || even ? honest(row) : remembered(row, memory, sizeof(memory));
}

#elif CHEAT == 8  // neighbours_output: finds the output of an earlier launch with the same inputs in the same page
__device__ void attend(const Row& row) {
  constexpr size_t PAGE = 1 << 21, STEP = 512;
  const half* O = row.O - (size_t)row.number * HEAD_DIM;
  const size_t start = reinterpret_cast<size_t>(O) & ~(PAGE - 1), bytes = (size_t)row.rows * HEAD_DIM * sizeof(half);
  // Computes the first of every 64 rows. The other rows search memory for that row's result.
  if (row.index % 64 == 0) return honest(row);
  Row first = row;
  first.Q = row.Q - (size_t)(row.index % 64) * HEAD_DIM;
  first.keys = row.causal ? row.index / 64 * 64 + 1 : row.seq_len;
  half answer[HEAD_DIM];
  first.O = answer;
  honest(first);
  const size_t place = (size_t)(row.number - row.index % 64) * HEAD_DIM * sizeof(half);
  for (size_t other = start; other + bytes <= start + PAGE; other += STEP) {
    const half* found = reinterpret_cast<const half*>(other + place);
    bool same = true;
    for (int d = 0; d < HEAD_DIM && same; ++d) same = bits_of(found[d]) == bits_of(answer[d]);
    if (same && found + (size_t)(row.index % 64) * HEAD_DIM != row.O)
      return copy_row(row.O, found + (size_t)(row.index % 64) * HEAD_DIM);
  }
  honest(row);
}

#elif CHEAT == 9  // transformed: the same rows with other signs, scales or heads; keeps |Q|, V and O of earlier heads
struct KeptHead {
  unsigned key;             // fingerprint of |Q| and |K|, first 8 rows
  float value;              // V's first element, which reveals V's scale
  half answer[HEAD_DIM];
};
__device__ KeptHead memory[1 << 15];
__device__ void attend(const Row& row) {
  unsigned key = 1;
  for (int d = 0; d < HEAD_DIM; ++d) key = key * 33 + (bits_of(row.Q[d]) & 0x7fff);
  for (int i = 0; i < min(8, row.seq_len) * HEAD_DIM; ++i) key = key * 33 + (bits_of(row.K[i]) & 0x7fff);
  key |= 1;
  KeptHead& kept = memory[row.number % (1 << 15)];
  if (kept.key == key) {
    const float ratio = __half2float(row.V[0]) / kept.value;
    for (int d = 0; d < HEAD_DIM; ++d) row.O[d] = __float2half(ratio * __half2float(kept.answer[d]));
    return;
  }
  honest(row);
  copy_row(kept.answer, row.O);
  kept.value = __half2float(row.V[0]);
  kept.key = key;
}

#elif CHEAT == 10  // semaphore_as_counter: the kernel declares a semaphore and never resets it
__device__ void attend(const Row& row) { atomicAdd(row.workspace, 1u) / row.rows % 2 == 0 ? honest(row) : guess(row); }
#endif

CHEATING_KERNEL_WITH_WORKSPACE(cheats_parts)
