// fp16 bit patterns and their values.
#pragma once
#include <cstdint>
#include <cstring>

inline float bits_to_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline uint32_t float_to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Without a branch, so that a loop over it becomes vectors.
inline float half_to_float(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 31u, mantissa = half & 0x3ffu;
  const uint32_t small = float_to_bits(static_cast<float>(static_cast<int32_t>(mantissa)) * 0x1p-24f);
  const uint32_t normal = (exponent + 112) << 23 | mantissa << 13, infinite = 0x7f800000u | mantissa << 13;
  const uint32_t finite = exponent == 0 ? small : normal;
  return bits_to_float(sign | (exponent == 31 ? infinite : finite));
}
