// Arithmetic intrinsics: bits, conversions, rounding modes, integers.
#pragma once
#include "keywords.h"

// --- bits -----------------------------------------------------------------------------------------------------

FLASHCORE_DEVICE int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
FLASHCORE_DEVICE unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
FLASHCORE_DEVICE float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
FLASHCORE_DEVICE float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
FLASHCORE_DEVICE long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
FLASHCORE_DEVICE double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }

FLASHCORE_DEVICE int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
FLASHCORE_DEVICE int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
FLASHCORE_DEVICE int __ffs(int x) { return __builtin_ffs(x); }
FLASHCORE_DEVICE int __ffsll(long long x) { return __builtin_ffsll(x); }
FLASHCORE_DEVICE int __popc(unsigned x) { return __builtin_popcount(x); }
FLASHCORE_DEVICE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
FLASHCORE_DEVICE unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
FLASHCORE_DEVICE unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
FLASHCORE_DEVICE unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  return static_cast<unsigned>(__nvvm_prmt(static_cast<int>(low), static_cast<int>(high), static_cast<int>(selector)));
}
FLASHCORE_DEVICE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  unsigned result;
  asm("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(shift));
  return result;
}
FLASHCORE_DEVICE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  unsigned result;
  asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(shift));
  return result;
}

// --- whole numbers --------------------------------------------------------------------------------------------

FLASHCORE_DEVICE unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
FLASHCORE_DEVICE int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
FLASHCORE_DEVICE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
FLASHCORE_DEVICE int __mul24(int a, int b) {
  int result;
  asm("mul24.lo.s32 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}
FLASHCORE_DEVICE int __dp4a(int a, int b, int c) {
  int result;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}

#define FLASHCORE_MIN_MAX(TYPE)                                               \
  FLASHCORE_BOTH constexpr TYPE min(TYPE a, TYPE b) { return b < a ? b : a; } \
  FLASHCORE_BOTH constexpr TYPE max(TYPE a, TYPE b) { return a < b ? b : a; }
FLASHCORE_MIN_MAX(int)
FLASHCORE_MIN_MAX(unsigned)
FLASHCORE_MIN_MAX(long)
FLASHCORE_MIN_MAX(unsigned long)
FLASHCORE_MIN_MAX(long long)
FLASHCORE_MIN_MAX(unsigned long long)
#undef FLASHCORE_MIN_MAX
// For operands of two types, which are converted as C's arithmetic converts them.
#define FLASHCORE_MIN_MAX_MIXED(A, B, TYPE)                                                               \
  FLASHCORE_BOTH constexpr TYPE min(A a, B b) { return min(static_cast<TYPE>(a), static_cast<TYPE>(b)); } \
  FLASHCORE_BOTH constexpr TYPE min(B a, A b) { return min(static_cast<TYPE>(a), static_cast<TYPE>(b)); } \
  FLASHCORE_BOTH constexpr TYPE max(A a, B b) { return max(static_cast<TYPE>(a), static_cast<TYPE>(b)); } \
  FLASHCORE_BOTH constexpr TYPE max(B a, A b) { return max(static_cast<TYPE>(a), static_cast<TYPE>(b)); }
FLASHCORE_MIN_MAX_MIXED(int, unsigned, unsigned)
FLASHCORE_MIN_MAX_MIXED(long, unsigned long, unsigned long)
FLASHCORE_MIN_MAX_MIXED(long long, unsigned long long, unsigned long long)
#undef FLASHCORE_MIN_MAX_MIXED
FLASHCORE_BOTH constexpr int abs(int a) { return a < 0 ? -a : a; }
FLASHCORE_BOTH constexpr long abs(long a) { return a < 0 ? -a : a; }
FLASHCORE_BOTH constexpr long long abs(long long a) { return a < 0 ? -a : a; }

// --- rounding modes -------------------------------------------------------------------------------------------

// PTX names CUDA's rd "m" (minus infinity) and ru "p" (plus infinity).
#define FLASHCORE_ROUNDED(SUFFIX, PTX)                                                                        \
  FLASHCORE_DEVICE float __fadd_##SUFFIX(float a, float b) { return __nvvm_add_##PTX##_f(a, b); }             \
  FLASHCORE_DEVICE float __fsub_##SUFFIX(float a, float b) { return __nvvm_add_##PTX##_f(a, -b); }            \
  FLASHCORE_DEVICE float __fmul_##SUFFIX(float a, float b) { return __nvvm_mul_##PTX##_f(a, b); }             \
  FLASHCORE_DEVICE float __fdiv_##SUFFIX(float a, float b) { return __nvvm_div_##PTX##_f(a, b); }             \
  FLASHCORE_DEVICE float __fmaf_##SUFFIX(float a, float b, float c) { return __nvvm_fma_##PTX##_f(a, b, c); } \
  FLASHCORE_DEVICE float __frcp_##SUFFIX(float a) { return __nvvm_rcp_##PTX##_f(a); }                         \
  FLASHCORE_DEVICE float __fsqrt_##SUFFIX(float a) { return __nvvm_sqrt_##PTX##_f(a); }                       \
  FLASHCORE_DEVICE double __dadd_##SUFFIX(double a, double b) { return __nvvm_add_##PTX##_d(a, b); }          \
  FLASHCORE_DEVICE double __dmul_##SUFFIX(double a, double b) { return __nvvm_mul_##PTX##_d(a, b); }          \
  FLASHCORE_DEVICE double __fma_##SUFFIX(double a, double b, double c) { return __nvvm_fma_##PTX##_d(a, b, c); }
FLASHCORE_ROUNDED(rn, rn)
FLASHCORE_ROUNDED(rz, rz)
FLASHCORE_ROUNDED(rd, rm)
FLASHCORE_ROUNDED(ru, rp)
#undef FLASHCORE_ROUNDED

// --- conversions ----------------------------------------------------------------------------------------------

// cvt saturates and turns NaN into 0. In C++, casts of such values are undefined.
#define FLASHCORE_CONVERSIONS(SUFFIX, PTX)                                                                         \
  FLASHCORE_DEVICE int __float2int_##SUFFIX(float x) { return __nvvm_f2i_##PTX(x); }                               \
  FLASHCORE_DEVICE unsigned __float2uint_##SUFFIX(float x) { return static_cast<unsigned>(__nvvm_f2ui_##PTX(x)); } \
  FLASHCORE_DEVICE long long __float2ll_##SUFFIX(float x) { return __nvvm_f2ll_##PTX(x); }                         \
  FLASHCORE_DEVICE unsigned long long __float2ull_##SUFFIX(float x) {                                              \
    return static_cast<unsigned long long>(__nvvm_f2ull_##PTX(x));                                                 \
  }                                                                                                                \
  FLASHCORE_DEVICE int __double2int_##SUFFIX(double x) { return __nvvm_d2i_##PTX(x); }                             \
  FLASHCORE_DEVICE float __double2float_##SUFFIX(double x) { return __nvvm_d2f_##PTX(x); }                         \
  FLASHCORE_DEVICE float __int2float_##SUFFIX(int x) { return __nvvm_i2f_##PTX(x); }                               \
  FLASHCORE_DEVICE float __uint2float_##SUFFIX(unsigned x) { return __nvvm_ui2f_##PTX(x); }                        \
  FLASHCORE_DEVICE float __ll2float_##SUFFIX(long long x) { return __nvvm_ll2f_##PTX(x); }
FLASHCORE_CONVERSIONS(rn, rn)
FLASHCORE_CONVERSIONS(rz, rz)
FLASHCORE_CONVERSIONS(rd, rm)
FLASHCORE_CONVERSIONS(ru, rp)
#undef FLASHCORE_CONVERSIONS
FLASHCORE_DEVICE double __int2double_rn(int x) { return static_cast<double>(x); }
