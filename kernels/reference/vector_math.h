// Vector types, and exp, log, sine and cosine of whole vectors, which the C library only
// has for single numbers. All are within two units of the last place. NaN stays NaN.
#pragma once
#include <cstdint>
#include <cstring>

// As wide as the processor's registers: g++ splits wider vectors, which is 20 times slower.
#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64;
#elif defined(__AVX__)
constexpr int VECTOR_BYTES = 32;
#else
constexpr int VECTOR_BYTES = 16;
#endif

typedef double VectorFp64 __attribute__((vector_size(VECTOR_BYTES)));
typedef float VectorFp32 __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t VectorInt64 __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t VectorInt32 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t VectorUint64 __attribute__((vector_size(VECTOR_BYTES)));

template <typename To, typename From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// Adding this to a smaller number leaves the nearest integer in the last bits (1.5 * 2^52 and 1.5 * 2^23).
constexpr double INTEGER_FP64 = 0x1.8p52;
constexpr float INTEGER_FP32 = 0x1.8p23f;

// e^x for x <= 0; 0 if the result is not a normal number. x = n ln 2 + r, and the series of e^r for |r| <= ln 2 / 2.
inline VectorFp64 exp_of_negative(VectorFp64 x) {
  constexpr double LOG2_E = 0x1.71547652b82fep0, LN2_HIGH = 0x1.62e42fee00000p-1, LN2_LOW = 0x1.a39ef35793c76p-33;
  const VectorFp64 shifted = x * LOG2_E + INTEGER_FP64, n = shifted - INTEGER_FP64;
  const VectorFp64 r = (x - n * LN2_HIGH) - n * LN2_LOW, r2 = r * r, r4 = r2 * r2;
  // 1 / k!, two by two.
  const VectorFp64 low = 1.0 / 2 + r * (1.0 / 6),
                   middle = (1.0 / 24 + r * (1.0 / 120)) + r2 * (1.0 / 720 + r * (1.0 / 5040)),
                   high = (1.0 / 40320 + r * (1.0 / 362880)) + r2 * (1.0 / 3628800 + r * (1.0 / 39916800)),
                   highest = 1.0 / 479001600 + r * (1.0 / 6227020800.0);
  const VectorFp64 series = 1.0 + (r + (r2 * low + r4 * (middle + r4 * (high + r4 * highest))));
  const VectorInt64 power = (bits_as<VectorInt64>(shifted) + 1023) << 52;
  return x < -708.0 ? VectorFp64{} : series * bits_as<VectorFp64>(power);
}

inline VectorFp32 exp_of_negative(VectorFp32 x) {
  constexpr float LOG2_E = 0x1.715476p0f, LN2_HIGH = 0x1.62e400p-1f, LN2_LOW = 0x1.7f7d1cp-20f;
  const VectorFp32 shifted = x * LOG2_E + INTEGER_FP32, n = shifted - INTEGER_FP32;
  const VectorFp32 r = (x - n * LN2_HIGH) - n * LN2_LOW, r2 = r * r;
  const VectorFp32 high = 1.0f / 24 + r * (1.0f / 120) + r2 * (1.0f / 720 + r * (1.0f / 5040));
  const VectorFp32 series = 1.0f + (r + r2 * ((0.5f + r * (1.0f / 6)) + r2 * high));
  const VectorInt32 power = (bits_as<VectorInt32>(shifted) + 127) << 23;
  return x < -87.0f ? VectorFp32{} : series * bits_as<VectorFp32>(power);
}

// ln x of normal numbers, as in Sun's fdlibm: x = 2^k (1 + f), and a series in f / (2 + f).
inline VectorFp64 log_of_normal(VectorFp64 x) {
  constexpr double LN2_HIGH = 6.93147180369123816490e-01, LN2_LOW = 1.90821492927058770002e-10;
  constexpr int64_t SQRT_HALF = 0x3fe6a09e00000000;
  const VectorInt64 bits = bits_as<VectorInt64>(x), above = bits - SQRT_HALF, exponent = above >> 52;
  const VectorFp64 k = bits_as<VectorFp64>(exponent + bits_as<int64_t>(INTEGER_FP64)) - INTEGER_FP64;
  const VectorFp64 f = bits_as<VectorFp64>(bits - (exponent << 52)) - 1.0, s = f / (2.0 + f), z = s * s, w = z * z;
  const VectorFp64 even =
                       w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01)),
                   odd =
                       z *
                       (6.666666666666735130e-01 +
                        w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const VectorFp64 half_square = 0.5 * f * f;
  return k * LN2_HIGH - ((half_square - (s * (half_square + even + odd) + k * LN2_LOW)) - f);
}

struct SineCosine {
  VectorFp64 sine, cosine;
};

// Sine and cosine of an angle from 0 to 2 pi, as in Sun's fdlibm: series for at most pi / 4, rotated by quarter turns.
inline SineCosine sine_cosine_of_turn(VectorFp64 angle) {
  constexpr double TWO_OVER_PI = 6.36619772367581382433e-01, HALF_PI_HIGH = 1.57079632673412561417e+00,
                   HALF_PI_LOW = 6.07710050650619224932e-11;
  const VectorFp64 shifted = angle * TWO_OVER_PI + INTEGER_FP64, quarters = shifted - INTEGER_FP64;
  const VectorFp64 r = (angle - quarters * HALF_PI_HIGH) - quarters * HALF_PI_LOW, z = r * r;
  const VectorFp64 sine = r + r * z *
                                  (-1.66666666666666324348e-01 +
                                   z * (8.33333333332248946124e-03 +
                                        z * (-1.98412698298579493134e-04 +
                                             z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 +
                                                                                    z * 1.58969099521155010221e-10)))));
  const VectorFp64 cosine =
      1.0 - (0.5 * z - z * z *
                           (4.16666666666666019037e-02 +
                            z * (-1.38888888888741095749e-03 +
                                 z * (2.48015872894767294178e-05 +
                                      z * (-2.75573143513906633035e-07 +
                                           z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11))))));
  const VectorInt64 quarter = bits_as<VectorInt64>(shifted), odd = -(quarter & 1);
  const VectorInt64 sine_sign = (quarter & 2) << 62, cosine_sign = ((quarter + 1) & 2) << 62;
  const VectorFp64 sine_of_angle = odd ? cosine : sine, cosine_of_angle = odd ? sine : cosine;
  return {bits_as<VectorFp64>(bits_as<VectorInt64>(sine_of_angle) ^ sine_sign),
          bits_as<VectorFp64>(bits_as<VectorInt64>(cosine_of_angle) ^ cosine_sign)};
}
