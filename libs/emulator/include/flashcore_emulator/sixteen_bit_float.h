// A 16-bit floating-point format and its pair, as in CUDA's headers. Included once per format, by cuda_fp16.h and
// cuda_bf16.h, which define
//   FLASHCORE_FORMAT   half, bfloat16: used in the names of functions (__half2float, __bfloat162float)
//   FLASHCORE_SCALAR, FLASHCORE_PAIR, FLASHCORE_RAW   its types
//   FLASHCORE_INFINITY   the bits of infinity
// Every operation is done in float and rounded once to 16 bits, which gives the correctly rounded result of + - * / and
// sqrt. Fused multiply-add uses a sticky bit.
#define FLASHCORE_JOIN3(A, B, C) A##B##C
#define FLASHCORE_JOIN5(A, B, C, D, E) A##B##C##D##E
#define FLASHCORE_NAMED(PREFIX, FORMAT, SUFFIX) FLASHCORE_JOIN3(PREFIX, FORMAT, SUFFIX)
#define FLASHCORE_NAMED2(PREFIX, FORMAT, BETWEEN, SUFFIX) FLASHCORE_JOIN5(PREFIX, FORMAT, BETWEEN, FORMAT, SUFFIX)
#define FLASHCORE_NAME(PREFIX, SUFFIX) FLASHCORE_NAMED(PREFIX, FLASHCORE_FORMAT, SUFFIX)
#define FLASHCORE_NAME2(PREFIX, BETWEEN, SUFFIX) FLASHCORE_NAMED2(PREFIX, FLASHCORE_FORMAT, BETWEEN, SUFFIX)

struct FLASHCORE_RAW {
  unsigned short x;
};

struct alignas(2) FLASHCORE_SCALAR {
  unsigned short __x;

  FLASHCORE_SCALAR() = default;
  constexpr FLASHCORE_SCALAR(const FLASHCORE_RAW& raw) : __x(raw.x) {}
  __forceinline__ FLASHCORE_SCALAR(float value) : __x(flashcore::emu::FLASHCORE_NAME(float_to_, )(value)) {}
  __forceinline__ FLASHCORE_SCALAR(double value)
      : __x(flashcore::emu::FLASHCORE_NAME(float_to_, )(static_cast<float>(value))) {}
  __forceinline__ FLASHCORE_SCALAR(int value) : FLASHCORE_SCALAR(static_cast<float>(value)) {}
  __forceinline__ FLASHCORE_SCALAR(unsigned value) : FLASHCORE_SCALAR(static_cast<float>(value)) {}
  __forceinline__ FLASHCORE_SCALAR(long long value) : FLASHCORE_SCALAR(static_cast<float>(value)) {}
  __forceinline__ FLASHCORE_SCALAR(unsigned long long value) : FLASHCORE_SCALAR(static_cast<float>(value)) {}
  __forceinline__ operator float() const { return flashcore::emu::FLASHCORE_NAME(, _to_float)(__x); }
  operator FLASHCORE_RAW() const { return {__x}; }
  __forceinline__ FLASHCORE_SCALAR& operator=(float value) { return *this = FLASHCORE_SCALAR(value); }

  static constexpr FLASHCORE_SCALAR from_bits(unsigned short bits) { return FLASHCORE_SCALAR(FLASHCORE_RAW{bits}); }
};

struct alignas(4) FLASHCORE_PAIR {
  FLASHCORE_SCALAR x, y;
  FLASHCORE_CHECKED_COPY(FLASHCORE_PAIR, 4)
  __forceinline__ FLASHCORE_PAIR(FLASHCORE_SCALAR low, FLASHCORE_SCALAR high) : x(low), y(high) {}
};

// --- conversions ----------------------------------------------------------------------------------------------

__forceinline__ float FLASHCORE_NAME(__, 2float)(FLASHCORE_SCALAR a) {
  return flashcore::emu::FLASHCORE_NAME(, _to_float)(a.__x);
}
__forceinline__ FLASHCORE_SCALAR FLASHCORE_NAME(__float2, )(float a) {
  return FLASHCORE_SCALAR::from_bits(flashcore::emu::FLASHCORE_NAME(float_to_, )(a));
}
__forceinline__ FLASHCORE_SCALAR FLASHCORE_NAME(__float2, _rn)(float a) { return FLASHCORE_NAME(__float2, )(a); }
inline FLASHCORE_SCALAR FLASHCORE_NAME(__float2, _rz)(float a) {
  return FLASHCORE_SCALAR::from_bits(flashcore::emu::FLASHCORE_NAME(float_to_, _directed)(a, 0));
}
inline FLASHCORE_SCALAR FLASHCORE_NAME(__float2, _rd)(float a) {
  return FLASHCORE_SCALAR::from_bits(flashcore::emu::FLASHCORE_NAME(float_to_, _directed)(a, -1));
}
inline FLASHCORE_SCALAR FLASHCORE_NAME(__float2, _ru)(float a) {
  return FLASHCORE_SCALAR::from_bits(flashcore::emu::FLASHCORE_NAME(float_to_, _directed)(a, 1));
}
__forceinline__ FLASHCORE_SCALAR FLASHCORE_NAME(__double2, )(double a) {
  return FLASHCORE_NAME(__float2, )(static_cast<float>(a));
}
__forceinline__ FLASHCORE_SCALAR FLASHCORE_NAME(__int2, _rn)(int a) {
  return FLASHCORE_NAME(__float2, )(static_cast<float>(a));
}
__forceinline__ FLASHCORE_SCALAR FLASHCORE_NAME(__uint2, _rn)(unsigned a) {
  return FLASHCORE_NAME(__float2, )(static_cast<float>(a));
}
__forceinline__ int FLASHCORE_NAME(__, 2int_rn)(FLASHCORE_SCALAR a) {
  return __float2int_rn(FLASHCORE_NAME(__, 2float)(a));
}
__forceinline__ int FLASHCORE_NAME(__, 2int_rz)(FLASHCORE_SCALAR a) {
  return __float2int_rz(FLASHCORE_NAME(__, 2float)(a));
}
__forceinline__ int FLASHCORE_NAME(__, 2int_rd)(FLASHCORE_SCALAR a) {
  return __float2int_rd(FLASHCORE_NAME(__, 2float)(a));
}
__forceinline__ int FLASHCORE_NAME(__, 2int_ru)(FLASHCORE_SCALAR a) {
  return __float2int_ru(FLASHCORE_NAME(__, 2float)(a));
}
__forceinline__ unsigned short FLASHCORE_NAME(__, _as_ushort)(FLASHCORE_SCALAR a) { return a.__x; }
__forceinline__ short FLASHCORE_NAME(__, _as_short)(FLASHCORE_SCALAR a) { return static_cast<short>(a.__x); }
__forceinline__ FLASHCORE_SCALAR FLASHCORE_NAME(__ushort_as_, )(unsigned short bits) {
  return FLASHCORE_SCALAR::from_bits(bits);
}
__forceinline__ FLASHCORE_SCALAR FLASHCORE_NAME(__short_as_, )(short bits) {
  return FLASHCORE_SCALAR::from_bits(static_cast<unsigned short>(bits));
}

__forceinline__ FLASHCORE_PAIR FLASHCORE_NAME(__floats2, 2_rn)(float low, float high) {
  return FLASHCORE_PAIR(FLASHCORE_NAME(__float2, )(low), FLASHCORE_NAME(__float2, )(high));
}
__forceinline__ FLASHCORE_PAIR FLASHCORE_NAME(__float22, 2_rn)(float2 a) {
  return FLASHCORE_NAME(__floats2, 2_rn)(a.x, a.y);
}
__forceinline__ FLASHCORE_PAIR FLASHCORE_NAME(__float2, 2_rn)(float a) { return FLASHCORE_NAME(__floats2, 2_rn)(a, a); }
__forceinline__ float2 FLASHCORE_NAME(__, 22float2)(FLASHCORE_PAIR a) {
  return float2(FLASHCORE_NAME(__, 2float)(a.x), FLASHCORE_NAME(__, 2float)(a.y));
}
__forceinline__ float __low2float(FLASHCORE_PAIR a) { return FLASHCORE_NAME(__, 2float)(a.x); }
__forceinline__ float __high2float(FLASHCORE_PAIR a) { return FLASHCORE_NAME(__, 2float)(a.y); }
__forceinline__ FLASHCORE_SCALAR FLASHCORE_NAME(__low2, )(FLASHCORE_PAIR a) { return a.x; }
__forceinline__ FLASHCORE_SCALAR FLASHCORE_NAME(__high2, )(FLASHCORE_PAIR a) { return a.y; }
__forceinline__ FLASHCORE_PAIR FLASHCORE_NAME(__lows2, 2)(FLASHCORE_PAIR a, FLASHCORE_PAIR b) {
  return FLASHCORE_PAIR(a.x, b.x);
}
__forceinline__ FLASHCORE_PAIR FLASHCORE_NAME(__highs2, 2)(FLASHCORE_PAIR a, FLASHCORE_PAIR b) {
  return FLASHCORE_PAIR(a.y, b.y);
}
__forceinline__ FLASHCORE_PAIR FLASHCORE_NAME(__low2, 2)(FLASHCORE_PAIR a) { return FLASHCORE_PAIR(a.x, a.x); }
__forceinline__ FLASHCORE_PAIR FLASHCORE_NAME(__high2, 2)(FLASHCORE_PAIR a) { return FLASHCORE_PAIR(a.y, a.y); }
__forceinline__ FLASHCORE_PAIR __lowhigh2highlow(FLASHCORE_PAIR a) { return FLASHCORE_PAIR(a.y, a.x); }
__forceinline__ FLASHCORE_PAIR FLASHCORE_NAME(make_, 2)(FLASHCORE_SCALAR low, FLASHCORE_SCALAR high) {
  return FLASHCORE_PAIR(low, high);
}

#define FLASHCORE_WIDEN FLASHCORE_NAME(__, 2float)
#define FLASHCORE_NARROW FLASHCORE_NAME(__float2, )

// --- arithmetic -----------------------------------------------------------------------------------------------

__forceinline__ FLASHCORE_SCALAR __hadd(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) {
  return FLASHCORE_NARROW(FLASHCORE_WIDEN(a) + FLASHCORE_WIDEN(b));
}
__forceinline__ FLASHCORE_SCALAR __hsub(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) {
  return FLASHCORE_NARROW(FLASHCORE_WIDEN(a) - FLASHCORE_WIDEN(b));
}
__forceinline__ FLASHCORE_SCALAR __hmul(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) {
  return FLASHCORE_NARROW(FLASHCORE_WIDEN(a) * FLASHCORE_WIDEN(b));
}
__forceinline__ FLASHCORE_SCALAR __hdiv(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) {
  return FLASHCORE_NARROW(FLASHCORE_WIDEN(a) / FLASHCORE_WIDEN(b));
}
__forceinline__ FLASHCORE_SCALAR __hadd_rn(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) { return __hadd(a, b); }
__forceinline__ FLASHCORE_SCALAR __hsub_rn(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) { return __hsub(a, b); }
__forceinline__ FLASHCORE_SCALAR __hmul_rn(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) { return __hmul(a, b); }
__forceinline__ FLASHCORE_SCALAR __hfma(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b, FLASHCORE_SCALAR c) {
  return FLASHCORE_NARROW(flashcore::emu::fused_to_odd(FLASHCORE_WIDEN(a), FLASHCORE_WIDEN(b), FLASHCORE_WIDEN(c)));
}
__forceinline__ FLASHCORE_SCALAR __hneg(FLASHCORE_SCALAR a) { return FLASHCORE_SCALAR::from_bits(a.__x ^ 0x8000); }
__forceinline__ FLASHCORE_SCALAR __habs(FLASHCORE_SCALAR a) { return FLASHCORE_SCALAR::from_bits(a.__x & 0x7fff); }
__forceinline__ bool __hisnan(FLASHCORE_SCALAR a) { return (a.__x & 0x7fff) > FLASHCORE_INFINITY; }
__forceinline__ int __hisinf(FLASHCORE_SCALAR a) {
  return (a.__x & 0x7fff) == FLASHCORE_INFINITY ? (a.__x & 0x8000 ? -1 : 1) : 0;
}
__forceinline__ FLASHCORE_SCALAR __hmax(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) {
  return FLASHCORE_NARROW(flashcore_fmaxf(FLASHCORE_WIDEN(a), FLASHCORE_WIDEN(b)));
}
__forceinline__ FLASHCORE_SCALAR __hmin(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) {
  return FLASHCORE_NARROW(flashcore_fminf(FLASHCORE_WIDEN(a), FLASHCORE_WIDEN(b)));
}
__forceinline__ FLASHCORE_SCALAR __hmax_nan(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) {
  return __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b);
}
__forceinline__ FLASHCORE_SCALAR __hmin_nan(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) {
  return __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b);
}

#define FLASHCORE_COMPARE(NAME, OPERATOR)                                          \
  __forceinline__ bool __h##NAME(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) {         \
    return FLASHCORE_WIDEN(a) OPERATOR FLASHCORE_WIDEN(b);                         \
  }                                                                                \
  __forceinline__ bool operator OPERATOR(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) { \
    return FLASHCORE_WIDEN(a) OPERATOR FLASHCORE_WIDEN(b);                         \
  }
FLASHCORE_COMPARE(eq, ==)
FLASHCORE_COMPARE(ne, !=)
FLASHCORE_COMPARE(lt, <)
FLASHCORE_COMPARE(le, <=)
FLASHCORE_COMPARE(gt, >)
FLASHCORE_COMPARE(ge, >=)
#undef FLASHCORE_COMPARE

__forceinline__ FLASHCORE_SCALAR operator+(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) { return __hadd(a, b); }
__forceinline__ FLASHCORE_SCALAR operator-(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) { return __hsub(a, b); }
__forceinline__ FLASHCORE_SCALAR operator*(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) { return __hmul(a, b); }
__forceinline__ FLASHCORE_SCALAR operator/(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) { return __hdiv(a, b); }
__forceinline__ FLASHCORE_SCALAR operator-(FLASHCORE_SCALAR a) { return __hneg(a); }
__forceinline__ FLASHCORE_SCALAR operator+(FLASHCORE_SCALAR a) { return a; }
__forceinline__ FLASHCORE_SCALAR& operator+=(FLASHCORE_SCALAR& a, FLASHCORE_SCALAR b) { return a = __hadd(a, b); }
__forceinline__ FLASHCORE_SCALAR& operator-=(FLASHCORE_SCALAR& a, FLASHCORE_SCALAR b) { return a = __hsub(a, b); }
__forceinline__ FLASHCORE_SCALAR& operator*=(FLASHCORE_SCALAR& a, FLASHCORE_SCALAR b) { return a = __hmul(a, b); }
__forceinline__ FLASHCORE_SCALAR& operator/=(FLASHCORE_SCALAR& a, FLASHCORE_SCALAR b) { return a = __hdiv(a, b); }

#define FLASHCORE_BOTH2(NAME2, NAME)                                         \
  __forceinline__ FLASHCORE_PAIR NAME2(FLASHCORE_PAIR a, FLASHCORE_PAIR b) { \
    return FLASHCORE_PAIR(NAME(a.x, b.x), NAME(a.y, b.y));                   \
  }
#define FLASHCORE_BOTH1(NAME2, NAME) \
  __forceinline__ FLASHCORE_PAIR NAME2(FLASHCORE_PAIR a) { return FLASHCORE_PAIR(NAME(a.x), NAME(a.y)); }
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
__forceinline__ FLASHCORE_PAIR __hfma2(FLASHCORE_PAIR a, FLASHCORE_PAIR b, FLASHCORE_PAIR c) {
  return FLASHCORE_PAIR(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
__forceinline__ bool __hbeq2(FLASHCORE_PAIR a, FLASHCORE_PAIR b) { return __heq(a.x, b.x) && __heq(a.y, b.y); }
__forceinline__ FLASHCORE_PAIR operator+(FLASHCORE_PAIR a, FLASHCORE_PAIR b) { return __hadd2(a, b); }
__forceinline__ FLASHCORE_PAIR operator-(FLASHCORE_PAIR a, FLASHCORE_PAIR b) { return __hsub2(a, b); }
__forceinline__ FLASHCORE_PAIR operator*(FLASHCORE_PAIR a, FLASHCORE_PAIR b) { return __hmul2(a, b); }
__forceinline__ FLASHCORE_PAIR operator/(FLASHCORE_PAIR a, FLASHCORE_PAIR b) { return __h2div(a, b); }
__forceinline__ FLASHCORE_PAIR& operator+=(FLASHCORE_PAIR& a, FLASHCORE_PAIR b) { return a = __hadd2(a, b); }
__forceinline__ FLASHCORE_PAIR& operator-=(FLASHCORE_PAIR& a, FLASHCORE_PAIR b) { return a = __hsub2(a, b); }
__forceinline__ FLASHCORE_PAIR& operator*=(FLASHCORE_PAIR& a, FLASHCORE_PAIR b) { return a = __hmul2(a, b); }

// --- functions ------------------------------------------------------------------------------------------------

#define FLASHCORE_FUNCTION(NAME, NAME2, EXPRESSION)  \
  inline FLASHCORE_SCALAR NAME(FLASHCORE_SCALAR a) { \
    const float x = FLASHCORE_WIDEN(a);              \
    return FLASHCORE_NARROW(EXPRESSION);             \
  }                                                  \
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

__forceinline__ FLASHCORE_PAIR FLASHCORE_NAME2(__, 2, 2)(FLASHCORE_SCALAR a) { return FLASHCORE_PAIR(a, a); }
__forceinline__ FLASHCORE_PAIR FLASHCORE_NAME(__halves2, 2)(FLASHCORE_SCALAR low, FLASHCORE_SCALAR high) {
  return FLASHCORE_PAIR(low, high);
}

#undef FLASHCORE_WIDEN
#undef FLASHCORE_NARROW
#undef FLASHCORE_JOIN3
#undef FLASHCORE_JOIN5
#undef FLASHCORE_NAMED
#undef FLASHCORE_NAMED2
#undef FLASHCORE_NAME
#undef FLASHCORE_NAME2
#undef FLASHCORE_FORMAT
#undef FLASHCORE_SCALAR
#undef FLASHCORE_PAIR
#undef FLASHCORE_RAW
#undef FLASHCORE_INFINITY
