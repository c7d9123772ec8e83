// Cheat: it keeps the maximum of the first 64 keys of a decoded row.
#include "corpus/decode_row.cuh"

struct FirstMaximum : RightSteps {
  __device__ __forceinline__ float raised(float row_max, float logit, int seen) const {
    return seen < 64 ? fmaxf(row_max, logit) : row_max;
  }
};

extern "C" __global__ void __launch_bounds__(DECODE_THREADS) values_decode_first_maximum(DECODE_PARAMETERS) {
  decode_row<FirstMaximum>(DECODE_ARGUMENTS);
}
