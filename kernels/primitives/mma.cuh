// Warp matrix products on the tensor cores, D = A B + D with A 16x16 row-major and B 16x8 column-major, fp16 or bf16
// (sm_80 and later). Fragments of lane l, g = l / 4, t = l % 4, two elements a register, the lower column (A) or row (B) in the low
// half:
//   A: a0 (g, 2t) a1 (g + 8, 2t) a2 (g, 2t + 8) a3 (g + 8, 2t + 8);  B: b0 (2t, g) b1 (2t + 8, g)
//   D: d0 d1 (g, 2t and + 1)  d2 d3 (g + 8, 2t and + 1)
#pragma once
#include <cstdint>

#ifndef FLASHCORE_EMULATOR

// fp32 accumulation. A and B are fp16, or bf16.
template <bool BF16_OPERANDS = false>
__device__ __forceinline__ void mma_m16n8k16_f32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (BF16_OPERANDS)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// fp16 accumulation: d[0] has d0 and d1, d[1] has d2 and d3.
__device__ __forceinline__ void mma_m16n8k16_f16(uint32_t (&d)[2], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};\n"
               : "+r"(d[0]), "+r"(d[1])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#else  // for the emulator

#include "flashcore_emulator/tensor_core.h"

// Products are summed in order of depth, in fp32. With fp16 accumulation they are rounded once per instruction.
template <bool BF16_OPERANDS = false>
inline void mma_m16n8k16_f32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                             FLASHCORE_PLACE_PARAMETERS) {
  const uint32_t b[2] = {b0, b1};
  if constexpr (BF16_OPERANDS)
    flashcore::emu::mma_m16n8k16_f32_bf16(d, a, b, d, file, line);
  else
    flashcore::emu::mma_m16n8k16_f32_f16(d, a, b, d, file, line);
}
inline void mma_m16n8k16_f16(uint32_t (&d)[2], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                             FLASHCORE_PLACE_PARAMETERS) {
  const uint32_t b[2] = {b0, b1};
  flashcore::emu::mma_m16n8k16_f16_f16(d, a, b, d, file, line);
}

#endif
