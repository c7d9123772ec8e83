// fp16 and bf16, one or two per register: computed in fp32 and rounded once at the end.
#pragma once
#include <string>

#include "../halves.h"
#include "comparisons.h"
#include "floats.h"
#include "operations.h"
#include "shapes.h"

namespace flashcore::emu::ptx {

namespace {

/** Computes an operation on 16-bit floats in float and rounds once at the end. */
template <class F>
void write_halves(Warp& w, const Ins* i, int count, F value) {
  alignas(64) float t[2 * LANES];
  alignas(64) uint16_t h[2 * LANES];
#pragma GCC ivdep
  for (int k = 0; k < count; ++k) t[k] = value(k);
  halves_of(t, h, count);
  if (count == LANES)
    write_lanes<uint16_t>(w, i->d, w.active(i), [&](int k) { return h[k]; });
  else
    write_lanes<uint32_t>(w, i->d, w.active(i), [&](int k) {
      return static_cast<uint32_t>(h[2 * k]) | static_cast<uint32_t>(h[2 * k + 1]) << 16;
    });
}

struct Half {
  static void read(const uint16_t* from, float* to, int count) { floats_of(from, to, count); }
  static uint16_t round(float x) { return float_to_half(x); }
};
struct Bfloat {
  static void read(const uint16_t* from, float* to, int count) {
    for (int k = 0; k < count; ++k) to[k] = bfloat16_to_float(from[k]);
  }
  static uint16_t round(float x) { return float_to_bfloat16(x); }
};

template <class Type, int WIDTH, class F>
const Ins* sixteen_bit(Warp& w, const Ins* i, int operands, F value) {
  constexpr int N = LANES * WIDTH;
  alignas(64) float in[3][N];
  const uint32_t slots[] = {i->a, i->b, i->c};
  for (int o = 0; o < operands; ++o) Type::read(w.reg<uint16_t>(slots[o]), in[o], N);
  alignas(64) uint16_t out[N];
  for (int k = 0; k < N; ++k) {
    const float x = value(in[0][k], operands > 1 ? in[1][k] : 0.0f, operands > 2 ? in[2][k] : 0.0f);
    out[k] = Type::round(x);
  }
  const uint32_t m = w.active(i);
  uint16_t* d = w.reg<uint16_t>(i->d);
  for (int k = 0; k < N; ++k)
    if (m >> (k / WIDTH) & 1) d[k] = out[k];
  return i + 1;
}

inline float relu(float x) { return x != x ? x : (x > 0 ? x : 0.0f); }

template <class Type, int WIDTH, Test TEST>
const Ins* compare_halves(Warp& w, const Ins* i) {
  alignas(64) float a[2 * LANES], b[2 * LANES];
  Type::read(w.reg<uint16_t>(i->a), a, LANES * WIDTH);
  Type::read(w.reg<uint16_t>(i->b), b, LANES * WIDTH);
  uint32_t low = 0, high = 0;
  for (int k = 0; k < LANES; ++k) {
    low |= holds<TEST>(a[k * WIDTH], b[k * WIDTH]) ? 1u << k : 0;
    if (WIDTH == 2) high |= holds<TEST>(a[2 * k + 1], b[2 * k + 1]) ? 1u << k : 0;
  }
  const uint32_t m = w.active(i), first = combined(w, i, low);
  if (WIDTH == 2 && i->extra) write_pred(w, i->extra->d[0], m, combined(w, i, high));
  write_pred(w, i->d, m, first);
  return i + 1;
}

template <class Type, int WIDTH>
void half_comparisons(Table& t, const std::string& type) {
  const uint8_t b = 2 * WIDTH;
#define COMPARISON(NAME, TEST) t["setp." NAME "." + type] = {compare_halves<Type, WIDTH, Test::TEST>, 3, {0, b, b}};
  COMPARISON("eq", Eq)
  COMPARISON("ne", Ne)
  COMPARISON("lt", Lt)
  COMPARISON("le", Le)
  COMPARISON("gt", Gt)
  COMPARISON("ge", Ge)
  COMPARISON("neu", Neu)
  COMPARISON("ltu", Ltu)
  COMPARISON("gtu", Gtu)
  COMPARISON("nan", Nan)
#undef COMPARISON
}

#define HALF_OPERATION(NAME, OPERANDS, EXPRESSION)                                                        \
  t[NAME "." + type] = {[](Warp& w, const Ins* i) {                                                       \
                          return sixteen_bit<Type, WIDTH>(w, i, OPERANDS, [](float a, float b, float c) { \
                            (void)b;                                                                      \
                            (void)c;                                                                      \
                            return EXPRESSION;                                                            \
                          });                                                                             \
                        },                                                                                \
                        OPERANDS + 1,                                                                     \
                        {2 * WIDTH, 2 * WIDTH, 2 * WIDTH, 2 * WIDTH}};

template <class Type, int WIDTH>
void halves(Table& t, const std::string& type) {
  HALF_OPERATION("add", 2, a + b)
  HALF_OPERATION("sub", 2, a - b)
  HALF_OPERATION("mul", 2, a * b)
  HALF_OPERATION("fma", 3, fused_to_odd(a, b, c))
  HALF_OPERATION("fma.relu", 3, relu(fused_to_odd(a, b, c)))
  HALF_OPERATION("min", 2, smaller(a, b))
  HALF_OPERATION("max", 2, larger(a, b))
  HALF_OPERATION("min.NaN", 2, SmallerOrNan::of(a, b))
  HALF_OPERATION("max.NaN", 2, LargerOrNan::of(a, b))
  HALF_OPERATION("neg", 1, -a)
  HALF_OPERATION("abs", 1, __builtin_fabsf(a))
  HALF_OPERATION("ex2.approx", 1, Exponential2::of(a))
  HALF_OPERATION("tanh.approx", 1, HyperbolicTangent::of(a))
  half_comparisons<Type, WIDTH>(t, type);
}

/** Adds both types, as single numbers and as pairs. */
void add_sixteen_bit_floats(Table& t) {
  halves<Half, 1>(t, "f16");
  halves<Half, 2>(t, "f16x2");
  halves<Bfloat, 1>(t, "bf16");
  halves<Bfloat, 2>(t, "bf16x2");
  add1<Same, uint16_t, uint16_t>(t, "mov.f16");
}

}  // namespace

}  // namespace flashcore::emu::ptx
