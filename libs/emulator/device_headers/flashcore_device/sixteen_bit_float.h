// A 16-bit floating-point format and its pair, as in CUDA's headers. Included once per format, by cuda_fp16.h and
// cuda_bf16.h, which define
//   FLASHCORE_FORMAT   half or bfloat16, as in the names of functions (__half2float, __bfloat162float)
//   FLASHCORE_SCALAR, FLASHCORE_PAIR, FLASHCORE_RAW   its types
//   FLASHCORE_BITS   the namespace with its instructions, on bits
//   FLASHCORE_INFINITY   the bits of infinity
#define FLASHCORE_JOIN3(A, B, C) A##B##C
#define FLASHCORE_JOIN5(A, B, C, D, E) A##B##C##D##E
#define FLASHCORE_NAMED(PREFIX, FORMAT, SUFFIX) FLASHCORE_JOIN3(PREFIX, FORMAT, SUFFIX)
#define FLASHCORE_NAMED2(PREFIX, FORMAT, BETWEEN, SUFFIX) FLASHCORE_JOIN5(PREFIX, FORMAT, BETWEEN, FORMAT, SUFFIX)
#define FLASHCORE_NAME(PREFIX, SUFFIX) FLASHCORE_NAMED(PREFIX, FLASHCORE_FORMAT, SUFFIX)
#define FLASHCORE_NAME2(PREFIX, BETWEEN, SUFFIX) FLASHCORE_NAMED2(PREFIX, FLASHCORE_FORMAT, BETWEEN, SUFFIX)

struct FLASHCORE_RAW {
  unsigned short x;
};

struct __attribute__((aligned(2))) FLASHCORE_SCALAR {
  unsigned short __x;

  FLASHCORE_SCALAR() = default;
  FLASHCORE_MEMBER constexpr FLASHCORE_SCALAR(const FLASHCORE_RAW& raw) : __x(raw.x) {}
  FLASHCORE_MEMBER FLASHCORE_SCALAR(float value) : __x(FLASHCORE_BITS::of_float(value)) {}
  FLASHCORE_MEMBER FLASHCORE_SCALAR(double value) : FLASHCORE_SCALAR(static_cast<float>(value)) {}
  FLASHCORE_MEMBER FLASHCORE_SCALAR(int value) : FLASHCORE_SCALAR(static_cast<float>(value)) {}
  FLASHCORE_MEMBER FLASHCORE_SCALAR(unsigned value) : FLASHCORE_SCALAR(static_cast<float>(value)) {}
  FLASHCORE_MEMBER FLASHCORE_SCALAR(long long value) : FLASHCORE_SCALAR(static_cast<float>(value)) {}
  FLASHCORE_MEMBER FLASHCORE_SCALAR(unsigned long long value) : FLASHCORE_SCALAR(static_cast<float>(value)) {}
  FLASHCORE_MEMBER operator float() const { return FLASHCORE_BITS::to_float(__x); }
  FLASHCORE_MEMBER operator FLASHCORE_RAW() const { return {__x}; }
  FLASHCORE_MEMBER FLASHCORE_SCALAR& operator=(float value) { return *this = FLASHCORE_SCALAR(value); }
  FLASHCORE_MEMBER static constexpr FLASHCORE_SCALAR from_bits(unsigned short bits) {
    return FLASHCORE_SCALAR(FLASHCORE_RAW{bits});
  }
};

struct __attribute__((aligned(4))) FLASHCORE_PAIR {
  FLASHCORE_SCALAR x, y;
  FLASHCORE_PAIR() = default;
  FLASHCORE_MEMBER constexpr FLASHCORE_PAIR(FLASHCORE_SCALAR low, FLASHCORE_SCALAR high) : x(low), y(high) {}
  FLASHCORE_MEMBER static FLASHCORE_PAIR from_bits(unsigned bits) { return __builtin_bit_cast(FLASHCORE_PAIR, bits); }
  FLASHCORE_MEMBER unsigned bits() const { return __builtin_bit_cast(unsigned, *this); }
};

// --- conversions ----------------------------------------------------------------------------------------------

FLASHCORE_DEVICE float FLASHCORE_NAME(__, 2float)(FLASHCORE_SCALAR a) { return FLASHCORE_BITS::to_float(a.__x); }
#define FLASHCORE_FROM_FLOAT(SUFFIX, FUNCTION)                                  \
  FLASHCORE_DEVICE FLASHCORE_SCALAR FLASHCORE_NAME(__float2, SUFFIX)(float a) { \
    return FLASHCORE_SCALAR::from_bits(FLASHCORE_BITS::FUNCTION(a));            \
  }
FLASHCORE_FROM_FLOAT(, of_float)
FLASHCORE_FROM_FLOAT(_rn, of_float)
FLASHCORE_FROM_FLOAT(_rz, of_float_rz)
FLASHCORE_FROM_FLOAT(_rd, of_float_rd)
FLASHCORE_FROM_FLOAT(_ru, of_float_ru)
#undef FLASHCORE_FROM_FLOAT
FLASHCORE_DEVICE FLASHCORE_SCALAR FLASHCORE_NAME(__double2, )(double a) { return FLASHCORE_SCALAR(a); }
FLASHCORE_DEVICE FLASHCORE_SCALAR FLASHCORE_NAME(__int2, _rn)(int a) { return FLASHCORE_SCALAR(a); }
FLASHCORE_DEVICE FLASHCORE_SCALAR FLASHCORE_NAME(__uint2, _rn)(unsigned a) { return FLASHCORE_SCALAR(a); }
FLASHCORE_DEVICE int FLASHCORE_NAME(__, 2int_rn)(FLASHCORE_SCALAR a) { return __float2int_rn(a); }
FLASHCORE_DEVICE int FLASHCORE_NAME(__, 2int_rz)(FLASHCORE_SCALAR a) { return __float2int_rz(a); }
FLASHCORE_DEVICE int FLASHCORE_NAME(__, 2int_rd)(FLASHCORE_SCALAR a) { return __float2int_rd(a); }
FLASHCORE_DEVICE int FLASHCORE_NAME(__, 2int_ru)(FLASHCORE_SCALAR a) { return __float2int_ru(a); }
FLASHCORE_DEVICE unsigned short FLASHCORE_NAME(__, _as_ushort)(FLASHCORE_SCALAR a) { return a.__x; }
FLASHCORE_DEVICE short FLASHCORE_NAME(__, _as_short)(FLASHCORE_SCALAR a) { return static_cast<short>(a.__x); }
FLASHCORE_DEVICE FLASHCORE_SCALAR FLASHCORE_NAME(__ushort_as_, )(unsigned short bits) {
  return FLASHCORE_SCALAR::from_bits(bits);
}
FLASHCORE_DEVICE FLASHCORE_SCALAR FLASHCORE_NAME(__short_as_, )(short bits) {
  return FLASHCORE_SCALAR::from_bits(static_cast<unsigned short>(bits));
}

FLASHCORE_DEVICE FLASHCORE_PAIR FLASHCORE_NAME(__floats2, 2_rn)(float low, float high) {
  return FLASHCORE_PAIR::from_bits(FLASHCORE_BITS::pair_of_floats(low, high));
}
FLASHCORE_DEVICE FLASHCORE_PAIR FLASHCORE_NAME(__float22, 2_rn)(float2 a) {
  return FLASHCORE_NAME(__floats2, 2_rn)(a.x, a.y);
}
FLASHCORE_DEVICE FLASHCORE_PAIR FLASHCORE_NAME(__float2, 2_rn)(float a) {
  return FLASHCORE_NAME(__floats2, 2_rn)(a, a);
}
FLASHCORE_DEVICE float2 FLASHCORE_NAME(__, 22float2)(FLASHCORE_PAIR a) {
  return make_float2(FLASHCORE_NAME(__, 2float)(a.x), FLASHCORE_NAME(__, 2float)(a.y));
}
FLASHCORE_DEVICE float __low2float(FLASHCORE_PAIR a) { return FLASHCORE_NAME(__, 2float)(a.x); }
FLASHCORE_DEVICE float __high2float(FLASHCORE_PAIR a) { return FLASHCORE_NAME(__, 2float)(a.y); }
FLASHCORE_DEVICE FLASHCORE_SCALAR FLASHCORE_NAME(__low2, )(FLASHCORE_PAIR a) { return a.x; }
FLASHCORE_DEVICE FLASHCORE_SCALAR FLASHCORE_NAME(__high2, )(FLASHCORE_PAIR a) { return a.y; }
FLASHCORE_DEVICE FLASHCORE_PAIR FLASHCORE_NAME(__lows2, 2)(FLASHCORE_PAIR a, FLASHCORE_PAIR b) { return {a.x, b.x}; }
FLASHCORE_DEVICE FLASHCORE_PAIR FLASHCORE_NAME(__highs2, 2)(FLASHCORE_PAIR a, FLASHCORE_PAIR b) { return {a.y, b.y}; }
FLASHCORE_DEVICE FLASHCORE_PAIR FLASHCORE_NAME(__low2, 2)(FLASHCORE_PAIR a) { return {a.x, a.x}; }
FLASHCORE_DEVICE FLASHCORE_PAIR FLASHCORE_NAME(__high2, 2)(FLASHCORE_PAIR a) { return {a.y, a.y}; }
FLASHCORE_DEVICE FLASHCORE_PAIR __lowhigh2highlow(FLASHCORE_PAIR a) { return {a.y, a.x}; }
FLASHCORE_DEVICE FLASHCORE_PAIR FLASHCORE_NAME(make_, 2)(FLASHCORE_SCALAR low, FLASHCORE_SCALAR high) {
  return {low, high};
}
FLASHCORE_DEVICE FLASHCORE_PAIR FLASHCORE_NAME2(__, 2, 2)(FLASHCORE_SCALAR a) { return {a, a}; }
FLASHCORE_DEVICE FLASHCORE_PAIR FLASHCORE_NAME(__halves2, 2)(FLASHCORE_SCALAR low, FLASHCORE_SCALAR high) {
  return {low, high};
}

// --- arithmetic -----------------------------------------------------------------------------------------------

// For scalars and pairs. The compiler must never fuse functions named _rn with others; here no function is fused.
#define FLASHCORE_ARITHMETIC(NAME, FUNCTION)                                            \
  FLASHCORE_DEVICE FLASHCORE_SCALAR __h##NAME(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) { \
    return FLASHCORE_SCALAR::from_bits(FLASHCORE_BITS::FUNCTION(a.__x, b.__x));         \
  }                                                                                     \
  FLASHCORE_DEVICE FLASHCORE_PAIR __h##NAME##2(FLASHCORE_PAIR a, FLASHCORE_PAIR b) {    \
    return FLASHCORE_PAIR::from_bits(FLASHCORE_BITS::FUNCTION(a.bits(), b.bits()));     \
  }
FLASHCORE_ARITHMETIC(add, add)
FLASHCORE_ARITHMETIC(sub, sub)
FLASHCORE_ARITHMETIC(mul, mul)
FLASHCORE_ARITHMETIC(max, max)
FLASHCORE_ARITHMETIC(min, min)
#undef FLASHCORE_ARITHMETIC
#define FLASHCORE_NOT_FUSED(NAME)                                                                                      \
  FLASHCORE_DEVICE FLASHCORE_SCALAR __h##NAME##_rn(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) { return __h##NAME(a, b); } \
  FLASHCORE_DEVICE FLASHCORE_PAIR __h##NAME##2_rn(FLASHCORE_PAIR a, FLASHCORE_PAIR b) { return __h##NAME##2(a, b); }
FLASHCORE_NOT_FUSED(add)
FLASHCORE_NOT_FUSED(sub)
FLASHCORE_NOT_FUSED(mul)
#undef FLASHCORE_NOT_FUSED
FLASHCORE_DEVICE FLASHCORE_SCALAR __hfma(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b, FLASHCORE_SCALAR c) {
  return FLASHCORE_SCALAR::from_bits(FLASHCORE_BITS::fma(a.__x, b.__x, c.__x));
}
FLASHCORE_DEVICE FLASHCORE_PAIR __hfma2(FLASHCORE_PAIR a, FLASHCORE_PAIR b, FLASHCORE_PAIR c) {
  return FLASHCORE_PAIR::from_bits(FLASHCORE_BITS::fma(a.bits(), b.bits(), c.bits()));
}
FLASHCORE_DEVICE FLASHCORE_SCALAR __hdiv(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) {
  return FLASHCORE_SCALAR::from_bits(FLASHCORE_BITS::of_float(static_cast<float>(a) / static_cast<float>(b)));
}
FLASHCORE_DEVICE FLASHCORE_PAIR __h2div(FLASHCORE_PAIR a, FLASHCORE_PAIR b) {
  return {__hdiv(a.x, b.x), __hdiv(a.y, b.y)};
}
FLASHCORE_DEVICE FLASHCORE_SCALAR __hneg(FLASHCORE_SCALAR a) { return FLASHCORE_SCALAR::from_bits(a.__x ^ 0x8000); }
FLASHCORE_DEVICE FLASHCORE_SCALAR __habs(FLASHCORE_SCALAR a) { return FLASHCORE_SCALAR::from_bits(a.__x & 0x7fff); }
FLASHCORE_DEVICE FLASHCORE_PAIR __hneg2(FLASHCORE_PAIR a) { return FLASHCORE_PAIR::from_bits(a.bits() ^ 0x80008000u); }
FLASHCORE_DEVICE FLASHCORE_PAIR __habs2(FLASHCORE_PAIR a) { return FLASHCORE_PAIR::from_bits(a.bits() & 0x7fff7fffu); }
FLASHCORE_DEVICE bool __hisnan(FLASHCORE_SCALAR a) { return (a.__x & 0x7fff) > FLASHCORE_INFINITY; }
FLASHCORE_DEVICE int __hisinf(FLASHCORE_SCALAR a) {
  if ((a.__x & 0x7fff) != FLASHCORE_INFINITY) return 0;
  return a.__x & 0x8000 ? -1 : 1;
}

#define FLASHCORE_COMPARE(NAME, OPERATOR)                                           \
  FLASHCORE_DEVICE bool __h##NAME(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) {         \
    return static_cast<float>(a) OPERATOR static_cast<float>(b);                    \
  }                                                                                 \
  FLASHCORE_DEVICE bool operator OPERATOR(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) { \
    return static_cast<float>(a) OPERATOR static_cast<float>(b);                    \
  }                                                                                 \
  FLASHCORE_DEVICE bool __hb##NAME##2(FLASHCORE_PAIR a, FLASHCORE_PAIR b) {         \
    return __h##NAME(a.x, b.x) && __h##NAME(a.y, b.y);                              \
  }
FLASHCORE_COMPARE(eq, ==)
FLASHCORE_COMPARE(ne, !=)
FLASHCORE_COMPARE(lt, <)
FLASHCORE_COMPARE(le, <=)
FLASHCORE_COMPARE(gt, >)
FLASHCORE_COMPARE(ge, >=)
#undef FLASHCORE_COMPARE

#define FLASHCORE_OPERATOR(OPERATOR, NAME)                                                              \
  FLASHCORE_DEVICE FLASHCORE_SCALAR operator OPERATOR(FLASHCORE_SCALAR a, FLASHCORE_SCALAR b) {         \
    return __h##NAME(a, b);                                                                             \
  }                                                                                                     \
  FLASHCORE_DEVICE FLASHCORE_SCALAR& operator OPERATOR## = (FLASHCORE_SCALAR & a, FLASHCORE_SCALAR b) { \
    return a = __h##NAME(a, b);                                                                         \
  }
FLASHCORE_OPERATOR(+, add)
FLASHCORE_OPERATOR(-, sub)
FLASHCORE_OPERATOR(*, mul)
FLASHCORE_OPERATOR(/, div)
#undef FLASHCORE_OPERATOR
FLASHCORE_DEVICE FLASHCORE_SCALAR operator-(FLASHCORE_SCALAR a) { return __hneg(a); }
FLASHCORE_DEVICE FLASHCORE_PAIR operator+(FLASHCORE_PAIR a, FLASHCORE_PAIR b) { return __hadd2(a, b); }
FLASHCORE_DEVICE FLASHCORE_PAIR operator-(FLASHCORE_PAIR a, FLASHCORE_PAIR b) { return __hsub2(a, b); }
FLASHCORE_DEVICE FLASHCORE_PAIR operator*(FLASHCORE_PAIR a, FLASHCORE_PAIR b) { return __hmul2(a, b); }
FLASHCORE_DEVICE FLASHCORE_PAIR operator/(FLASHCORE_PAIR a, FLASHCORE_PAIR b) { return __h2div(a, b); }
FLASHCORE_DEVICE FLASHCORE_PAIR& operator+=(FLASHCORE_PAIR& a, FLASHCORE_PAIR b) { return a = __hadd2(a, b); }
FLASHCORE_DEVICE FLASHCORE_PAIR& operator-=(FLASHCORE_PAIR& a, FLASHCORE_PAIR b) { return a = __hsub2(a, b); }
FLASHCORE_DEVICE FLASHCORE_PAIR& operator*=(FLASHCORE_PAIR& a, FLASHCORE_PAIR b) { return a = __hmul2(a, b); }

// --- functions ------------------------------------------------------------------------------------------------

// Use the hardware's approximation in fp32, rounded once. For a few inputs of some functions CUDA corrects the last
// bit, because the hardware's approximation leads to a wrong rounding. The emulator's approximation is more precise and
// needs no correction.
#define FLASHCORE_FUNCTION(NAME, NAME2, EXPRESSION)                           \
  FLASHCORE_DEVICE FLASHCORE_SCALAR NAME(FLASHCORE_SCALAR a) {                \
    const float x = static_cast<float>(a);                                    \
    return FLASHCORE_SCALAR::from_bits(FLASHCORE_BITS::of_float(EXPRESSION)); \
  }                                                                           \
  FLASHCORE_DEVICE FLASHCORE_PAIR NAME2(FLASHCORE_PAIR a) { return {NAME(a.x), NAME(a.y)}; }
FLASHCORE_FUNCTION(hexp, h2exp, __nvvm_ex2_approx_ftz_f(x * 0x1.715476p+0f))
FLASHCORE_FUNCTION(hexp2, h2exp2, __nvvm_ex2_approx_ftz_f(x))
FLASHCORE_FUNCTION(hexp10, h2exp10, __nvvm_ex2_approx_ftz_f(x * 0x1.a934f0p+1f))
FLASHCORE_FUNCTION(hlog, h2log, __nvvm_lg2_approx_ftz_f(x) * 0x1.62e430p-1f)
FLASHCORE_FUNCTION(hlog2, h2log2, __nvvm_lg2_approx_ftz_f(x))
FLASHCORE_FUNCTION(hlog10, h2log10, __nvvm_lg2_approx_ftz_f(x) * 0x1.344136p-2f)
FLASHCORE_FUNCTION(hsqrt, h2sqrt, __nvvm_sqrt_approx_ftz_f(x))
FLASHCORE_FUNCTION(hrsqrt, h2rsqrt, __nvvm_rsqrt_approx_ftz_f(x))
FLASHCORE_FUNCTION(hrcp, h2rcp, flashcore::device::reciprocal(x))
FLASHCORE_FUNCTION(hsin, h2sin, __nvvm_sin_approx_ftz_f(x))
FLASHCORE_FUNCTION(hcos, h2cos, __nvvm_cos_approx_ftz_f(x))
FLASHCORE_FUNCTION(htanh, h2tanh, tanhf(x))
FLASHCORE_FUNCTION(hfloor, h2floor, __builtin_floorf(x))
FLASHCORE_FUNCTION(hceil, h2ceil, __builtin_ceilf(x))
FLASHCORE_FUNCTION(hrint, h2rint, __builtin_rintf(x))
FLASHCORE_FUNCTION(htrunc, h2trunc, __builtin_truncf(x))
#undef FLASHCORE_FUNCTION

// --- warps and memory -----------------------------------------------------------------------------------------

#define FLASHCORE_SHUFFLE(NAME)                                                                               \
  FLASHCORE_DEVICE FLASHCORE_SCALAR NAME(unsigned mask, FLASHCORE_SCALAR value, int lane, int width = 32) {   \
    const auto bits = static_cast<unsigned short>(NAME(mask, static_cast<unsigned>(value.__x), lane, width)); \
    return FLASHCORE_SCALAR::from_bits(bits);                                                                 \
  }                                                                                                           \
  FLASHCORE_DEVICE FLASHCORE_PAIR NAME(unsigned mask, FLASHCORE_PAIR value, int lane, int width = 32) {       \
    return FLASHCORE_PAIR::from_bits(NAME(mask, value.bits(), lane, width));                                  \
  }
FLASHCORE_SHUFFLE(__shfl_sync)
FLASHCORE_SHUFFLE(__shfl_up_sync)
FLASHCORE_SHUFFLE(__shfl_down_sync)
FLASHCORE_SHUFFLE(__shfl_xor_sync)
#undef FLASHCORE_SHUFFLE
FLASHCORE_DEVICE FLASHCORE_SCALAR atomicAdd(FLASHCORE_SCALAR* address, FLASHCORE_SCALAR value) {
  return FLASHCORE_SCALAR::from_bits(FLASHCORE_BITS::atomic_add(address, value.__x));
}
FLASHCORE_DEVICE FLASHCORE_PAIR atomicAdd(FLASHCORE_PAIR* address, FLASHCORE_PAIR value) {
  return FLASHCORE_PAIR::from_bits(FLASHCORE_BITS::atomic_add(address, value.bits()));
}

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
#undef FLASHCORE_BITS
#undef FLASHCORE_INFINITY
