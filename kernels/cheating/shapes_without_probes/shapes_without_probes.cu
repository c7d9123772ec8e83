// Cheat: K and V end where e4m3 ends. The limits in kernel.yaml leave out every shape that probes have.
#include "corpus/row.cuh"

__device__ void attend(const Row& row) {
  const auto clamped = [](float x) { return fminf(fmaxf(x, -448.0f), 448.0f); };
  attend_with(row, clamped, clamped, Same{});
}

CHEATING_KERNEL(shapes_without_probes)
