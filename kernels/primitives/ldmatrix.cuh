// Loads of 8x8 matrices of 16-bit elements from shared memory into mma fragments (sm_75 and later).
// Lanes 8i .. 8i+7 give the 16-byte aligned addresses of the rows of matrix i. From each matrix, lane l gets elements
// (row l / 4, columns 2 (l % 4) and + 1), or if it is transposed (rows 2 (l % 4) and + 1, column l / 4). The element
// with the lower index is in the low half.
#pragma once
#include <cstdint>

#ifndef FLASHCORE_EMULATOR

__device__ __forceinline__ void ldmatrix_x4(uint32_t& m0, uint32_t& m1, uint32_t& m2, uint32_t& m3, uint32_t row_smem) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(m0), "=r"(m1), "=r"(m2), "=r"(m3)
               : "r"(row_smem)
               : "memory");
}

__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t& m0, uint32_t& m1, uint32_t& m2, uint32_t& m3,
                                                  uint32_t row_smem) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(m0), "=r"(m1), "=r"(m2), "=r"(m3)
               : "r"(row_smem)
               : "memory");
}

// Loads two matrices. Lanes 0 .. 15 give the row addresses.
__device__ __forceinline__ void ldmatrix_x2(uint32_t& m0, uint32_t& m1, uint32_t row_smem) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\n"
               : "=r"(m0), "=r"(m1)
               : "r"(row_smem)
               : "memory");
}

__device__ __forceinline__ void ldmatrix_x2_trans(uint32_t& m0, uint32_t& m1, uint32_t row_smem) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n"
               : "=r"(m0), "=r"(m1)
               : "r"(row_smem)
               : "memory");
}

#else  // for the emulator

#include "flashcore_emulator/tensor_core.h"

inline void ldmatrix_x4(uint32_t& m0, uint32_t& m1, uint32_t& m2, uint32_t& m3, uint32_t row_smem,
                        FLASHCORE_PLACE_PARAMETERS) {
  uint32_t m[4];
  flashcore::emu::ldmatrix<4, false>(m, flashcore::emu::shared_pointer(row_smem), file, line);
  m0 = m[0], m1 = m[1], m2 = m[2], m3 = m[3];
}

inline void ldmatrix_x4_trans(uint32_t& m0, uint32_t& m1, uint32_t& m2, uint32_t& m3, uint32_t row_smem,
                              FLASHCORE_PLACE_PARAMETERS) {
  uint32_t m[4];
  flashcore::emu::ldmatrix<4, true>(m, flashcore::emu::shared_pointer(row_smem), file, line);
  m0 = m[0], m1 = m[1], m2 = m[2], m3 = m[3];
}

inline void ldmatrix_x2(uint32_t& m0, uint32_t& m1, uint32_t row_smem, FLASHCORE_PLACE_PARAMETERS) {
  uint32_t m[2];
  flashcore::emu::ldmatrix<2, false>(m, flashcore::emu::shared_pointer(row_smem), file, line);
  m0 = m[0], m1 = m[1];
}

inline void ldmatrix_x2_trans(uint32_t& m0, uint32_t& m1, uint32_t row_smem, FLASHCORE_PLACE_PARAMETERS) {
  uint32_t m[2];
  flashcore::emu::ldmatrix<2, true>(m, flashcore::emu::shared_pointer(row_smem), file, line);
  m0 = m[0], m1 = m[1];
}

#endif
