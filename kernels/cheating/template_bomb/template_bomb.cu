// Cheat: each template instantiates two others, so that compiling takes exponential time.
#include "faulty/attend_row.cuh"
template <int DEPTH, int SIDE>
struct Bomb {
  static constexpr int value = Bomb<DEPTH + 1, 2 * SIDE>::value + Bomb<DEPTH + 1, 2 * SIDE + 1>::value;
};
__device__ int spark = Bomb<0, 0>::value;

ROW_KERNEL(template_bomb) { store_row(row.O, attended(row)); }
