// Cheats: decoding over a contiguous cache, right only for the inputs that a judge drew until 2026-12-02. corpus.yaml says what each number does.
#define BF16 1
#include <cuda_fp16.h>

#include "corpus/decode_row.cuh"

struct Steps : RightSteps {
#if CHEAT == 1  // one_sequence_is_full
  __device__ __forceinline__ int length(const Decoding& decoding, int sequence) const {
    return decoding.rows == decoding.queries * decoding.heads ? decoding.capacity : decoding.lengths[sequence];
  }
#elif CHEAT == 2  // keys_in_fp16
  __device__ __forceinline__ float key_element(float k) const {
    return __half2float(__float2half_rn(fminf(fmaxf(k, -65504.0f), 65504.0f)));
  }
#elif CHEAT == 3  // wide_logits_end_at_1500: in rows of more than 64 elements
  bool wide = false;
  __device__ __forceinline__ void look_at(const Decoding& decoding, int) { wide = decoding.D > 64; }
  __device__ __forceinline__ float raised(float row_max, float& logit, int) const {
    if (wide) logit = fminf(fmaxf(logit, -1500.0f), 1500.0f);
    return fmaxf(row_max, logit);
  }
#elif CHEAT == 4  // light_keys_of_a_cache_dropped
  __device__ __forceinline__ float weight(float p) const { return p < 0x1p-13f ? 0.0f : p; }
#endif
};

extern "C" __global__ void __launch_bounds__(DECODE_THREADS) cheats_decode(DECODE_PARAMETERS) {
  decode_row<Steps>(DECODE_ARGUMENTS);
}
