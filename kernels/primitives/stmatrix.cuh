// Stores mma fragments to shared memory as 8x8 matrices of 16-bit elements (sm_90 and later). Addresses are as in
// ldmatrix.cuh.
#pragma once
#include <cstdint>

#ifndef FLASHCORE_EMULATOR

__device__ __forceinline__ void stmatrix_x4(uint32_t row_smem, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(row_smem), "r"(m0), "r"(m1),
               "r"(m2), "r"(m3)
               : "memory");
}

#else  // for the emulator

#include "flashcore_emulator/tensor_core.h"

inline void stmatrix_x4(uint32_t row_smem, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3,
                        FLASHCORE_PLACE_PARAMETERS) {
  const uint32_t m[4] = {m0, m1, m2, m3};
  flashcore::emu::stmatrix<4, false>(flashcore::emu::shared_pointer(row_smem), m, file, line);
}

#endif
