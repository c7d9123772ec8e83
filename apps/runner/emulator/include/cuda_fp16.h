// fp16 arithmetic: every operation is done in float and rounded once to 16 bits, which gives the correctly rounded
// result of + - * / and sqrt; fused multiply-add goes through a sticky bit.
#pragma once
#include "flashcore_emulator/atomics.h"
#include "flashcore_emulator/half_bits.h"
#include "flashcore_emulator/intrinsics.h"
#include "flashcore_emulator/warp.h"

struct __half_raw {
    unsigned short x;
};

struct alignas(2) __half {
    unsigned short __x;

    __half() = default;
    constexpr __half(const __half_raw& raw) : __x(raw.x) {}
    __forceinline__ __half(float value) : __x(flashcore::emu::float_to_half(value)) {}
    __forceinline__ __half(double value) : __x(flashcore::emu::float_to_half(static_cast<float>(value))) {}
    __forceinline__ __half(int value) : __half(static_cast<float>(value)) {}
    __forceinline__ __half(unsigned value) : __half(static_cast<float>(value)) {}
    __forceinline__ __half(long long value) : __half(static_cast<float>(value)) {}
    __forceinline__ __half(unsigned long long value) : __half(static_cast<float>(value)) {}
    __forceinline__ operator float() const { return flashcore::emu::half_to_float(__x); }
    operator __half_raw() const { return {__x}; }
    __forceinline__ __half& operator=(float value) { return *this = __half(value); }

    static constexpr __half from_bits(unsigned short bits) { return __half(__half_raw{bits}); }
};

struct alignas(4) __half2 {
    __half x, y;
    FLASHCORE_CHECKED_COPY(__half2, 4)
    __forceinline__ __half2(__half low, __half high) : x(low), y(high) {}
};

using half = __half;
using half2 = __half2;

// --- conversions ----------------------------------------------------------------------------------------------

__forceinline__ float __half2float(__half a) { return flashcore::emu::half_to_float(a.__x); }
__forceinline__ __half __float2half(float a) { return __half::from_bits(flashcore::emu::float_to_half(a)); }
__forceinline__ __half __float2half_rn(float a) { return __float2half(a); }
inline __half __float2half_rz(float a) { return __half::from_bits(flashcore::emu::float_to_half_directed(a, 0)); }
inline __half __float2half_rd(float a) { return __half::from_bits(flashcore::emu::float_to_half_directed(a, -1)); }
inline __half __float2half_ru(float a) { return __half::from_bits(flashcore::emu::float_to_half_directed(a, 1)); }
__forceinline__ __half __double2half(double a) { return __float2half(static_cast<float>(a)); }
__forceinline__ __half __int2half_rn(int a) { return __float2half(static_cast<float>(a)); }
__forceinline__ __half __uint2half_rn(unsigned a) { return __float2half(static_cast<float>(a)); }
__forceinline__ int __half2int_rn(__half a) { return __float2int_rn(__half2float(a)); }
__forceinline__ int __half2int_rz(__half a) { return __float2int_rz(__half2float(a)); }
__forceinline__ int __half2int_rd(__half a) { return __float2int_rd(__half2float(a)); }
__forceinline__ int __half2int_ru(__half a) { return __float2int_ru(__half2float(a)); }
__forceinline__ unsigned short __half_as_ushort(__half a) { return a.__x; }
__forceinline__ short __half_as_short(__half a) { return static_cast<short>(a.__x); }
__forceinline__ __half __ushort_as_half(unsigned short bits) { return __half::from_bits(bits); }
__forceinline__ __half __short_as_half(short bits) { return __half::from_bits(static_cast<unsigned short>(bits)); }

__forceinline__ __half2 __floats2half2_rn(float low, float high) { return __half2(__float2half(low), __float2half(high)); }
__forceinline__ __half2 __float22half2_rn(float2 a) { return __floats2half2_rn(a.x, a.y); }
__forceinline__ __half2 __float2half2_rn(float a) { return __floats2half2_rn(a, a); }
__forceinline__ float2 __half22float2(__half2 a) { return float2(__half2float(a.x), __half2float(a.y)); }
__forceinline__ float __low2float(__half2 a) { return __half2float(a.x); }
__forceinline__ float __high2float(__half2 a) { return __half2float(a.y); }
__forceinline__ __half __low2half(__half2 a) { return a.x; }
__forceinline__ __half __high2half(__half2 a) { return a.y; }
__forceinline__ __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
__forceinline__ __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }
__forceinline__ __half2 __low2half2(__half2 a) { return __half2(a.x, a.x); }
__forceinline__ __half2 __high2half2(__half2 a) { return __half2(a.y, a.y); }
__forceinline__ __half2 __lowhigh2highlow(__half2 a) { return __half2(a.y, a.x); }
__forceinline__ __half2 make_half2(__half low, __half high) { return __half2(low, high); }

// --- arithmetic -----------------------------------------------------------------------------------------------

__forceinline__ __half __hadd(__half a, __half b) { return __float2half(__half2float(a) + __half2float(b)); }
__forceinline__ __half __hsub(__half a, __half b) { return __float2half(__half2float(a) - __half2float(b)); }
__forceinline__ __half __hmul(__half a, __half b) { return __float2half(__half2float(a) * __half2float(b)); }
__forceinline__ __half __hdiv(__half a, __half b) { return __float2half(__half2float(a) / __half2float(b)); }
__forceinline__ __half __hadd_rn(__half a, __half b) { return __hadd(a, b); }
__forceinline__ __half __hsub_rn(__half a, __half b) { return __hsub(a, b); }
__forceinline__ __half __hmul_rn(__half a, __half b) { return __hmul(a, b); }
__forceinline__ __half __hfma(__half a, __half b, __half c) {
    return __float2half(flashcore::emu::fused_to_odd(__half2float(a), __half2float(b), __half2float(c)));
}
__forceinline__ __half __hneg(__half a) { return __half::from_bits(a.__x ^ 0x8000); }
__forceinline__ __half __habs(__half a) { return __half::from_bits(a.__x & 0x7fff); }
__forceinline__ bool __hisnan(__half a) { return (a.__x & 0x7fff) > 0x7c00; }
__forceinline__ int __hisinf(__half a) { return (a.__x & 0x7fff) == 0x7c00 ? (a.__x & 0x8000 ? -1 : 1) : 0; }
__forceinline__ __half __hmax(__half a, __half b) { return __float2half(flashcore_fmaxf(__half2float(a), __half2float(b))); }
__forceinline__ __half __hmin(__half a, __half b) { return __float2half(flashcore_fminf(__half2float(a), __half2float(b))); }
__forceinline__ __half __hmax_nan(__half a, __half b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b); }
__forceinline__ __half __hmin_nan(__half a, __half b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b); }

#define FLASHCORE_COMPARE(NAME, OPERATOR)                                                                    \
    __forceinline__ bool __h##NAME(__half a, __half b) { return __half2float(a) OPERATOR __half2float(b); }           \
    __forceinline__ bool operator OPERATOR(__half a, __half b) { return __half2float(a) OPERATOR __half2float(b); }
FLASHCORE_COMPARE(eq, ==)
FLASHCORE_COMPARE(ne, !=)
FLASHCORE_COMPARE(lt, <)
FLASHCORE_COMPARE(le, <=)
FLASHCORE_COMPARE(gt, >)
FLASHCORE_COMPARE(ge, >=)
#undef FLASHCORE_COMPARE

__forceinline__ __half operator+(__half a, __half b) { return __hadd(a, b); }
__forceinline__ __half operator-(__half a, __half b) { return __hsub(a, b); }
__forceinline__ __half operator*(__half a, __half b) { return __hmul(a, b); }
__forceinline__ __half operator/(__half a, __half b) { return __hdiv(a, b); }
__forceinline__ __half operator-(__half a) { return __hneg(a); }
__forceinline__ __half operator+(__half a) { return a; }
__forceinline__ __half& operator+=(__half& a, __half b) { return a = __hadd(a, b); }
__forceinline__ __half& operator-=(__half& a, __half b) { return a = __hsub(a, b); }
__forceinline__ __half& operator*=(__half& a, __half b) { return a = __hmul(a, b); }
__forceinline__ __half& operator/=(__half& a, __half b) { return a = __hdiv(a, b); }

#define FLASHCORE_BOTH2(NAME2, NAME) \
    __forceinline__ __half2 NAME2(__half2 a, __half2 b) { return __half2(NAME(a.x, b.x), NAME(a.y, b.y)); }
#define FLASHCORE_BOTH1(NAME2, NAME) \
    __forceinline__ __half2 NAME2(__half2 a) { return __half2(NAME(a.x), NAME(a.y)); }
FLASHCORE_BOTH2(__hadd2, __hadd)
FLASHCORE_BOTH2(__hsub2, __hsub)
FLASHCORE_BOTH2(__hmul2, __hmul)
FLASHCORE_BOTH2(__h2div, __hdiv)
FLASHCORE_BOTH2(__hadd2_rn, __hadd)
FLASHCORE_BOTH2(__hsub2_rn, __hsub)
FLASHCORE_BOTH2(__hmul2_rn, __hmul)
FLASHCORE_BOTH2(__hmax2, __hmax)
FLASHCORE_BOTH2(__hmin2, __hmin)
FLASHCORE_BOTH1(__hneg2, __hneg)
FLASHCORE_BOTH1(__habs2, __habs)
__forceinline__ __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return __half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }
__forceinline__ bool __hbeq2(__half2 a, __half2 b) { return __heq(a.x, b.x) && __heq(a.y, b.y); }
__forceinline__ __half2 operator+(__half2 a, __half2 b) { return __hadd2(a, b); }
__forceinline__ __half2 operator-(__half2 a, __half2 b) { return __hsub2(a, b); }
__forceinline__ __half2 operator*(__half2 a, __half2 b) { return __hmul2(a, b); }
__forceinline__ __half2 operator/(__half2 a, __half2 b) { return __h2div(a, b); }
__forceinline__ __half2& operator+=(__half2& a, __half2 b) { return a = __hadd2(a, b); }
__forceinline__ __half2& operator-=(__half2& a, __half2 b) { return a = __hsub2(a, b); }
__forceinline__ __half2& operator*=(__half2& a, __half2 b) { return a = __hmul2(a, b); }

// --- functions ------------------------------------------------------------------------------------------------

#define FLASHCORE_FUNCTION(NAME, NAME2, EXPRESSION)                                     \
    inline __half NAME(__half a) {                                                            \
        const float x = __half2float(a);                                                 \
        return __float2half(EXPRESSION);                                                 \
    }                                                                                   \
    FLASHCORE_BOTH1(NAME2, NAME)
FLASHCORE_FUNCTION(hexp, h2exp, expf(x))
FLASHCORE_FUNCTION(hexp2, h2exp2, exp2f(x))
FLASHCORE_FUNCTION(hexp10, h2exp10, static_cast<float>(::pow(10.0, static_cast<double>(x))))
FLASHCORE_FUNCTION(hlog, h2log, logf(x))
FLASHCORE_FUNCTION(hlog2, h2log2, log2f(x))
FLASHCORE_FUNCTION(hlog10, h2log10, log10f(x))
FLASHCORE_FUNCTION(hsqrt, h2sqrt, __builtin_sqrtf(x))
FLASHCORE_FUNCTION(hrsqrt, h2rsqrt, rsqrtf(x))
FLASHCORE_FUNCTION(hrcp, h2rcp, 1.0f / x)
FLASHCORE_FUNCTION(hsin, h2sin, sinf(x))
FLASHCORE_FUNCTION(hcos, h2cos, cosf(x))
FLASHCORE_FUNCTION(htanh, h2tanh, tanhf(x))
FLASHCORE_FUNCTION(hfloor, h2floor, floorf(x))
FLASHCORE_FUNCTION(hceil, h2ceil, ceilf(x))
FLASHCORE_FUNCTION(hrint, h2rint, __builtin_rintf(x))
FLASHCORE_FUNCTION(htrunc, h2trunc, truncf(x))
#undef FLASHCORE_FUNCTION
#undef FLASHCORE_BOTH1
#undef FLASHCORE_BOTH2

__forceinline__ __half2 __half2half2(__half a) { return __half2(a, a); }
__forceinline__ __half2 __halves2half2(__half low, __half high) { return __half2(low, high); }
using __nv_half = __half;
using __nv_half2 = __half2;
