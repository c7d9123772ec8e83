// Floating-point functions. Algorithms have the same steps and constants as CUDA's math library, so that a kernel's
// results are bit for bit those of nvcc; tests/device_functions.cu and its test compare them. Fast math
// (-DFLASHCORE_FAST_MATH along with clang's own flags) uses the hardware's approximations and flushes subnormals to 0.
#pragma once
#include "intrinsics.h"

#ifndef INFINITY
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VALF __builtin_inff()
#define HUGE_VAL __builtin_inf()
#endif
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440

#ifdef FLASHCORE_FAST_MATH
#define FLASHCORE_APPROX(NAME) __nvvm_##NAME##_approx_ftz_f
#else
#define FLASHCORE_APPROX(NAME) __nvvm_##NAME##_approx_f
#endif

// --- one instruction ------------------------------------------------------------------------------------------

#define FLASHCORE_BUILTIN1(NAME)                                             \
  FLASHCORE_DEVICE float NAME##f(float x) { return __builtin_##NAME##f(x); } \
  FLASHCORE_DEVICE double NAME(double x) { return __builtin_##NAME(x); }     \
  FLASHCORE_DEVICE float NAME(float x) { return __builtin_##NAME##f(x); }
FLASHCORE_BUILTIN1(fabs)
FLASHCORE_BUILTIN1(sqrt)
FLASHCORE_BUILTIN1(floor)
FLASHCORE_BUILTIN1(ceil)
FLASHCORE_BUILTIN1(trunc)
FLASHCORE_BUILTIN1(rint)
FLASHCORE_BUILTIN1(nearbyint)
#undef FLASHCORE_BUILTIN1
#define FLASHCORE_BUILTIN2(NAME)                                                         \
  FLASHCORE_DEVICE float NAME##f(float x, float y) { return __builtin_##NAME##f(x, y); } \
  FLASHCORE_DEVICE double NAME(double x, double y) { return __builtin_##NAME(x, y); }    \
  FLASHCORE_DEVICE float NAME(float x, float y) { return __builtin_##NAME##f(x, y); }
FLASHCORE_BUILTIN2(fmax)
FLASHCORE_BUILTIN2(fmin)
FLASHCORE_BUILTIN2(copysign)
#undef FLASHCORE_BUILTIN2
FLASHCORE_DEVICE float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
FLASHCORE_DEVICE double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
FLASHCORE_DEVICE float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
FLASHCORE_DEVICE float max(float x, float y) { return __builtin_fmaxf(x, y); }
FLASHCORE_DEVICE float min(float x, float y) { return __builtin_fminf(x, y); }
FLASHCORE_DEVICE double max(double x, double y) { return __builtin_fmax(x, y); }
FLASHCORE_DEVICE double min(double x, double y) { return __builtin_fmin(x, y); }
FLASHCORE_DEVICE float abs(float x) { return __builtin_fabsf(x); }
FLASHCORE_DEVICE double abs(double x) { return __builtin_fabs(x); }
FLASHCORE_DEVICE float rsqrtf(float x) { return FLASHCORE_APPROX(rsqrt)(x); }
FLASHCORE_DEVICE float rsqrt(float x) { return rsqrtf(x); }
FLASHCORE_DEVICE double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
FLASHCORE_DEVICE float __saturatef(float x) { return __nvvm_saturate_f(x); }
FLASHCORE_DEVICE float fdividef(float x, float y) { return x / y; }
FLASHCORE_DEVICE float __frsqrt_rn(float x) { return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(x))); }

#define FLASHCORE_TEST(NAME)                                        \
  FLASHCORE_BOTH bool NAME(float x) { return __builtin_##NAME(x); } \
  FLASHCORE_BOTH bool NAME(double x) { return __builtin_##NAME(x); }
FLASHCORE_TEST(isnan)
FLASHCORE_TEST(isinf)
FLASHCORE_TEST(isfinite)
FLASHCORE_TEST(signbit)
#undef FLASHCORE_TEST

// --- the hardware's approximations ----------------------------------------------------------------------------

FLASHCORE_DEVICE float __expf(float x) { return FLASHCORE_APPROX(ex2)(x * 0x1.715476p+0f); }
FLASHCORE_DEVICE float __exp10f(float x) { return FLASHCORE_APPROX(ex2)(x * 0x1.a934f0p+1f); }
FLASHCORE_DEVICE float __log2f(float x) { return FLASHCORE_APPROX(lg2)(x); }
FLASHCORE_DEVICE float __logf(float x) { return FLASHCORE_APPROX(lg2)(x) * 0x1.62e430p-1f; }
FLASHCORE_DEVICE float __log10f(float x) { return FLASHCORE_APPROX(lg2)(x) * 0x1.344136p-2f; }
FLASHCORE_DEVICE float __powf(float x, float y) { return FLASHCORE_APPROX(ex2)(y * FLASHCORE_APPROX(lg2)(x)); }
FLASHCORE_DEVICE float __sinf(float x) { return FLASHCORE_APPROX(sin)(x); }
FLASHCORE_DEVICE float __cosf(float x) { return FLASHCORE_APPROX(cos)(x); }
FLASHCORE_DEVICE float __fdividef(float x, float y) { return FLASHCORE_APPROX(div)(x, y); }
FLASHCORE_DEVICE float __tanf(float x) { return __fdividef(__sinf(x), __cosf(x)); }
FLASHCORE_DEVICE float __tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// --- algorithms -----------------------------------------------------------------------------------------------

namespace flashcore::device {

FLASHCORE_DEVICE float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/** 2^(x (high + low)): the integer part goes into the exponent, and ex2 computes the rest. */
FLASHCORE_DEVICE float power(float x, float scale_of_whole, float high, float low) {
  const float place = __nvvm_saturate_f(__builtin_fmaf(x, scale_of_whole, 0.5f));
  const float shifted = __nvvm_fma_rm_f(place, 252.0f, 0x1.800002p+23f);
  const float whole = shifted - 0x1.8000fep+23f;
  const float rest = __builtin_fmaf(x, low, __builtin_fmaf(x, high, -whole));
  return __nvvm_ex2_approx_ftz_f(rest) * __int_as_float(__float_as_int(shifted) << 23);
}

/** x = mantissa * 2^exponent with the mantissa near 1. `offset`: the bits of the smallest mantissa. */
struct Parts {
  float mantissa_less_1, exponent;
};
FLASHCORE_DEVICE Parts parts_of(float& x, int offset) {
  const bool tiny = x < 0x1p-126f;
  x = tiny ? x * 0x1p+23f : x;
  const int exponent = (__float_as_int(x) - offset) & static_cast<int>(0xff800000);
  return {__int_as_float(__float_as_int(x) - exponent) - 1.0f,
          __builtin_fmaf(static_cast<float>(exponent), 0x1p-23f, tiny ? -23.0f : 0.0f)};
}

/** Handles infinity, NaN and 0, for which the polynomials are wrong. x is the value that parts_of() left. */
FLASHCORE_DEVICE float special_log(float x, float log) {
  if (__float_as_uint(x) >= 0x7f800000u) log = __builtin_fmaf(x, INFINITY, INFINITY);
  return x == 0.0f ? -INFINITY : log;
}

FLASHCORE_DEVICE float log_before_0(float& x) {
  const Parts parts = parts_of(x, 0x3f2aaaab);
  const float m = parts.mantissa_less_1;
  float p = __builtin_fmaf(-0x1.0aa04ep-3f, m, 0x1.2073ecp-3f);
  p = __builtin_fmaf(p, m, -0x1.f19b98p-4f);
  p = __builtin_fmaf(p, m, 0x1.1e52aap-3f);
  p = __builtin_fmaf(p, m, -0x1.55b172p-3f);
  p = __builtin_fmaf(p, m, 0x1.99da16p-3f);
  p = __builtin_fmaf(p, m, -0x1.fffe44p-3f);
  p = __builtin_fmaf(p, m, 0x1.5554f0p-2f);
  p = __builtin_fmaf(p, m, -0.5f);
  p = __builtin_fmaf(m * p, m, m);
  return __builtin_fmaf(parts.exponent, 0x1.62e430p-1f, p);
}

}  // namespace flashcore::device

#ifdef FLASHCORE_FAST_MATH

FLASHCORE_DEVICE float expf(float x) { return __expf(x); }
FLASHCORE_DEVICE float exp10f(float x) { return __exp10f(x); }
FLASHCORE_DEVICE float logf(float x) { return __logf(x); }
FLASHCORE_DEVICE float log2f(float x) { return __log2f(x); }
FLASHCORE_DEVICE float log10f(float x) { return __log10f(x); }
FLASHCORE_DEVICE float powf(float x, float y) { return __powf(x, y); }
FLASHCORE_DEVICE float sinf(float x) { return __sinf(x); }
FLASHCORE_DEVICE float cosf(float x) { return __cosf(x); }
FLASHCORE_DEVICE float tanhf(float x) { return __tanh_approx(x); }

#else

FLASHCORE_DEVICE float expf(float x) {
  return flashcore::device::power(x, 0x1.77313ap-8f, 0x1.715476p+0f, 0x1.4ae0c0p-26f);
}
FLASHCORE_DEVICE float exp10f(float x) {
  return flashcore::device::power(x, 0x1.aff4c4p-7f, 0x1.a934f0p+1f, 0x1.2f346ep-24f);
}
FLASHCORE_DEVICE float logf(float x) {
  const float log = flashcore::device::log_before_0(x);
  return flashcore::device::special_log(x, log);
}
FLASHCORE_DEVICE float log10f(float x) {
  float log = flashcore::device::log_before_0(x);
  if (__float_as_uint(x) >= 0x7f800000u) log = __builtin_fmaf(x, INFINITY, INFINITY);
  return x == 0.0f ? -INFINITY : log * 0x1.bcb7b2p-2f;
}
FLASHCORE_DEVICE float log2f(float x) {
  const flashcore::device::Parts parts = flashcore::device::parts_of(x, 0x3f3504f3);
  const float m = parts.mantissa_less_1;
  float p = __builtin_fmaf(0x1.8d64fep-4f, m, -0x1.58fe60p-3f);
  p = __builtin_fmaf(p, m, 0x1.5f9e54p-3f);
  p = __builtin_fmaf(p, m, -0x1.6e9c86p-3f);
  p = __builtin_fmaf(p, m, 0x1.a417e8p-3f);
  p = __builtin_fmaf(p, m, -0x1.ec7916p-3f);
  p = __builtin_fmaf(p, m, 0x1.277f32p-2f);
  p = __builtin_fmaf(p, m, -0x1.715492p-2f);
  p = __builtin_fmaf(p, m, 0x1.ec7094p-2f);
  p = __builtin_fmaf(p, m, -0x1.715476p-1f);
  p = m * (m * p);
  return flashcore::device::special_log(x, parts.exponent + __builtin_fmaf(m, 0x1.715476p+0f, p));
}
FLASHCORE_DEVICE float tanhf(float x) {
  const float size = __builtin_fabsf(x);
  const float e = __nvvm_ex2_approx_ftz_f(size * 0x1.715476p+1f);
  const float far =
      size >= 0x1.205968p+3f ? 1.0f : __builtin_fmaf(flashcore::device::reciprocal(e + 1.0f), -2.0f, 1.0f);
  const float square = x * x;
  float p = __builtin_fmaf(0x1.01e104p-6f, square, -0x1.ac795cp-5f);
  p = __builtin_fmaf(p, square, 0x1.10b282p-3f);
  p = __builtin_fmaf(p, square, -0x1.5553dap-2f);
  p = __builtin_fmaf(p, square, 0.0f);
  return size >= 0x1.333334p-1f ? __builtin_copysignf(far, x) : __builtin_fmaf(p, x, x);
}

#endif

FLASHCORE_DEVICE float exp2f(float x) { return FLASHCORE_APPROX(ex2)(x); }
FLASHCORE_DEVICE float roundf(float x) { return __builtin_truncf(__nvvm_add_rz_f(x, __builtin_copysignf(0.5f, x))); }
FLASHCORE_DEVICE float erff(float x) {
  const float size = __builtin_fabsf(x);
  const bool far = size >= 0x1.00c1fcp+0f;
  const float t = far ? size : x * x;
  float p = __builtin_fmaf(far ? 0x1.d69874p-14f : 0x1.63d2d4p-14f, t, far ? -0x1.5c00b6p-10f : -0x1.ae9a40p-11f);
  p = __builtin_fmaf(p, t, far ? 0x1.13233ep-7f : 0x1.55abd4p-8f);
  p = __builtin_fmaf(p, t, far ? -0x1.49b334p-5f : -0x1.b837cep-6f);
  p = __builtin_fmaf(p, t, far ? 0x1.46aa32p-3f : 0x1.ce315ep-4f);
  p = __builtin_fmaf(p, t, far ? 0x1.d369f2p-1f : -0x1.812758p-2f);
  p = __builtin_fmaf(p, t, far ? 0x1.421428p-1f : 0x1.06eba6p-3f);
  const float s = far ? -size : x;
  p = __builtin_fmaf(p, s, s);
  return far ? __builtin_copysignf(1.0f - __nvvm_ex2_approx_ftz_f(p), x) : p;
}

#define FLASHCORE_OVERLOAD(NAME) \
  FLASHCORE_DEVICE float NAME(float x) { return NAME##f(x); }
FLASHCORE_OVERLOAD(exp)
FLASHCORE_OVERLOAD(exp2)
FLASHCORE_OVERLOAD(exp10)
FLASHCORE_OVERLOAD(log)
FLASHCORE_OVERLOAD(log2)
FLASHCORE_OVERLOAD(log10)
FLASHCORE_OVERLOAD(tanh)
FLASHCORE_OVERLOAD(round)
FLASHCORE_OVERLOAD(erf)
#undef FLASHCORE_OVERLOAD
