// bf16 scalars, pairs and arithmetic. Up to sm_89 bf16 has no add and no mul, so an fma with 1 or -0 replaces them.
#pragma once
#include <cuda_runtime.h>

namespace flashcore::device::bfloat16 {

FLASHCORE_BOTH unsigned short of_float(float value) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
FLASHCORE_DEVICE unsigned short of_float_rz(float value) {
  unsigned short bits;
  asm("cvt.rz.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
FLASHCORE_BOTH float to_float(unsigned short bits) {
  return __builtin_bit_cast(float, static_cast<unsigned>(bits) << 16);
}
/** Rounds towards -infinity: like rz, but one step lower if rz truncated a negative number. */
FLASHCORE_DEVICE unsigned short of_float_rd(float value) {
  const unsigned short cut = of_float_rz(value);
  return value < to_float(cut) ? cut + 1 : cut;
}
FLASHCORE_DEVICE unsigned short of_float_ru(float value) {
  const unsigned short cut = of_float_rz(value);
  return value > to_float(cut) ? cut + 1 : cut;
}
FLASHCORE_DEVICE unsigned pair_of_floats(float low, float high) {
  unsigned bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

FLASHCORE_DEVICE unsigned short fma(unsigned short a, unsigned short b, unsigned short c) {
  unsigned short result;
  asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(result) : "h"(a), "h"(b), "h"(c));
  return result;
}
FLASHCORE_DEVICE unsigned fma(unsigned a, unsigned b, unsigned c) {
  unsigned result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}
#define FLASHCORE_BF16_BY_FMA(NAME, A, B, C)                                              \
  FLASHCORE_DEVICE unsigned short NAME(unsigned short a, unsigned short b) {              \
    constexpr unsigned short ONE = 0x3f80, MINUS_ONE = 0xbf80, MINUS_0 = 0x8000;          \
    return fma(A, B, C);                                                                  \
  }                                                                                       \
  FLASHCORE_DEVICE unsigned NAME(unsigned a, unsigned b) {                                \
    constexpr unsigned ONE = 0x3f803f80u, MINUS_ONE = 0xbf80bf80u, MINUS_0 = 0x80008000u; \
    return fma(A, B, C);                                                                  \
  }
FLASHCORE_BF16_BY_FMA(add, a, ONE, b)
FLASHCORE_BF16_BY_FMA(sub, b, MINUS_ONE, a)
FLASHCORE_BF16_BY_FMA(mul, a, b, MINUS_0)
#undef FLASHCORE_BF16_BY_FMA
#define FLASHCORE_BF16_OPERATION(NAME, PTX)                                  \
  FLASHCORE_DEVICE unsigned short NAME(unsigned short a, unsigned short b) { \
    unsigned short result;                                                   \
    asm(PTX ".bf16 %0, %1, %2;" : "=h"(result) : "h"(a), "h"(b));            \
    return result;                                                           \
  }                                                                          \
  FLASHCORE_DEVICE unsigned NAME(unsigned a, unsigned b) {                   \
    unsigned result;                                                         \
    asm(PTX ".bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));          \
    return result;                                                           \
  }
FLASHCORE_BF16_OPERATION(max, "max")
FLASHCORE_BF16_OPERATION(min, "min")
FLASHCORE_BF16_OPERATION(max_nan, "max.NaN")
FLASHCORE_BF16_OPERATION(min_nan, "min.NaN")
#undef FLASHCORE_BF16_OPERATION
FLASHCORE_DEVICE unsigned short atomic_add(void* address, unsigned short value) {
  unsigned short old;
  asm volatile("atom.add.noftz.bf16 %0, [%1], %2;" : "=h"(old) : "l"(address), "h"(value) : "memory");
  return old;
}
FLASHCORE_DEVICE unsigned atomic_add(void* address, unsigned value) {
  unsigned old;
  asm volatile("atom.add.noftz.bf16x2 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
  return old;
}

}  // namespace flashcore::device::bfloat16

#define FLASHCORE_FORMAT bfloat16
#define FLASHCORE_SCALAR __nv_bfloat16
#define FLASHCORE_PAIR __nv_bfloat162
#define FLASHCORE_RAW __nv_bfloat16_raw
#define FLASHCORE_BITS flashcore::device::bfloat16
#define FLASHCORE_INFINITY 0x7f80
#include "flashcore_device/sixteen_bit_float.h"

FLASHCORE_DEVICE __nv_bfloat16 __hmax_nan(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __nv_bfloat16::from_bits(flashcore::device::bfloat16::max_nan(a.__x, b.__x));
}
FLASHCORE_DEVICE __nv_bfloat16 __hmin_nan(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __nv_bfloat16::from_bits(flashcore::device::bfloat16::min_nan(a.__x, b.__x));
}

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
