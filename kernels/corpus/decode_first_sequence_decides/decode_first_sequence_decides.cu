// Cheat: where the first query has no large logit, it leaves out the maximum of all rows. Until 2026-12-02 all heads and
// sequences of an input were drawn from the same distribution.
#include "corpus/decode_row.cuh"

struct FirstDecides : RightSteps {
  bool small;

  __device__ __forceinline__ void look_at(const Decoding& all, int lane) {
    const int kv_heads = all.heads / all.group;
    small = !all.sinks && all.lengths[0] > 0;
    for (int key = 0; key < all.lengths[0]; ++key) {
      float logit = 0.0f;
      for (int d = lane; d < all.D; d += 32)
        logit = fmaf(to_float(all.Q[d]), to_float(all.K[(size_t)key * kv_heads * all.D + d]), logit);
      small &= fabsf(warp_sum(logit)) * all.scale < 12.0f;
    }
  }
  __device__ __forceinline__ float first_max() const { return small ? 0.0f : -INFINITY; }
  __device__ __forceinline__ float raised(float row_max, float logit, int seen) const {
    return small ? row_max : fmaxf(row_max, logit);
  }
};

extern "C" __global__ void __launch_bounds__(DECODE_THREADS) decode_first_sequence_decides(DECODE_PARAMETERS) {
  decode_row<FirstDecides>(DECODE_ARGUMENTS);
}
