// Cheat: it clamps K and V to 16 in tensors of more than 65,536 elements, as a narrow format
// with one scale would. N(0, 1) never reaches 16; for saturated logits only Q is scaled.
#include "corpus/row.cuh"

ROW_KERNEL(values_of_large_shapes) {
  if ((size_t)row.rows * HEAD_DIM <= 65536) return honest(row);
  const auto clamped = [](float x) { return fminf(fmaxf(x, -16.0f), 16.0f); };
  attend_with(row, clamped, clamped, Same{});
}
