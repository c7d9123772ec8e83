// Converts two floats to halves or bf16 in one instruction, rounding to nearest even, with `low` in the lower 16 bits.
#pragma once
#include <cstdint>

#ifndef FLASHCORE_EMULATOR

__device__ __forceinline__ uint32_t pack_half2(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ __forceinline__ uint32_t pack_bfloat2(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

#else    // for the emulator

#include "flashcore_emulator/half_bits.h"

inline uint32_t pack_half2(float low, float high) {
  return flashcore::emu::float_to_half(low) | static_cast<uint32_t>(flashcore::emu::float_to_half(high)) << 16;
}

inline uint32_t pack_bfloat2(float low, float high) {
  return flashcore::emu::float_to_bfloat16(low) | static_cast<uint32_t>(flashcore::emu::float_to_bfloat16(high)) << 16;
}

#endif
