// cvt.
#pragma once
#include <limits>
#include <string>
#include <type_traits>

#include "../halves.h"
#include "operations.h"
#include "shapes.h"
#include "sixteen_bit_floats.h"

namespace flashcore::emu::ptx {

namespace {

enum class Round { Nearest, Zero, Down, Up };

template <Round R, class T>
inline T to_whole(T x) {
  if constexpr (std::is_same_v<T, float>) {
    switch (R) {
      case Round::Nearest: return __builtin_rintf(x);
      case Round::Zero: return __builtin_truncf(x);
      case Round::Down: return __builtin_floorf(x);
      case Round::Up: return __builtin_ceilf(x);
    }
  } else {
    switch (R) {
      case Round::Nearest: return __builtin_rint(x);
      case Round::Zero: return __builtin_trunc(x);
      case Round::Down: return __builtin_floor(x);
      case Round::Up: return __builtin_ceil(x);
    }
  }
  return x;
}

/** Clamps to D's range. A NaN becomes 0, or only D's highest bit if either type has 64 bits. */
template <Round R, class D, class S>
struct ToInteger {
  static D of(S x) {
    const S whole = to_whole<R>(x);
    constexpr S LIMIT = static_cast<S>(std::numeric_limits<D>::max()) + S(1);
    constexpr D SIGN = static_cast<D>(Unsigned<D>(1) << (8 * sizeof(D) - 1));
    if (x != x) return sizeof(D) == 8 || sizeof(S) == 8 ? SIGN : D(0);
    if (whole >= LIMIT) return std::numeric_limits<D>::max();
    if (whole < (std::is_signed_v<D> ? -LIMIT : S(0))) return std::numeric_limits<D>::min();
    return static_cast<D>(whole);
  }
};

/** Converts integers between widths. S is the source's type, W the type of the register that holds it. */
template <class S, class W>
void read_integers(const char* from, int64_t* to) {
  const W* a = reinterpret_cast<const W*>(from);
  for (int k = 0; k < LANES; ++k) to[k] = static_cast<int64_t>(static_cast<S>(a[k]));
}
/** D is the result's type, R the type of the register that it is written to. */
template <class D, class R>
void write_integers(Warp& w, uint32_t slot, uint32_t m, const int64_t* from) {
  write_lanes<R>(w, slot, m, [=](int k) { return static_cast<R>(static_cast<D>(from[k])); });
}
using ReadIntegers = void (*)(const char*, int64_t*);
using WriteIntegers = void (*)(Warp&, uint32_t, uint32_t, const int64_t*);

template <class S>
ReadIntegers reader(unsigned bytes) {
  return bytes == 2 ? read_integers<S, uint16_t> : bytes == 4 ? read_integers<S, uint32_t> : read_integers<S, uint64_t>;
}
template <class D>
WriteIntegers writer(unsigned bytes) {
  if (bytes == 2) return write_integers<D, std::conditional_t<std::is_signed_v<D>, int16_t, uint16_t>>;
  if (bytes == 4) return write_integers<D, std::conditional_t<std::is_signed_v<D>, int32_t, uint32_t>>;
  return write_integers<D, std::conditional_t<std::is_signed_v<D>, int64_t, uint64_t>>;
}

const Ins* convert_integer(Warp& w, const Ins* i) {
  alignas(64) int64_t t[LANES];
  reinterpret_cast<ReadIntegers>(i->extra->readers[0])(w.regs + i->a, t);
  reinterpret_cast<WriteIntegers>(i->extra->readers[1])(w, i->d, w.active(i), t);
  return i + 1;
}
template <class D, class S>
struct Saturated {
  static D of(S x) {
    constexpr __int128 LOW = std::is_signed_v<D> ? -(static_cast<__int128>(1) << (8 * sizeof(D) - 1)) : 0;
    constexpr __int128 HIGH = LOW + (static_cast<__int128>(1) << (8 * sizeof(D))) - 1;
    const __int128 v = x;
    return static_cast<D>(v < LOW ? LOW : (v > HIGH ? HIGH : v));
  }
};

const Ins* half_to_float32(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  const uint16_t* a = w.reg<uint16_t>(i->a);
  if (m == ALL) {
    floats_of(a, w.reg<float>(i->d), LANES);
    return i + 1;
  }
  alignas(64) float t[LANES];
  floats_of(a, t, LANES);
  write_lanes<float>(w, i->d, m, [&](int k) { return t[k]; });
  return i + 1;
}
/** Converts the low or the high half of a pair. */
template <int SHIFT>
const Ins* half_of_pair_to_float32(Warp& w, const Ins* i) {
  const uint32_t* a = w.reg<uint32_t>(i->a);
  alignas(64) uint16_t h[LANES];
  for (int k = 0; k < LANES; ++k) h[k] = static_cast<uint16_t>(a[k] >> SHIFT);
  alignas(64) float t[LANES];
  floats_of(h, t, LANES);
  write_lanes<float>(w, i->d, w.active(i), [&](int k) { return t[k]; });
  return i + 1;
}
/** Converts both halves of a pair. */
const Ins* pair_to_float32(Warp& w, const Ins* i) {
  const uint32_t* a = w.reg<uint32_t>(i->a);
  const uint32_t m = w.active(i);
  if (__builtin_expect(m == ALL, 1)) {
    floats_of_pairs(a, w.reg<float>(i->d), w.reg<float>(i->b), LANES);
    return i + 1;
  }
  alignas(64) float low[LANES], high[LANES];
  floats_of_pairs(a, low, high, LANES);
  write_lanes<float>(w, i->d, m, [&](int k) { return low[k]; });
  write_lanes<float>(w, i->b, m, [&](int k) { return high[k]; });
  return i + 1;
}
const Ins* float32_to_half(Warp& w, const Ins* i) {
  const float* a = w.reg<float>(i->a);
  write_halves(w, i, LANES, [=](int k) { return a[k]; });
  return i + 1;
}
/** d = {a in the upper half, b in the lower}. */
const Ins* floats_to_half2(Warp& w, const Ins* i) {
  const float *a = w.reg<float>(i->a), *b = w.reg<float>(i->b);
  alignas(64) uint16_t high[LANES], low[LANES];
  halves_of(a, high, LANES);
  halves_of(b, low, LANES);
  write_lanes<uint32_t>(w, i->d, w.active(i), [&](int k) { return static_cast<uint32_t>(high[k]) << 16 | low[k]; });
  return i + 1;
}
template <class Type, int DIRECTION>
struct Directed {
  static uint16_t of(float x) {
    if constexpr (std::is_same_v<Type, Half>) return float_to_half_directed(x, DIRECTION);
    return float_to_bfloat16_directed(x, DIRECTION);
  }
};
template <class Op>
const Ins* floats_to_pair(Warp& w, const Ins* i) {
  const float *a = w.reg<float>(i->a), *b = w.reg<float>(i->b);
  write_lanes<uint32_t>(w, i->d, w.active(i),
                        [=](int k) { return static_cast<uint32_t>(Op::of(a[k])) << 16 | Op::of(b[k]); });
  return i + 1;
}
struct ToBfloat {
  static uint16_t of(float x) { return float_to_bfloat16(x); }
};
struct FromBfloat {
  static float of(uint16_t x) { return bfloat16_to_float(x); }
};
struct HalfToInteger32 {
  static int32_t of(uint16_t x) { return ToInteger<Round::Zero, int32_t, float>::of(half_to_float(x)); }
};
template <class S>
struct IntegerToHalf {
  static uint16_t of(S x) { return float_to_half(static_cast<float>(x)); }
};
struct ToTf32 {  // cvt.rna: nearest, ties away from zero
  static uint32_t of(uint32_t bits) {
    return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fffffffu : (bits + 0x1000) & ~0x1fffu;
  }
};

template <class D, class S>
void float_to_integer(Table& t, const std::string& to, const std::string& from) {
  add1<ToInteger<Round::Nearest, D, S>, D, S>(t, "cvt.rni." + to + "." + from);
  add1<ToInteger<Round::Zero, D, S>, D, S>(t, "cvt.rzi." + to + "." + from);
  add1<ToInteger<Round::Down, D, S>, D, S>(t, "cvt.rmi." + to + "." + from);
  add1<ToInteger<Round::Up, D, S>, D, S>(t, "cvt.rpi." + to + "." + from);
}
template <class S>
void from_float(Table& t, const std::string& from) {
  float_to_integer<int16_t, S>(t, "s16", from);
  float_to_integer<uint16_t, S>(t, "u16", from);
  float_to_integer<int32_t, S>(t, "s32", from);
  float_to_integer<uint32_t, S>(t, "u32", from);
  float_to_integer<int64_t, S>(t, "s64", from);
  float_to_integer<uint64_t, S>(t, "u64", from);
}
struct ToFloat {
  template <class S>
  static S of(S a) {
    return a;
  }
};
template <class S>
void from_integer(Table& t, const std::string& from) {
  add1<ToFloat, float, S>(t, "cvt.rn.f32." + from);
  add1<ToFloat, double, S>(t, "cvt.rn.f64." + from);
  add1<IntegerToHalf<S>, uint16_t, S>(t, "cvt.rn.f16." + from);
}
template <Round R, class T>
struct Whole {
  static T of(T x) { return to_whole<R>(x); }
};
template <class D, class S>
void saturated(Table& t, const std::string& name) {
  add1<Saturated<D, S>, D, S>(t, "cvt.sat." + name);
}

/** All conversions, except those between integers that lower_integer_conversion() handles. */
void add_conversions(Table& t) {
  from_float<float>(t, "f32");
  from_float<double>(t, "f64");
  from_integer<int16_t>(t, "s16");
  from_integer<uint16_t>(t, "u16");
  from_integer<int32_t>(t, "s32");
  from_integer<uint32_t>(t, "u32");
  from_integer<int64_t>(t, "s64");
  from_integer<uint64_t>(t, "u64");
  // The common conversions between integers. All others go through 64 bits.
  add1<ToFloat, int64_t, int32_t>(t, "cvt.s64.s32");
  add1<ToFloat, uint64_t, uint32_t>(t, "cvt.u64.u32");
  add1<ToFloat, uint32_t, uint64_t>(t, "cvt.u32.u64");
  t["cvt.f32.f16"] = {half_to_float32, 2, {4, 2}};
  t["cvt.f32.low"] = {half_of_pair_to_float32<0>, 2, {4, 4}};
  t["cvt.f32.high"] = {half_of_pair_to_float32<16>, 2, {4, 4}};
  t["cvt.rn.f16.f32"] = {float32_to_half, 2, {2, 4}};
  t["cvt.rn.f16x2.f32"] = {floats_to_half2, 3, {4, 4, 4}};
  t["cvt.rn.bf16x2.f32"] = {floats_to_pair<ToBfloat>, 3, {4, 4, 4}};
  t["cvt.rz.f16x2.f32"] = {floats_to_pair<Directed<Half, 0>>, 3, {4, 4, 4}};
  t["cvt.rz.bf16x2.f32"] = {floats_to_pair<Directed<Bfloat, 0>>, 3, {4, 4, 4}};
  add1<Directed<Half, 0>, uint16_t, float>(t, "cvt.rz.f16.f32");
  add1<Directed<Half, -1>, uint16_t, float>(t, "cvt.rm.f16.f32");
  add1<Directed<Half, 1>, uint16_t, float>(t, "cvt.rp.f16.f32");
  add1<Directed<Bfloat, 0>, uint16_t, float>(t, "cvt.rz.bf16.f32");
  add1<ToBfloat, uint16_t, float>(t, "cvt.rn.bf16.f32");
  add1<FromBfloat, float, uint16_t>(t, "cvt.f32.bf16");
  add1<HalfToInteger32, int32_t, uint16_t>(t, "cvt.rzi.s32.f16");
  add1<ToTf32, uint32_t, uint32_t>(t, "cvt.rna.tf32.f32");
  add1<ToFloat, float, double>(t, "cvt.rn.f32.f64");
  add1<ToFloat, double, float>(t, "cvt.f64.f32");
  add1<Whole<Round::Nearest, float>, float, float>(t, "cvt.rni.f32.f32");
  add1<Whole<Round::Zero, float>, float, float>(t, "cvt.rzi.f32.f32");
  add1<Whole<Round::Down, float>, float, float>(t, "cvt.rmi.f32.f32");
  add1<Whole<Round::Up, float>, float, float>(t, "cvt.rpi.f32.f32");
  add1<Whole<Round::Nearest, double>, double, double>(t, "cvt.rni.f64.f64");
  add1<Whole<Round::Zero, double>, double, double>(t, "cvt.rzi.f64.f64");
  add1<Whole<Round::Down, double>, double, double>(t, "cvt.rmi.f64.f64");
  add1<Whole<Round::Up, double>, double, double>(t, "cvt.rpi.f64.f64");
  saturated<int16_t, int32_t>(t, "s16.s32");
  saturated<uint16_t, uint32_t>(t, "u16.u32");
  saturated<int32_t, int64_t>(t, "s32.s64");
  saturated<uint32_t, int32_t>(t, "u32.s32");
}

// clang-format off: each run would format this differently
#define EACH_INTEGER(X)                                                                                         \
  X("s8", int8_t) X("u8", uint8_t) X("b8", uint8_t) X("s16", int16_t) X("u16", uint16_t) X("b16", uint16_t)    \
  X("s32", int32_t) X("u32", uint32_t) X("b32", uint32_t) X("s64", int64_t) X("u64", uint64_t) X("b64", uint64_t)
// clang-format on

/** Converts between integers of any widths. The registers may be wider than the types. */
bool lower_integer_conversion(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const Operand &d = s.operands[0], &a = s.operands[1];
  const unsigned to = l.register_bytes(d), from = a.kind == OperandKind::Register ? l.register_bytes(a) : 8;
  ReadIntegers read = nullptr;
  WriteIntegers write = nullptr;
#define READ(NAME, TYPE) \
  if (s.mods[1] == NAME) read = reader<TYPE>(from);
#define WRITE(NAME, TYPE) \
  if (s.mods[0] == NAME) write = writer<TYPE>(to);
  EACH_INTEGER(READ)
  EACH_INTEGER(WRITE)
#undef READ
#undef WRITE
  if (!read || !write) return false;
  ins.d = l.slot(d, to);
  ins.a = l.slot(a, from);
  ins.fn = convert_integer;
  l.extra(ins).readers[0] = reinterpret_cast<void (*)()>(read);
  l.extra(ins).readers[1] = reinterpret_cast<void (*)()>(write);
  return true;
}

}  // namespace

}  // namespace flashcore::emu::ptx
