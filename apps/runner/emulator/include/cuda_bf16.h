// bf16 arithmetic: every operation is done in float and rounded once to 16 bits, which gives the correctly rounded
// result of + - * / and sqrt; fused multiply-add goes through a sticky bit.
#pragma once
#include "flashcore_emulator/atomics.h"
#include "flashcore_emulator/half_bits.h"
#include "flashcore_emulator/intrinsics.h"
#include "flashcore_emulator/warp.h"

struct __nv_bfloat16_raw {
    unsigned short x;
};

struct alignas(2) __nv_bfloat16 {
    unsigned short __x;

    __nv_bfloat16() = default;
    constexpr __nv_bfloat16(const __nv_bfloat16_raw& raw) : __x(raw.x) {}
    __forceinline__ __nv_bfloat16(float value) : __x(flashcore::emu::float_to_bfloat16(value)) {}
    __forceinline__ __nv_bfloat16(double value) : __x(flashcore::emu::float_to_bfloat16(static_cast<float>(value))) {}
    __forceinline__ __nv_bfloat16(int value) : __nv_bfloat16(static_cast<float>(value)) {}
    __forceinline__ __nv_bfloat16(unsigned value) : __nv_bfloat16(static_cast<float>(value)) {}
    __forceinline__ __nv_bfloat16(long long value) : __nv_bfloat16(static_cast<float>(value)) {}
    __forceinline__ __nv_bfloat16(unsigned long long value) : __nv_bfloat16(static_cast<float>(value)) {}
    __forceinline__ operator float() const { return flashcore::emu::bfloat16_to_float(__x); }
    operator __nv_bfloat16_raw() const { return {__x}; }
    __forceinline__ __nv_bfloat16& operator=(float value) { return *this = __nv_bfloat16(value); }

    static constexpr __nv_bfloat16 from_bits(unsigned short bits) { return __nv_bfloat16(__nv_bfloat16_raw{bits}); }
};

struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
    FLASHCORE_CHECKED_COPY(__nv_bfloat162, 4)
    __forceinline__ __nv_bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) : x(low), y(high) {}
};

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

// --- conversions ----------------------------------------------------------------------------------------------

__forceinline__ float __bfloat162float(__nv_bfloat16 a) { return flashcore::emu::bfloat16_to_float(a.__x); }
__forceinline__ __nv_bfloat16 __float2bfloat16(float a) { return __nv_bfloat16::from_bits(flashcore::emu::float_to_bfloat16(a)); }
__forceinline__ __nv_bfloat16 __float2bfloat16_rn(float a) { return __float2bfloat16(a); }
inline __nv_bfloat16 __float2bfloat16_rz(float a) { return __nv_bfloat16::from_bits(flashcore::emu::float_to_bfloat16_directed(a, 0)); }
inline __nv_bfloat16 __float2bfloat16_rd(float a) { return __nv_bfloat16::from_bits(flashcore::emu::float_to_bfloat16_directed(a, -1)); }
inline __nv_bfloat16 __float2bfloat16_ru(float a) { return __nv_bfloat16::from_bits(flashcore::emu::float_to_bfloat16_directed(a, 1)); }
__forceinline__ __nv_bfloat16 __double2bfloat16(double a) { return __float2bfloat16(static_cast<float>(a)); }
__forceinline__ __nv_bfloat16 __int2bfloat16_rn(int a) { return __float2bfloat16(static_cast<float>(a)); }
__forceinline__ __nv_bfloat16 __uint2bfloat16_rn(unsigned a) { return __float2bfloat16(static_cast<float>(a)); }
__forceinline__ int __bfloat162int_rn(__nv_bfloat16 a) { return __float2int_rn(__bfloat162float(a)); }
__forceinline__ int __bfloat162int_rz(__nv_bfloat16 a) { return __float2int_rz(__bfloat162float(a)); }
__forceinline__ int __bfloat162int_rd(__nv_bfloat16 a) { return __float2int_rd(__bfloat162float(a)); }
__forceinline__ int __bfloat162int_ru(__nv_bfloat16 a) { return __float2int_ru(__bfloat162float(a)); }
__forceinline__ unsigned short __bfloat16_as_ushort(__nv_bfloat16 a) { return a.__x; }
__forceinline__ short __bfloat16_as_short(__nv_bfloat16 a) { return static_cast<short>(a.__x); }
__forceinline__ __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16::from_bits(bits); }
__forceinline__ __nv_bfloat16 __short_as_bfloat16(short bits) { return __nv_bfloat16::from_bits(static_cast<unsigned short>(bits)); }

__forceinline__ __nv_bfloat162 __floats2bfloat162_rn(float low, float high) { return __nv_bfloat162(__float2bfloat16(low), __float2bfloat16(high)); }
__forceinline__ __nv_bfloat162 __float22bfloat162_rn(float2 a) { return __floats2bfloat162_rn(a.x, a.y); }
__forceinline__ __nv_bfloat162 __float2bfloat162_rn(float a) { return __floats2bfloat162_rn(a, a); }
__forceinline__ float2 __bfloat1622float2(__nv_bfloat162 a) { return float2(__bfloat162float(a.x), __bfloat162float(a.y)); }
__forceinline__ float __low2float(__nv_bfloat162 a) { return __bfloat162float(a.x); }
__forceinline__ float __high2float(__nv_bfloat162 a) { return __bfloat162float(a.y); }
__forceinline__ __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
__forceinline__ __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
__forceinline__ __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(a.x, b.x); }
__forceinline__ __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(a.y, b.y); }
__forceinline__ __nv_bfloat162 __low2bfloat162(__nv_bfloat162 a) { return __nv_bfloat162(a.x, a.x); }
__forceinline__ __nv_bfloat162 __high2bfloat162(__nv_bfloat162 a) { return __nv_bfloat162(a.y, a.y); }
__forceinline__ __nv_bfloat162 __lowhigh2highlow(__nv_bfloat162 a) { return __nv_bfloat162(a.y, a.x); }
__forceinline__ __nv_bfloat162 make_bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) { return __nv_bfloat162(low, high); }

// --- arithmetic -----------------------------------------------------------------------------------------------

__forceinline__ __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) { return __float2bfloat16(__bfloat162float(a) + __bfloat162float(b)); }
__forceinline__ __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b) { return __float2bfloat16(__bfloat162float(a) - __bfloat162float(b)); }
__forceinline__ __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) { return __float2bfloat16(__bfloat162float(a) * __bfloat162float(b)); }
__forceinline__ __nv_bfloat16 __hdiv(__nv_bfloat16 a, __nv_bfloat16 b) { return __float2bfloat16(__bfloat162float(a) / __bfloat162float(b)); }
__forceinline__ __nv_bfloat16 __hadd_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return __hadd(a, b); }
__forceinline__ __nv_bfloat16 __hsub_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return __hsub(a, b); }
__forceinline__ __nv_bfloat16 __hmul_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return __hmul(a, b); }
__forceinline__ __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    return __float2bfloat16(flashcore::emu::fused_to_odd(__bfloat162float(a), __bfloat162float(b), __bfloat162float(c)));
}
__forceinline__ __nv_bfloat16 __hneg(__nv_bfloat16 a) { return __nv_bfloat16::from_bits(a.__x ^ 0x8000); }
__forceinline__ __nv_bfloat16 __habs(__nv_bfloat16 a) { return __nv_bfloat16::from_bits(a.__x & 0x7fff); }
__forceinline__ bool __hisnan(__nv_bfloat16 a) { return (a.__x & 0x7fff) > 0x7f80; }
__forceinline__ int __hisinf(__nv_bfloat16 a) { return (a.__x & 0x7fff) == 0x7f80 ? (a.__x & 0x8000 ? -1 : 1) : 0; }
__forceinline__ __nv_bfloat16 __hmax(__nv_bfloat16 a, __nv_bfloat16 b) { return __float2bfloat16(flashcore_fmaxf(__bfloat162float(a), __bfloat162float(b))); }
__forceinline__ __nv_bfloat16 __hmin(__nv_bfloat16 a, __nv_bfloat16 b) { return __float2bfloat16(flashcore_fminf(__bfloat162float(a), __bfloat162float(b))); }
__forceinline__ __nv_bfloat16 __hmax_nan(__nv_bfloat16 a, __nv_bfloat16 b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b); }
__forceinline__ __nv_bfloat16 __hmin_nan(__nv_bfloat16 a, __nv_bfloat16 b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b); }

#define FLASHCORE_COMPARE(NAME, OPERATOR)                                                                    \
    __forceinline__ bool __h##NAME(__nv_bfloat16 a, __nv_bfloat16 b) { return __bfloat162float(a) OPERATOR __bfloat162float(b); }           \
    __forceinline__ bool operator OPERATOR(__nv_bfloat16 a, __nv_bfloat16 b) { return __bfloat162float(a) OPERATOR __bfloat162float(b); }
FLASHCORE_COMPARE(eq, ==)
FLASHCORE_COMPARE(ne, !=)
FLASHCORE_COMPARE(lt, <)
FLASHCORE_COMPARE(le, <=)
FLASHCORE_COMPARE(gt, >)
FLASHCORE_COMPARE(ge, >=)
#undef FLASHCORE_COMPARE

__forceinline__ __nv_bfloat16 operator+(__nv_bfloat16 a, __nv_bfloat16 b) { return __hadd(a, b); }
__forceinline__ __nv_bfloat16 operator-(__nv_bfloat16 a, __nv_bfloat16 b) { return __hsub(a, b); }
__forceinline__ __nv_bfloat16 operator*(__nv_bfloat16 a, __nv_bfloat16 b) { return __hmul(a, b); }
__forceinline__ __nv_bfloat16 operator/(__nv_bfloat16 a, __nv_bfloat16 b) { return __hdiv(a, b); }
__forceinline__ __nv_bfloat16 operator-(__nv_bfloat16 a) { return __hneg(a); }
__forceinline__ __nv_bfloat16 operator+(__nv_bfloat16 a) { return a; }
__forceinline__ __nv_bfloat16& operator+=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = __hadd(a, b); }
__forceinline__ __nv_bfloat16& operator-=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = __hsub(a, b); }
__forceinline__ __nv_bfloat16& operator*=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = __hmul(a, b); }
__forceinline__ __nv_bfloat16& operator/=(__nv_bfloat16& a, __nv_bfloat16 b) { return a = __hdiv(a, b); }

#define FLASHCORE_BOTH2(NAME2, NAME) \
    __forceinline__ __nv_bfloat162 NAME2(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(NAME(a.x, b.x), NAME(a.y, b.y)); }
#define FLASHCORE_BOTH1(NAME2, NAME) \
    __forceinline__ __nv_bfloat162 NAME2(__nv_bfloat162 a) { return __nv_bfloat162(NAME(a.x), NAME(a.y)); }
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
__forceinline__ __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) { return __nv_bfloat162(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }
__forceinline__ bool __hbeq2(__nv_bfloat162 a, __nv_bfloat162 b) { return __heq(a.x, b.x) && __heq(a.y, b.y); }
__forceinline__ __nv_bfloat162 operator+(__nv_bfloat162 a, __nv_bfloat162 b) { return __hadd2(a, b); }
__forceinline__ __nv_bfloat162 operator-(__nv_bfloat162 a, __nv_bfloat162 b) { return __hsub2(a, b); }
__forceinline__ __nv_bfloat162 operator*(__nv_bfloat162 a, __nv_bfloat162 b) { return __hmul2(a, b); }
__forceinline__ __nv_bfloat162 operator/(__nv_bfloat162 a, __nv_bfloat162 b) { return __h2div(a, b); }
__forceinline__ __nv_bfloat162& operator+=(__nv_bfloat162& a, __nv_bfloat162 b) { return a = __hadd2(a, b); }
__forceinline__ __nv_bfloat162& operator-=(__nv_bfloat162& a, __nv_bfloat162 b) { return a = __hsub2(a, b); }
__forceinline__ __nv_bfloat162& operator*=(__nv_bfloat162& a, __nv_bfloat162 b) { return a = __hmul2(a, b); }

// --- functions ------------------------------------------------------------------------------------------------

#define FLASHCORE_FUNCTION(NAME, NAME2, EXPRESSION)                                     \
    inline __nv_bfloat16 NAME(__nv_bfloat16 a) {                                                            \
        const float x = __bfloat162float(a);                                                 \
        return __float2bfloat16(EXPRESSION);                                                 \
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

__forceinline__ __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return __nv_bfloat162(a, a); }
__forceinline__ __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) { return __nv_bfloat162(low, high); }
