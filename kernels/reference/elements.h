// Elements of tensors and their values.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "attention_reference.h"

// Whether this is a dtype of 16 or 32 bits.
inline bool known_dtype(int dtype) { return dtype >= FLASHCORE_DTYPE_FP16 && dtype <= FLASHCORE_DTYPE_FP32; }

inline bool is_fp8(int dtype) { return dtype == FLASHCORE_DTYPE_FP8_E4M3 || dtype == FLASHCORE_DTYPE_FP8_E5M2; }

// Dtypes of outputs, which are compared.
inline bool comparable_dtype(int dtype) { return known_dtype(dtype) || is_fp8(dtype) || dtype == FLASHCORE_DTYPE_INT8; }

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

// Has no branches, so that the compiler can vectorize loops over it.
inline float half_to_float(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 31u, mantissa = half & 0x3ffu;
  const uint32_t small = float_to_bits(static_cast<float>(static_cast<int32_t>(mantissa)) * 0x1p-24f);
  const uint32_t normal = (exponent + 112) << 23 | mantissa << 13, infinite = 0x7f800000u | mantissa << 13;
  const uint32_t finite = exponent == 0 ? small : normal;
  return bits_to_float(sign | (exponent == 31 ? infinite : finite));
}

inline float bfloat_to_float(uint16_t bits) { return bits_to_float(static_cast<uint32_t>(bits) << 16); }

// e5m2 is the upper half of fp16. e4m3 shifted left by 7 is an fp16 whose value is 2^8 too small; it has one NaN.
inline float e5m2_to_float(uint8_t bits) { return half_to_float(static_cast<uint16_t>(bits << 8)); }
inline float e4m3_to_float(uint8_t bits) {
  const float value = half_to_float(static_cast<uint16_t>((bits & 0x80u) << 8 | (bits & 0x7fu) << 7)) * 0x1p8f;
  return (bits & 0x7fu) == 0x7fu ? bits_to_float(0x7fc00000u) : value;
}

// Unpacks `count` elements of a tensor from element `at` on; they are `stride` apart in `out`.
template <typename Real>
void unpack(int dtype, const void* tensor, size_t at, int count, Real* out, size_t stride = 1) {
  const uint16_t* const bits = static_cast<const uint16_t*>(tensor) + at;
  const float* const floats = static_cast<const float*>(tensor) + at;
  const uint8_t* const bytes = static_cast<const uint8_t*>(tensor) + at;
  if (dtype == FLASHCORE_DTYPE_FP16)
    for (int i = 0; i < count; ++i) out[i * stride] = half_to_float(bits[i]);
  else if (dtype == FLASHCORE_DTYPE_BF16)
    for (int i = 0; i < count; ++i) out[i * stride] = bfloat_to_float(bits[i]);
  else if (dtype == FLASHCORE_DTYPE_FP32)
    for (int i = 0; i < count; ++i) out[i * stride] = floats[i];
  else if (dtype == FLASHCORE_DTYPE_FP8_E5M2)
    for (int i = 0; i < count; ++i) out[i * stride] = e5m2_to_float(bytes[i]);
  else if (dtype == FLASHCORE_DTYPE_INT8)
    for (int i = 0; i < count; ++i) out[i * stride] = static_cast<int8_t>(bytes[i]);
  else
    for (int i = 0; i < count; ++i) out[i * stride] = e4m3_to_float(bytes[i]);
}
