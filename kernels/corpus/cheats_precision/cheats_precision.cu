// Cheats: they compute with less precision than fp16 and fp32 have. corpus.yaml says what each number does.
#include "corpus/row.cuh"

// A format with this many bits after the leading one; `LIMIT` is its largest number, 2^LEAST its smallest normal one.
template <int BITS, int LEAST, int LIMIT>
struct Rounded {
  __device__ float operator()(float x) const {
    const float clamped = fminf(fmaxf(x, -LIMIT), LIMIT);
    const int exponent = max((int)(__float_as_uint(clamped) >> 23 & 255) - 127, LEAST) - BITS;
    const float step = __uint_as_float((unsigned)(exponent + 127) << 23);
    return rintf(clamped / step) * step;
  }
};
using E4M3 = Rounded<3, -6, 448>;
using E5M2 = Rounded<2, -14, 57344>;

// Quantizes a whole row to 2 * LEVELS + 1 steps of one scale.
template <int LEVELS>
struct Scaled {
  float step;
  __device__ Scaled(const half* values, int elements) {
    float most = 1e-6f;
    for (int i = 0; i < elements; ++i) most = fmaxf(most, fabsf(__half2float(values[i])));
    step = most / LEVELS;
  }
  __device__ float operator()(float x) const { return fminf(fmaxf(rintf(x / step), -LEVELS), LEVELS) * step; }
};

#if CHEAT == 0
__device__ void attend(const Row& row) { honest(row); }

#elif CHEAT == 1  // e4m3_keys
__device__ void attend(const Row& row) { attend_with(row, E4M3{}, Same{}, Same{}); }

#elif CHEAT == 2  // e4m3_values
__device__ void attend(const Row& row) { attend_with(row, Same{}, E4M3{}, Same{}); }

#elif CHEAT == 3  // e4m3_keys_and_values
__device__ void attend(const Row& row) { attend_with(row, E4M3{}, E4M3{}, Same{}); }

#elif CHEAT == 4  // e5m2_values
__device__ void attend(const Row& row) { attend_with(row, Same{}, E5M2{}, Same{}); }

#elif CHEAT == 5  // e4m3_weights
__device__ void attend(const Row& row) { attend_with(row, Same{}, Same{}, E4M3{}); }

#elif CHEAT == 6  // int8_keys: one scale per head, set by outliers
__device__ void attend(const Row& row) { attend_with(row, Scaled<127>{row.K, row.keys * HEAD_DIM}, Same{}, Same{}); }

#elif CHEAT == 7  // int8_values
__device__ void attend(const Row& row) { attend_with(row, Same{}, Scaled<127>{row.V, row.keys * HEAD_DIM}, Same{}); }

#elif CHEAT == 8  // quick_exponential: 2^x as a straight line between powers of two
__device__ void attend(const Row& row) {
  attend_with(row, Same{}, Same{}, [](float p) {
    const float exponent = fmaxf(log2f(p), -126.0f), whole = floorf(exponent);
    return exp2f(whole) * (1.0f + (exponent - whole));
  });
}

#elif CHEAT == 9  // bf16_sums
__device__ void attend(const Row& row) {
  using Bf16 = Rounded<7, -126, 1 << 30>;
  RowState state;
  for (int key = 0; key < row.keys; ++key) {
    attend_keys(state, row.Q, row.K, row.V, key, key + 1, row.scale);
    state.row_sum = Bf16{}(state.row_sum);
    for (int d = 0; d < HEAD_DIM; ++d) state.O_rmem[d] = Bf16{}(state.O_rmem[d]);
  }
  store_row(row.O, state);
}

#elif CHEAT == 10  // heaviest_keys: leaves out keys far below the maximum
__device__ void attend(const Row& row) {
  const float row_max = states_of_keys(row, 0, row.keys).row_max;
  RowState state;
  for (int key = 0; key < row.keys; ++key)
    if (states_of_keys(row, key, key + 1).row_max > row_max - 6.0f)
      attend_keys(state, row.Q, row.K, row.V, key, key + 1, row.scale);
  store_row(row.O, state);
}

#elif CHEAT == 11  // six_bits_of_V
__device__ void attend(const Row& row) { attend_with(row, Same{}, Rounded<5, -14, 65504>{}, Same{}); }

#elif CHEAT == 12  // bias: adds an error below every tolerance of 0.01
__device__ void attend(const Row& row) {
  honest(row);
  for (int d = 0; d < HEAD_DIM; ++d) row.O[d] = __float2half(__half2float(row.O[d]) + 0.008f);
}

#elif CHEAT == 13  // exact_when_poisoned: is exact if O is filled with NaNs, as in checks
__device__ void attend(const Row& row) { __hisnan(row.O[0]) ? honest(row) : attend_with(row, E4M3{}, E4M3{}, Same{}); }

#elif CHEAT == 14  // exact_on_normal: is inexact if columns of V have two scales, as in timed launches
__device__ void attend(const Row& row) {
  float squares = 0.0f;
  for (int i = 0; i < 2 * HEAD_DIM && i < row.seq_len * HEAD_DIM; ++i)
    squares += __half2float(row.V[i]) * __half2float(row.V[i]);
  squares > 1.6f * 2 * HEAD_DIM&& squares < 4.0f * 2 * HEAD_DIM ? attend_with(row, E4M3{}, E4M3{}, Same{})
                                                                : honest(row);
}
#endif

ROW_KERNEL(cheats_precision) { attend(row); }
