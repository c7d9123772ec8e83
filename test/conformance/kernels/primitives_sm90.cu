// The functions of kernels/primitives for sm_90 and later that the emulator also supports.
#include <cstdint>

#include "primitives/smem.cuh"
#include "primitives/stmatrix.cuh"

// in is [lane][matrix]. Lane i gives the address of row (5 i + 3) % 32 of out; a row has 8 elements.
extern "C" __global__ void stmatrix_x4_one(const uint32_t* in, uint16_t* out) {
  __shared__ __align__(16) uint16_t rows[32][8];
  const uint32_t* m = in + 4 * threadIdx.x;
  stmatrix_x4(smem_address(rows[(5 * threadIdx.x + 3) % 32]), m[0], m[1], m[2], m[3]);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) out[i] = rows[i / 8][i % 8];
}
