// Arithmetic intrinsics. Those that a GPU approximates (__expf, __fdividef …) have full precision here.
#pragma once
#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "qualifiers.h"

// CUDA has the float functions, min and max in the global namespace.
using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;

template <class A, class B, class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
__forceinline__ std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>)
    return T(a) < T(b) || T(b) != T(b) ? T(a) : T(b);
  else
    return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B, class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
__forceinline__ std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>)
    return T(a) > T(b) || T(b) != T(b) ? T(a) : T(b);
  else
    return T(a) < T(b) ? T(b) : T(a);
}

// libm's fmaxf and fminf are calls. These functions are one instruction and a branch that is rarely taken. The empty
// asm keeps the compiler from replacing the branch by a detour through an integer register. If one operand is NaN, the
// other is the result.
__forceinline__ float flashcore_fmaxf(float a, float b) {
  if (__builtin_expect(b != b, 0)) {
    __asm__("");
    return a;
  }
  return a > b ? a : b;
}
__forceinline__ float flashcore_fminf(float a, float b) {
  if (__builtin_expect(b != b, 0)) {
    __asm__("");
    return a;
  }
  return a < b ? a : b;
}
namespace std {
using ::flashcore_fmaxf;
using ::flashcore_fminf;
}  // namespace std
#define fmaxf flashcore_fmaxf
#define fminf flashcore_fminf

__forceinline__ float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
__forceinline__ double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
__forceinline__ float rcbrtf(float x) { return 1.0f / cbrtf(x); }
__forceinline__ float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
__forceinline__ float fdividef(float a, float b) { return a / b; }
__forceinline__ float __fdividef(float a, float b) { return a / b; }
#if !defined(__APPLE__)
__forceinline__ float __expf(float x) { return expf(x); }
__forceinline__ float __exp10f(float x) { return exp2f(x * 3.3219280948873623f); }
__forceinline__ float __logf(float x) { return logf(x); }
__forceinline__ float __log2f(float x) { return log2f(x); }
__forceinline__ float __log10f(float x) { return log10f(x); }
__forceinline__ float __powf(float x, float y) { return powf(x, y); }
__forceinline__ float __sinf(float x) { return sinf(x); }
__forceinline__ float __cosf(float x) { return cosf(x); }
__forceinline__ float __tanf(float x) { return tanf(x); }
#endif

namespace flashcore::emu {
/** Hides where a value comes from, so that the compiler cannot fuse it into a multiply-add. */
__forceinline__ float separate(float x) {
#if defined(__x86_64__)
  __asm__("" : "+x"(x));
#else
  __asm__("" : "+w"(x));
#endif
  return x;
}
}  // namespace flashcore::emu
__forceinline__ float __fadd_rn(float a, float b) {
  return flashcore::emu::separate(flashcore::emu::separate(a) + flashcore::emu::separate(b));
}
__forceinline__ float __fsub_rn(float a, float b) {
  return flashcore::emu::separate(flashcore::emu::separate(a) - flashcore::emu::separate(b));
}
__forceinline__ float __fmul_rn(float a, float b) { return flashcore::emu::separate(a * b); }
__forceinline__ float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__forceinline__ float __fdiv_rn(float a, float b) { return a / b; }
__forceinline__ float __frcp_rn(float a) { return 1.0f / a; }
__forceinline__ float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
__forceinline__ float __frsqrt_rn(float a) { return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(a))); }

template <class To, class From>
__forceinline__ To flashcore_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
__forceinline__ int __float_as_int(float x) { return flashcore_bits<int>(x); }
__forceinline__ unsigned __float_as_uint(float x) { return flashcore_bits<unsigned>(x); }
__forceinline__ float __int_as_float(int x) { return flashcore_bits<float>(x); }
__forceinline__ float __uint_as_float(unsigned x) { return flashcore_bits<float>(x); }
__forceinline__ long long __double_as_longlong(double x) { return flashcore_bits<long long>(x); }
__forceinline__ double __longlong_as_double(long long x) { return flashcore_bits<double>(x); }

/** Saturates and turns NaN into 0, as cvt does; a C++ cast is undefined for these values. */
template <class To>
__forceinline__ To flashcore_saturate(float rounded) {
  if (rounded != rounded) return 0;
  if (rounded <= static_cast<float>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  if (rounded >= static_cast<float>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
  return static_cast<To>(rounded);
}
__forceinline__ int __float2int_rn(float x) { return flashcore_saturate<int>(__builtin_rintf(x)); }
__forceinline__ int __float2int_rz(float x) { return flashcore_saturate<int>(__builtin_truncf(x)); }
__forceinline__ int __float2int_rd(float x) { return flashcore_saturate<int>(__builtin_floorf(x)); }
__forceinline__ int __float2int_ru(float x) { return flashcore_saturate<int>(__builtin_ceilf(x)); }
__forceinline__ unsigned __float2uint_rn(float x) { return flashcore_saturate<unsigned>(__builtin_rintf(x)); }
__forceinline__ unsigned __float2uint_rz(float x) { return flashcore_saturate<unsigned>(__builtin_truncf(x)); }
__forceinline__ float __int2float_rn(int x) { return static_cast<float>(x); }
__forceinline__ float __uint2float_rn(unsigned x) { return static_cast<float>(x); }

__forceinline__ int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
__forceinline__ int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
__forceinline__ int __ffs(int x) { return __builtin_ffs(x); }
__forceinline__ int __ffsll(long long x) { return __builtin_ffsll(x); }
__forceinline__ int __popc(unsigned x) { return __builtin_popcount(x); }
__forceinline__ int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
__forceinline__ unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1u) << (31 - bit);
  return reversed;
}
__forceinline__ unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((uint64_t(a) * b) >> 32); }
__forceinline__ int __mulhi(int a, int b) { return static_cast<int>((int64_t(a) * b) >> 32); }
__forceinline__ int __mul24(int a, int b) { return static_cast<int>((int64_t(a << 8) >> 8) * (int64_t(b << 8) >> 8)); }
__forceinline__ unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t bytes = uint64_t(high) << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned choice = selector >> (4 * i) & 0xf;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (choice & 7))) & 0xff;
    if (choice & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
__forceinline__ unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t(high) << 32 | low) << (shift & 31) >> 32);
}
__forceinline__ unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t(high) << 32 | low) >> (shift & 31));
}

__forceinline__ long long clock64() { return static_cast<long long>(flashcore_emu_nanoseconds()); }
__forceinline__ unsigned long long __globaltimer() { return flashcore_emu_nanoseconds(); }
