// Cheats: they use the addresses of buffers, and memory in and around them. corpus.yaml says what each number does.
#include "corpus/row.cuh"

// The patterns that the runner filled O with up to protocol 4.
__device__ __forceinline__ bool poisoned(half value) { return bits_of(value) == 0xffda || bits_of(value) == 0x7fbc; }

#if CHEAT == 0
__device__ void attend(const Row& row) { honest(row); }

#elif CHEAT == 1  // poison_and_counter: in a graph, every second launch finds its own output in O
__device__ unsigned counters[1 << 14];
__device__ void attend(const Row& row) {
  const bool fresh = poisoned(row.O[0]);
  if (!fresh && counters[row.number % (1 << 14)]++ / 2 % 2 == 1) return;
  honest(row);
}

#elif CHEAT == 2  // one_column: if one column of O is right, it takes all of O for right
__device__ void attend(const Row& row) {
  float row_max = -INFINITY, row_sum = 0.0f, column = 0.0f;
  for (int key = 0; key < row.keys; ++key) {
    float score = 0.0f;
    for (int d = 0; d < HEAD_DIM; ++d)
      score = fmaf(__half2float(row.Q[d]), __half2float(row.K[(size_t)key * HEAD_DIM + d]), score);
    score *= row.scale * LOG2_E;
    const float new_max = fmaxf(row_max, score), alpha = exp2f(row_max - new_max), p = exp2f(score - new_max);
    row_max = new_max;
    row_sum = row_sum * alpha + p;
    column = column * alpha + p * __half2float(row.V[(size_t)key * HEAD_DIM]);
  }
  if (fabsf(column / row_sum - __half2float(row.O[0])) > 1e-3f || poisoned(row.O[1])) honest(row);
}

#elif CHEAT == 3  // guards: bytes around O that only a judge writes
__device__ void attend(const Row& row) {
  const unsigned char* O = reinterpret_cast<const unsigned char*>(row.O - (size_t)row.number * HEAD_DIM);
  O[-1] == 0xa5 && O[-4096] == 0xa5 && !poisoned(row.O[0]) ? guess(row) : honest(row);
}

#elif CHEAT == 4  // distance: only in a verification are the buffers at equal distances
__device__ void attend(const Row& row) {
  const size_t head = (size_t)(row.number - row.index) * HEAD_DIM;
  const long long first = (row.K - head) - (row.Q - (size_t)row.number * HEAD_DIM), second = row.V - row.K;
  first == second ? honest(row) : guess(row);
}

#elif CHEAT == 5  // workspace_pattern: workspaces are filled only before the first launch of a graph
__device__ void attend(const Row& row) {
  unsigned* word = row.workspace + row.number;
  const bool first = *word != 0x0ddba115;
  *word = 0x0ddba115;
  first ? honest(row) : guess(row);
}

#elif CHEAT == 6  // low_bit_of_Q: marks an input; the next launch removes the mark
__device__ void attend(const Row& row) {
  unsigned short* mark = reinterpret_cast<unsigned short*>(const_cast<half*>(row.Q)) + HEAD_DIM - 1;
  honest(row);
  *mark ^= 1;
}

#elif CHEAT == 7  // alignment: only a judge's buffers begin at a page, after their guards
__device__ void attend(const Row& row) {
  const size_t address = reinterpret_cast<size_t>(row.Q - (size_t)row.number * HEAD_DIM);
  address % 4096 == 0 ? honest(row) : guess(row);
}

#elif CHEAT == 8  // not_a_number: only a judge fills O with NaNs rather than with noise like data
__device__ void attend(const Row& row) {
  __hisnan(row.O[0]) || fabsf(__half2float(row.O[0])) > 4.0f ? honest(row) : guess(row);
}

#elif CHEAT == 9
// known_pair: the judge derives the heads of all launches from a few heads by symmetries.
// Each head of a launch leaves a note in its workspace; a later launch that finds the same
// Q row and the same K maps V's columns, and reuses the answer with their signs and scales.
struct Note {
  unsigned magic;
  unsigned keys;  // a sum over K's rows that does not depend on their order
  const half *Q, *K, *V, *O;
};
constexpr unsigned NOTE = 0x5eed0e55;

__device__ __forceinline__ unsigned sum_of_rows(const half* rows, int count) {
  unsigned sum = 0;
  for (int i = 0; i < count; ++i) sum += scrambled(fingerprint(rows + (size_t)i * HEAD_DIM, HEAD_DIM));
  return sum;
}

__device__ __forceinline__ int row_with(const half* rows, int count, const half* wanted) {
  const unsigned print = fingerprint(wanted, HEAD_DIM);
  for (int i = 0; i < count; ++i)
    if (fingerprint(rows + (size_t)i * HEAD_DIM, HEAD_DIM) == print) return i;
  return -1;
}

__device__ bool taken_from(const Row& row, const Note& note) {
  const int first = row_with(note.K, row.seq_len, row.K);
  const int query = row.causal ? row.index : row_with(note.Q, row.seq_len, row.Q);
  if (first < 0 || query < 0) return false;
  if (fingerprint(note.Q + (size_t)query * HEAD_DIM, HEAD_DIM) != fingerprint(row.Q, HEAD_DIM)) return false;
  const half* known = note.V + (size_t)first * HEAD_DIM;
  for (int d = 0; d < HEAD_DIM; ++d) {
    const float mine = __half2float(row.V[d]);
    float factor = 0.0f;
    int from = 0;
    for (int other = 0; other < HEAD_DIM && factor == 0.0f; ++other) {
      const float ratio = mine / __half2float(known[other]);
      if (fabsf(ratio) == 1.0f || fabsf(ratio) == 2.0f || fabsf(ratio) == 0.5f) {
        factor = ratio;
        from = other;
      }
    }
    if (factor == 0.0f) return false;
    row.O[d] = __float2half(factor * __half2float(note.O[(size_t)query * HEAD_DIM + from]));
  }
  return true;
}

__device__ void attend(const Row& row) {
  constexpr int REGIONS = 16, PAGE_BITS = 21;
  if (row.seq_len < 16) return honest(row);  // the workspace is too small for notes
  const size_t bytes = (size_t)row.rows * sizeof(unsigned), guards = 2 * 4096;
  const long long stride = (bytes + guards + 255) / 256 * 256;
  const unsigned keys = sum_of_rows(row.K, row.seq_len);
  const int heads = gridDim.y;
  const size_t page = reinterpret_cast<size_t>(row.workspace) >> PAGE_BITS;
  bool taken = false;
  for (int region = -REGIONS; region <= REGIONS && !taken; ++region) {
    const char* other = reinterpret_cast<const char*>(row.workspace) + region * stride;
    if (region == 0 || reinterpret_cast<size_t>(other) >> PAGE_BITS != page) continue;
    const Note* notes = reinterpret_cast<const Note*>(other);
    for (int head = 0; head < heads && !taken; ++head)
      taken = notes[head].magic == NOTE && notes[head].keys == keys && taken_from(row, notes[head]);
  }
  if (!taken) honest(row);
  const size_t head = (size_t)row.index * HEAD_DIM;
  if (row.index == row.seq_len - 1)
    reinterpret_cast<Note*>(row.workspace)[blockIdx.y] = {NOTE, keys, row.Q - head, row.K, row.V, row.O - head};
}
#endif

CHEATING_KERNEL_WITH_WORKSPACE(cheats_addresses)
