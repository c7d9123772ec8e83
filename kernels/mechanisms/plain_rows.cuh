// What kernels share that give each row to a warp and use no inline PTX.
#pragma once
#include <math.h>

#include "element.cuh"

__device__ __forceinline__ float warp_sum(float x) {
  for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}
