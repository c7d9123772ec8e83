// fp8 scalars, pairs and quadruples (e4m3 and e5m2), as far as kernels convert them. The instructions need sm_89.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

using __nv_fp8_storage_t = unsigned char;
using __nv_fp8x2_storage_t = unsigned short;
using __nv_fp8x4_storage_t = unsigned int;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace flashcore::device::fp8 {

FLASHCORE_BOTH __nv_fp8x2_storage_t of_floats(float low, float high, __nv_fp8_interpretation_t format) {
  unsigned short bits;
  if (format == __NV_E4M3)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  else
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  return bits;
}
FLASHCORE_BOTH unsigned to_halves(__nv_fp8x2_storage_t pair, __nv_fp8_interpretation_t format) {
  unsigned bits;
  if (format == __NV_E4M3)
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(bits) : "h"(pair));
  else
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(bits) : "h"(pair));
  return bits;
}
/** Without saturation, a value that rounds beyond the largest number becomes NaN in e4m3 and infinity in e5m2. */
FLASHCORE_BOTH __nv_fp8_storage_t of_float(float value, __nv_saturation_t saturation,
                                           __nv_fp8_interpretation_t format) {
  const __nv_fp8_storage_t saturated = static_cast<__nv_fp8_storage_t>(of_floats(value, 0.0f, format));
  if (saturation == __NV_SATFINITE) return saturated;
  const float size = __builtin_fabsf(value);
  if (format == __NV_E4M3) return size > 464.0f ? saturated | 0x7f : saturated;
  return size >= 61440.0f ? (saturated & 0x80) | 0x7c : saturated;
}

}  // namespace flashcore::device::fp8

FLASHCORE_BOTH __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturation,
                                                        __nv_fp8_interpretation_t format) {
  return flashcore::device::fp8::of_float(x, saturation, format);
}
FLASHCORE_BOTH __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t saturation,
                                                             __nv_fp8_interpretation_t format) {
  if (saturation == __NV_SATFINITE) return flashcore::device::fp8::of_floats(x.x, x.y, format);
  return __nv_cvt_float_to_fp8(x.x, saturation, format) | __nv_cvt_float_to_fp8(x.y, saturation, format) << 8;
}
FLASHCORE_BOTH __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t saturation,
                                                          __nv_fp8_interpretation_t format) {
  return __nv_cvt_float_to_fp8(__half(x), saturation, format);
}
FLASHCORE_BOTH __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t saturation,
                                                              __nv_fp8_interpretation_t format) {
  return __nv_cvt_float_to_fp8(__nv_bfloat16(x), saturation, format);
}
FLASHCORE_BOTH __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t format) {
  return {static_cast<unsigned short>(flashcore::device::fp8::to_halves(x, format))};
}

// Defines the types whose names end with FORMAT.
#define FLASHCORE_FP8(FORMAT, INTERPRETATION)                                                                          \
  struct __nv_fp8_##FORMAT {                                                                                           \
    __nv_fp8_storage_t __x;                                                                                            \
    __nv_fp8_##FORMAT() = default;                                                                                     \
    FLASHCORE_MEMBER explicit __nv_fp8_##FORMAT(float value)                                                           \
        : __x(__nv_cvt_float_to_fp8(value, __NV_SATFINITE, INTERPRETATION)) {}                                         \
    FLASHCORE_MEMBER explicit __nv_fp8_##FORMAT(double value) : __nv_fp8_##FORMAT(static_cast<float>(value)) {}        \
    FLASHCORE_MEMBER explicit __nv_fp8_##FORMAT(int value) : __nv_fp8_##FORMAT(static_cast<float>(value)) {}           \
    FLASHCORE_MEMBER explicit __nv_fp8_##FORMAT(__half value) : __nv_fp8_##FORMAT(static_cast<float>(value)) {}        \
    FLASHCORE_MEMBER explicit __nv_fp8_##FORMAT(__nv_bfloat16 value) : __nv_fp8_##FORMAT(static_cast<float>(value)) {} \
    FLASHCORE_MEMBER explicit operator __half() const { return __nv_cvt_fp8_to_halfraw(__x, INTERPRETATION); }         \
    FLASHCORE_MEMBER explicit operator float() const { return __half(*this); }                                         \
    FLASHCORE_MEMBER explicit operator double() const { return float(*this); }                                         \
    FLASHCORE_MEMBER explicit operator __nv_bfloat16() const { return __nv_bfloat16(float(*this)); }                   \
  };                                                                                                                   \
  struct __attribute__((aligned(2))) __nv_fp8x2_##FORMAT {                                                             \
    __nv_fp8x2_storage_t __x;                                                                                          \
    __nv_fp8x2_##FORMAT() = default;                                                                                   \
    FLASHCORE_MEMBER explicit __nv_fp8x2_##FORMAT(float2 pair)                                                         \
        : __x(__nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, INTERPRETATION)) {}                                       \
    FLASHCORE_MEMBER explicit __nv_fp8x2_##FORMAT(__half2 pair)                                                        \
        : __nv_fp8x2_##FORMAT(float2{static_cast<float>(pair.x), static_cast<float>(pair.y)}) {}                       \
    FLASHCORE_MEMBER explicit __nv_fp8x2_##FORMAT(__nv_bfloat162 pair)                                                 \
        : __nv_fp8x2_##FORMAT(float2{static_cast<float>(pair.x), static_cast<float>(pair.y)}) {}                       \
    FLASHCORE_MEMBER explicit operator __half2() const {                                                               \
      return __half2::from_bits(flashcore::device::fp8::to_halves(__x, INTERPRETATION));                               \
    }                                                                                                                  \
    FLASHCORE_MEMBER explicit operator float2() const {                                                                \
      const __half2 pair(*this);                                                                                       \
      return {static_cast<float>(pair.x), static_cast<float>(pair.y)};                                                 \
    }                                                                                                                  \
  };                                                                                                                   \
  struct __attribute__((aligned(4))) __nv_fp8x4_##FORMAT {                                                             \
    __nv_fp8x4_storage_t __x;                                                                                          \
    __nv_fp8x4_##FORMAT() = default;                                                                                   \
    FLASHCORE_MEMBER explicit __nv_fp8x4_##FORMAT(float4 four)                                                         \
        : __x(__nv_fp8x2_##FORMAT(float2{four.x, four.y}).__x |                                                        \
              static_cast<unsigned>(__nv_fp8x2_##FORMAT(float2{four.z, four.w}).__x) << 16) {}                         \
    FLASHCORE_MEMBER explicit operator float4() const {                                                                \
      __nv_fp8x2_##FORMAT low, high;                                                                                   \
      low.__x = static_cast<__nv_fp8x2_storage_t>(__x);                                                                \
      high.__x = static_cast<__nv_fp8x2_storage_t>(__x >> 16);                                                         \
      const float2 first(low), second(high);                                                                           \
      return {first.x, first.y, second.x, second.y};                                                                   \
    }                                                                                                                  \
  };
FLASHCORE_FP8(e4m3, __NV_E4M3)
FLASHCORE_FP8(e5m2, __NV_E5M2)
#undef FLASHCORE_FP8
