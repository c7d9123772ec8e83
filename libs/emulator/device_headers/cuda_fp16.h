// fp16 scalars, pairs and arithmetic.
#pragma once
#include <cuda_runtime.h>

namespace flashcore::device::half {

#define FLASHCORE_FLOAT_TO_HALF(NAME, ROUNDING)                        \
  FLASHCORE_BOTH unsigned short NAME(float value) {                    \
    unsigned short bits;                                               \
    asm("cvt." ROUNDING ".f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); \
    return bits;                                                       \
  }
FLASHCORE_FLOAT_TO_HALF(of_float, "rn")
FLASHCORE_FLOAT_TO_HALF(of_float_rz, "rz")
FLASHCORE_FLOAT_TO_HALF(of_float_rd, "rm")
FLASHCORE_FLOAT_TO_HALF(of_float_ru, "rp")
#undef FLASHCORE_FLOAT_TO_HALF

FLASHCORE_BOTH float to_float(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
FLASHCORE_DEVICE unsigned pair_of_floats(float low, float high) {
  unsigned bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

#define FLASHCORE_HALF_OPERATION(NAME, PTX)                                  \
  FLASHCORE_DEVICE unsigned short NAME(unsigned short a, unsigned short b) { \
    unsigned short result;                                                   \
    asm(PTX ".f16 %0, %1, %2;" : "=h"(result) : "h"(a), "h"(b));             \
    return result;                                                           \
  }                                                                          \
  FLASHCORE_DEVICE unsigned NAME(unsigned a, unsigned b) {                   \
    unsigned result;                                                         \
    asm(PTX ".f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));           \
    return result;                                                           \
  }
FLASHCORE_HALF_OPERATION(add, "add")
FLASHCORE_HALF_OPERATION(sub, "sub")
FLASHCORE_HALF_OPERATION(mul, "mul")
FLASHCORE_HALF_OPERATION(max, "max")
FLASHCORE_HALF_OPERATION(min, "min")
FLASHCORE_HALF_OPERATION(max_nan, "max.NaN")
FLASHCORE_HALF_OPERATION(min_nan, "min.NaN")
#undef FLASHCORE_HALF_OPERATION
FLASHCORE_DEVICE unsigned short fma(unsigned short a, unsigned short b, unsigned short c) {
  unsigned short result;
  asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(result) : "h"(a), "h"(b), "h"(c));
  return result;
}
FLASHCORE_DEVICE unsigned fma(unsigned a, unsigned b, unsigned c) {
  unsigned result;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}
FLASHCORE_DEVICE unsigned short atomic_add(void* address, unsigned short value) {
  unsigned short old;
  asm volatile("atom.add.noftz.f16 %0, [%1], %2;" : "=h"(old) : "l"(address), "h"(value) : "memory");
  return old;
}
FLASHCORE_DEVICE unsigned atomic_add(void* address, unsigned value) {
  unsigned old;
  asm volatile("atom.add.noftz.f16x2 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(value) : "memory");
  return old;
}

}  // namespace flashcore::device::half

#define FLASHCORE_FORMAT half
#define FLASHCORE_SCALAR __half
#define FLASHCORE_PAIR __half2
#define FLASHCORE_RAW __half_raw
#define FLASHCORE_BITS flashcore::device::half
#define FLASHCORE_INFINITY 0x7c00
#include "flashcore_device/sixteen_bit_float.h"

FLASHCORE_DEVICE __half __hmax_nan(__half a, __half b) {
  return __half::from_bits(flashcore::device::half::max_nan(a.__x, b.__x));
}
FLASHCORE_DEVICE __half __hmin_nan(__half a, __half b) {
  return __half::from_bits(flashcore::device::half::min_nan(a.__x, b.__x));
}

using half = __half;
using half2 = __half2;
using __nv_half = __half;
using __nv_half2 = __half2;
