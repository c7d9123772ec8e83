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
#endif
};

extern "C" __global__ void __launch_bounds__(DECODE_THREADS) cheats_decode(DECODE_PARAMETERS) {
  decode_row<Steps>(DECODE_ARGUMENTS);
}
