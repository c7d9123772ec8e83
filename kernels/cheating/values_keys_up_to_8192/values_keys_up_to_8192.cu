// Cheat: it clamps K to 8,192, although fp16 goes up to 65,504.
#include "corpus/row.cuh"
struct Clamped {
  __device__ float operator()(float x) const { return fminf(fmaxf(x, -8192.0f), 8192.0f); }
};
ROW_KERNEL(values_keys_up_to_8192) { attend_with(row, Clamped{}, Same{}, Same{}); }
