// Tests fp16 and bf16: conversion of every value in both directions, rounding at every midpoint, and the single
// rounding of a multiply-add.
#include "../ptx/halves.h"
// Included after halves.h, because it defines kernel names as macros, which break the standard library's headers.
#include "../include/cuda_bf16.h"
#include "../include/cuda_fp16.h"
#include "driver.h"

using namespace flashcore::emu;

namespace {
/** The half's value by the obvious method, which decodes sign, exponent and fraction. */
double half_value(uint16_t h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  const double magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                           : exponent     ? std::ldexp(1024 + fraction, exponent - 25)
                                          : std::ldexp(fraction, -24);
  return h & 0x8000 ? -magnitude : magnitude;
}

void test_all_halves() {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto h = static_cast<uint16_t>(bits);
    const double want = half_value(h);
    for (const float is : {half_to_float(h), half_to_float_portable(h)}) {
      if (std::isnan(want)) {
        CHECK(std::isnan(is));
        continue;
      }
      CHECK(is == want && std::signbit(is) == std::signbit(want));
      CHECK(float_to_half(is) == h && float_to_half_portable(is) == h);
    }
    if (std::isnan(want))
      CHECK((float_to_half(half_to_float(h)) & 0x7fff) > 0x7c00 && float_to_half_portable(half_to_float(h)) == 0x7fff);
  }
}

/** Tests values just below, at and just above the midpoint of every two neighbors a and b. */
void test_rounding_to_nearest_even() {
  for (unsigned bits = 0; bits < 0x7c00; ++bits) {
    const auto low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
    const double above = high == 0x7c00 ? 65536.0 : half_value(high);
    const auto middle = static_cast<float>((half_value(low) + above) / 2);
    const uint16_t even = low & 1 ? high : low;
    for (const auto convert : {&float_to_half, &float_to_half_portable})
      for (const uint16_t sign : {uint16_t(0), uint16_t(0x8000)}) {
        const float direction = sign ? -1.0f : 1.0f;
        CHECK(convert(direction * middle) == (sign | even));
        CHECK(convert(direction * std::nextafter(middle, 0.0f)) == (sign | low));
        CHECK(convert(direction * std::nextafter(middle, 1e9f)) == (sign | high));
      }
  }
  CHECK(float_to_half(INFINITY) == 0x7c00 && float_to_half_portable(-INFINITY) == 0xfc00);
  CHECK(float_to_half(1e-10f) == 0 && float_to_half_portable(-1e-10f) == 0x8000);
}

void test_directed_rounding() {
  uint32_t seed = 7;
  for (int i = 0; i < 200000; ++i) {
    float x;
    const uint32_t bits = next_random(seed) % 0x47700000u | (i & 1 ? 0x80000000u : 0);
    memcpy(&x, &bits, 4);
    CHECK(half_value(float_to_half_directed(x, -1)) <= x && half_value(float_to_half_directed(x, 1)) >= x);
    CHECK(std::fabs(half_value(float_to_half_directed(x, 0))) <= std::fabs(x));
  }
}

void test_bfloat16() {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = bfloat16_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value))
      CHECK(float_to_bfloat16(value) == 0x7fff);
    else
      CHECK(float_to_bfloat16(value) == bits);
  }
  CHECK(float_to_bfloat16(1.00390625f) == 0x3f80 && float_to_bfloat16(1.01171875f) == 0x3f82);  // ties go to even
}

/** Rounds a sum or product of halves once. Before that it is exact in long double, unless the summands are too far
 * apart for its 64 bits. */
uint16_t rounded_once(long double exact) {
  const auto near = static_cast<float>(exact);
  uint16_t best = float_to_half(near);
  if ((best & 0x7fff) >= 0x7c00) return best;
  for (const int step : {-1, 1}) {
    const auto other = static_cast<uint16_t>(best + step);
    if (((other ^ best) & 0x8000) || (other & 0x7fff) > 0x7bff) continue;
    const long double to_best = fabsl(exact - half_value(best)), to_other = fabsl(exact - half_value(other));
    if (to_other < to_best || (to_other == to_best && (best & 1))) best = other;
  }
  return best;
}

void test_arithmetic_rounds_once() {
  uint32_t seed = 11;
  for (int i = 0; i < 300000; ++i) {
    const __half a = __ushort_as_half(static_cast<uint16_t>(next_random(seed) >> 16)),
                 b = __ushort_as_half(static_cast<uint16_t>(next_random(seed) >> 16)),
                 c = __ushort_as_half(static_cast<uint16_t>(next_random(seed) >> 16));
    const long double x = half_value(a.__x), y = half_value(b.__x), z = half_value(c.__x);
    if (!std::isfinite(half_value(a.__x)) || !std::isfinite(half_value(b.__x)) || !std::isfinite(half_value(c.__x)))
      continue;
    const auto same = [](__half is, long double exact) {
      return half_value(is.__x) == half_value(rounded_once(exact));
    };
    CHECK(same(a + b, x + y) && same(a - b, x - y) && same(a * b, x * y));
    if (sizeof(long double) > 8) CHECK(same(__hfma(a, b, c), x * y + z));
  }
    // Only the addend's last bit breaks this tie; rounding to float first would lose that bit.
  const __half one_and = __ushort_as_half(0x3c01), tiny = __ushort_as_half(0x0001);
  CHECK(__hfma(one_and, one_and, tiny).__x == rounded_once(half_value(0x3c01) * half_value(0x3c01) + half_value(1)));
}
}  // namespace

int main() {
  test_all_halves();
  {
    // A kernel compiled with fast math flushes subnormal floats. A subnormal half converts to a normal float, so it
    // must not become 0.
    const ptx::FlushSubnormals flush(true);
    test_all_halves();
  }
  test_rounding_to_nearest_even();
  test_directed_rounding();
  test_bfloat16();
  test_arithmetic_rounds_once();
}
