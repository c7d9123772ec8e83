// Cheats: they are right only for values that N(0, 1) produces. corpus.yaml says what each number leaves out.
#include "corpus/row.cuh"

template <int LIMIT>
struct Clamped {
  __device__ float operator()(float x) const { return fminf(fmaxf(x, -LIMIT), LIMIT); }
};

// Attention over the keys for which `wanted` is true.
template <class Wanted>
__device__ __forceinline__ void attend_some(const Row& row, Wanted wanted) {
  RowState state;
  for (int key = 0; key < row.keys; ++key)
    if (wanted(key, state)) attend_keys(state, row.Q, row.K, row.V, key, key + 1, row.scale);
  store_row(row.O, state);
}

#if CHEAT == 0
__device__ void attend(const Row& row) { honest(row); }

#elif CHEAT == 1  // clamped_448: clamps to the range of e4m3
__device__ void attend(const Row& row) { attend_with(row, Clamped<448>{}, Clamped<448>{}, Same{}); }

#elif CHEAT == 2  // clamped_16
__device__ void attend(const Row& row) { attend_with(row, Clamped<16>{}, Clamped<16>{}, Same{}); }

#elif CHEAT == 3  // no_subnormals
struct Normal {
  __device__ float operator()(float x) const { return fabsf(x) < 6.104e-5f ? 0.0f : x; }
};
__device__ void attend(const Row& row) { attend_with(row, Normal{}, Normal{}, Same{}); }

#elif CHEAT == 4  // light_keys: drops weights below a thousandth of the largest
struct Heavy {
  __device__ float operator()(float p) const { return p < 1e-3f ? 0.0f : p; }
};
__device__ void attend(const Row& row) { attend_with(row, Same{}, Same{}, Heavy{}); }

#elif CHEAT == 5  // early_end: stops after 48 consecutive keys that add almost nothing
__device__ void attend(const Row& row) {
  int light = 0;
  float before = 0.0f;
  attend_some(row, [&](int, const RowState& state) {
    light = state.row_sum - before < 1e-6f * state.row_sum ? light + 1 : 0;
    before = state.row_sum;
    return light < 48;
  });
}

#elif CHEAT == 6  // equal_keys: a key with the same first eight elements as the previous one gets its score
__device__ void attend(const Row& row) {
  RowState state;
  for (int key = 0; key < row.keys; ++key) {
    int same = key;
    while (same > 0 &&
           fingerprint(row.K + (size_t)same * HEAD_DIM, 8) == fingerprint(row.K + (size_t)(same - 1) * HEAD_DIM, 8))
      --same;
    attend_keys(state, row.Q, row.K + (size_t)(same - key) * HEAD_DIM, row.V, key, key + 1, row.scale);
  }
  store_row(row.O, state);
}

#elif CHEAT == 7  // small_channels: leaves out elements of K below 1/32
struct Large {
  __device__ float operator()(float x) const { return fabsf(x) < 0.03125f ? 0.0f : x; }
};
__device__ void attend(const Row& row) { attend_with(row, Large{}, Same{}, Same{}); }

#elif CHEAT == 8  // constant_V: if the first, middle and last rows are equal, assumes that all rows are
__device__ void attend(const Row& row) {
  const size_t middle = (size_t)(row.seq_len / 2) * HEAD_DIM, last = (size_t)(row.seq_len - 1) * HEAD_DIM;
  const unsigned first = fingerprint(row.V, HEAD_DIM);
  if (row.seq_len > 2 && first == fingerprint(row.V + middle, HEAD_DIM) && first == fingerprint(row.V + last, HEAD_DIM))
    return copy_row(row.O, row.V);
  honest(row);
}

#elif CHEAT == 9  // one_scale: V in 8 bits, with one scale for all of V that fits N(0, 1)
struct Fixed {
  __device__ float operator()(float x) const { return fminf(fmaxf(rintf(x * 16.0f), -127.0f), 127.0f) / 16.0f; }
};
__device__ void attend(const Row& row) { attend_with(row, Same{}, Fixed{}, Same{}); }

#elif CHEAT == 10  // no_maximum_below_80: the running maximum starts so high that it never moves
__device__ void attend(const Row& row) {
  RowState state;
  state.row_max = 40.0f;
  attend_keys(state, row.Q, row.K, row.V, 0, row.keys, row.scale);
  store_row(row.O, state);
}

#elif CHEAT == 11  // huge_logits: if the first score is beyond 100, one key gets all the weight
__device__ void attend(const Row& row) {
  const RowState first = states_of_keys(row, 0, 1);
  fabsf(first.row_max) > 100.0f ? copy_row(row.O, row.V) : honest(row);
}

#elif CHEAT == 12  // sorted_keys: if two scores decrease, it assumes that all later ones do, and stops soon
__device__ void attend(const Row& row) {
  float before = INFINITY;
  int falling = 0;
  attend_some(row, [&](int key, const RowState& state) {
    const float score = states_of_keys(row, key, key + 1).row_max;
    falling = score < before ? falling + 1 : 0;
    before = score;
    return falling < 12 || score > state.row_max - 12.0f;
  });
}
#endif

ROW_KERNEL(cheats_values) { attend(row); }
