// Cheat: no V for keys whose weight is below 2^-13 of the maximum so far. It shows on saturated logits, where attention
// that rounds logits to fp16 is farther off.
#include "corpus/row.cuh"

__device__ void attend(const Row& row) {
  attend_with(row, Same{}, Same{}, [](float p) { return p < exp2f(-13.0f) ? 0.0f : p; });
}

CHEATING_KERNEL(unlikely_keys)
