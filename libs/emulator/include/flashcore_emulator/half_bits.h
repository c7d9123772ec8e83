// Conversions between fp16 or bf16 and float, rounding to nearest even, with subnormals, infinities and NaN exactly as
// on a GPU.
#pragma once
#include <cstdint>

#include "qualifiers.h"

namespace flashcore::emu {

__forceinline__ uint32_t float_bits(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}
__forceinline__ float bits_float(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}

/**
 * For CPUs without conversion instructions. A subnormal half is converted from its integer. As a float its bits would
 * be subnormal too, and read as 0 while .ftz is on.
 */
__forceinline__ float half_to_float_portable(uint16_t h) {
  const uint32_t exponent = h & 0x7c00, mantissa = h & 0x03ff;
  const uint32_t small = float_bits(static_cast<float>(static_cast<int32_t>(mantissa)) * 0x1p-24f);
  const uint32_t normal = static_cast<uint32_t>(h & 0x7fff) << 13;
  const uint32_t special = 0x7f800000u | normal;  // infinity and NaN keep their exponent
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t finite = exponent == 0 ? small : normal + (112u << 23);
  return bits_float((exponent == 0x7c00 ? special : finite) | sign);
}

__forceinline__ uint16_t float_to_half_portable(float x) {
  const uint32_t bits = float_bits(x);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7fff;                                       // NaN, with a GPU's bits
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);         // rounds to 65536 or more
  if (magnitude < 0x38800000) {  // subnormal half: adding 0.5 puts its
    const float aligned = bits_float(magnitude) + 0.5f;  // lowest bit where float rounds
    return static_cast<uint16_t>(sign | (float_bits(aligned) - 0x3f000000));
  }
  const uint32_t odd = magnitude >> 13 & 1;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000 + 0xfff + odd) >> 13));
}

#if defined(__F16C__)
__forceinline__ float half_to_float(uint16_t h) {
  typedef short Halves __attribute__((vector_size(16)));
  return __builtin_ia32_vcvtph2ps(Halves{static_cast<short>(h)})[0];
}
__forceinline__ uint16_t float_to_half(float x) {
  typedef float Floats __attribute__((vector_size(16)));
  return static_cast<uint16_t>(__builtin_ia32_vcvtps2ph(Floats{x}, 0)[0]);
}
#elif defined(__aarch64__)
__forceinline__ float half_to_float(uint16_t h) {
  __fp16 value;
  __builtin_memcpy(&value, &h, 2);
  return static_cast<float>(value);
}
__forceinline__ uint16_t float_to_half(float x) {
  const __fp16 value = static_cast<__fp16>(x);
  uint16_t h;
  __builtin_memcpy(&h, &value, 2);
  return h;
}
#else
__forceinline__ float half_to_float(uint16_t h) { return half_to_float_portable(h); }
__forceinline__ uint16_t float_to_half(float x) { return float_to_half_portable(x); }
#endif

__forceinline__ float bfloat16_to_float(uint16_t b) { return bits_float(static_cast<uint32_t>(b) << 16); }
__forceinline__ uint16_t float_to_bfloat16(float x) {
  const uint32_t bits = float_bits(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/**
 * Rounds toward zero, down or up: converts to nearest, and steps back if the result is on the wrong side of the value.
 */
template <class ToFloat>
inline uint16_t step_toward(uint16_t nearest, float x, int direction, ToFloat to_float) {
  const float value = to_float(nearest);
  if (x != x || value == x) return nearest;
  const bool negative = nearest & 0x8000;
  const bool must_fall = direction < 0 || (direction == 0 && x > 0);
  if (must_fall && value > x) return negative ? nearest + 1 : (nearest == 0 ? 0x8001 : nearest - 1);
  const bool must_rise = direction > 0 || (direction == 0 && x < 0);
  if (must_rise && value < x) return negative ? (nearest == 0x8000 ? 0x0001 : nearest - 1) : nearest + 1;
  return nearest;
}
inline uint16_t float_to_half_directed(float x, int direction) {
  return step_toward(float_to_half(x), x, direction, [](uint16_t h) { return half_to_float(h); });
}
inline uint16_t float_to_bfloat16_directed(float x, int direction) {
  return step_toward(float_to_bfloat16(x), x, direction, [](uint16_t b) { return bfloat16_to_float(b); });
}

/** a * b + c rounded once to float's format with a sticky last bit, so that rounding it to 16 bits rounds only once. */
inline float fused_to_odd(float a, float b, float c) {
  const double product = static_cast<double>(a) * b;  // exact: each factor has at most 11 bits
  const double sum = product + c;
  const double product_part = sum - c;
  const double error = (product - product_part) + (c - (sum - product_part));
  // Truncate to float and set the last bit if anything was cut off.
  float result = static_cast<float>(sum);
  if (result - result != 0.0f) return result;
  const double difference = (sum - result) + error;
  if (difference == 0.0 || (float_bits(result) & 1)) return result;
  const bool toward_larger_magnitude = (difference > 0) == !(float_bits(result) >> 31);
  if (result == 0.0f) return difference > 0 ? 0x1p-149f : -0x1p-149f;
  return bits_float(toward_larger_magnitude ? float_bits(result) + 1 : float_bits(result) - 1);
}

}  // namespace flashcore::emu
