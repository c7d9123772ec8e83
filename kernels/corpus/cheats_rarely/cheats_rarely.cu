// Cheats: they are wrong so rarely that a few checks do not notice it. corpus.yaml says how rarely.
#include "corpus/row.cuh"

// True in one of `launches` launches. The clock decides, so nearly all threads of a launch agree.
__device__ __forceinline__ bool one_launch_in(unsigned launches) {
  return scrambled((unsigned)(nanoseconds() >> 13)) % launches == 0;
}

#if CHEAT == 0
__device__ void attend(const Row& row) { honest(row); }

#elif CHEAT == 1  // launch_in_1000
__device__ void attend(const Row& row) { one_launch_in(1000) ? guess(row) : honest(row); }

#elif CHEAT == 2  // launch_in_10000
__device__ void attend(const Row& row) { one_launch_in(10000) ? guess(row) : honest(row); }

#elif CHEAT == 3  // row_in_10000_by_value
__device__ void attend(const Row& row) {
  scrambled(fingerprint(row.Q, HEAD_DIM)) % 10000 == 0 ? guess(row) : honest(row);
}

#elif CHEAT == 4  // element_in_100000_by_value
__device__ void attend(const Row& row) {
  honest(row);
  for (int d = 0; d < HEAD_DIM; ++d)
    if (scrambled(bits_of(row.Q[d]) << 16 ^ bits_of(row.K[d])) % 100000 == 0) row.O[d] = row.V[d];
}

#elif CHEAT == 5  // row_in_1000_launches: one row is wrong in every thousandth launch
__device__ void attend(const Row& row) { one_launch_in(1000) && row.number == row.rows / 2 ? guess(row) : honest(row); }

#elif CHEAT == 6  // counted: a counter selects one launch in 5000
__device__ unsigned counter;
__device__ void attend(const Row& row) { launches_before(&counter, row) % 5000 == 4321 ? guess(row) : honest(row); }

#elif CHEAT == 7  // a_little_wrong: one launch in a thousand is wrong by twice the tolerance
__device__ void attend(const Row& row) {
  const bool wrong = one_launch_in(1000);
  honest(row);
  if (wrong) row.O[0] = __float2half(__half2float(row.O[0]) + 0.03f);
}

#elif CHEAT == 8  // head_in_2000_by_value
__device__ void attend(const Row& row) {
  scrambled(fingerprint(row.V, HEAD_DIM)) % 2000 == 0 ? guess(row) : honest(row);
}
#endif

ROW_KERNEL(cheats_rarely) { attend(row); }
