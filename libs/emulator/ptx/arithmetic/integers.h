// Integers and bits.
#pragma once
#include <string>
#include <type_traits>

#include "comparisons.h"
#include "operations.h"
#include "shapes.h"

namespace flashcore::emu::ptx {

namespace {

template <class T>
struct Wide {
  using type = std::conditional_t<std::is_signed_v<T>, std::conditional_t<sizeof(T) == 2, int32_t, int64_t>,
                                  std::conditional_t<sizeof(T) == 2, uint32_t, uint64_t>>;
};

struct WideMultiply {
  template <class T>
  static auto of(T a, T b) {
    return static_cast<typename Wide<T>::type>(a) * b;
  }
};
struct WideMultiplyAdd {
  template <class T, class C>
  static C of(T a, T b, C c) {
    return static_cast<C>(static_cast<typename Wide<T>::type>(a) * b) + c;
  }
};
struct HighMultiply {
  template <class T>
  static T of(T a, T b) {
    if constexpr (sizeof(T) == 8) {
      using Big = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
      return static_cast<T>(static_cast<Big>(a) * b >> 64);
    } else {
      return static_cast<T>(static_cast<typename Wide<T>::type>(a) * b >> (8 * sizeof(T)));
    }
  }
};
struct HighMultiplyAdd {
  template <class T>
  static T of(T a, T b, T c) {
    return static_cast<T>(static_cast<Unsigned<T>>(HighMultiply::of(a, b)) + static_cast<Unsigned<T>>(c));
  }
};
// A divisor of 0 gives all ones, as on GPUs; the manual calls the result unspecified.
struct IntegerDivide {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return static_cast<T>(-static_cast<Unsigned<T>>(a));
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <class T>
  static T of(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return 0;
    return static_cast<T>(a % b);
  }
};
// Shifts by the width or more give zeros or copies of the sign.
struct ShiftLeft {
  template <class T>
  static T of(T a, uint32_t b) {
    return b >= 8 * sizeof(T) ? T(0) : static_cast<T>(a << (b & (8 * sizeof(T) - 1)));
  }
};
struct ShiftRight {
  template <class T>
  static T of(T a, uint32_t b) {
    constexpr uint32_t BITS = 8 * sizeof(T);
    if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> (b >= BITS ? BITS - 1 : b));
    return b >= BITS ? T(0) : static_cast<T>(a >> (b & (BITS - 1)));
  }
};
struct PopulationCount {
  template <class T>
  static uint32_t of(T a) {
    return static_cast<uint32_t>(__builtin_popcountll(a));
  }
};
struct LeadingZeros {
  static uint32_t of(uint32_t a) { return a ? static_cast<uint32_t>(__builtin_clz(a)) : 32; }
  static uint32_t of(uint64_t a) { return a ? static_cast<uint32_t>(__builtin_clzll(a)) : 64; }
};
struct FindHighest {
  template <class T>
  static uint32_t of(T a) {
    Unsigned<T> bits = static_cast<Unsigned<T>>(a);
    if (std::is_signed_v<T> && a < 0) bits = static_cast<Unsigned<T>>(~bits);
    return bits ? 63u - static_cast<uint32_t>(__builtin_clzll(bits)) : ~0u;
  }
};
struct Reverse {
  static uint32_t of(uint32_t a) {
    uint32_t r = 0;
    for (int k = 0; k < 32; ++k) r |= (a >> k & 1) << (31 - k);
    return r;
  }
  static uint64_t of(uint64_t a) {
    return static_cast<uint64_t>(of(static_cast<uint32_t>(a))) << 32 | of(static_cast<uint32_t>(a >> 32));
  }
};
struct Extract {
  template <class T>
  static T of(T a, uint32_t position, uint32_t length) {
    constexpr unsigned BITS = 8 * sizeof(T);
    if (BITS == 32) position &= 255;  // with 64 bits the hardware looks at the whole position
    if (BITS == 32) length &= 255;
    if (length > BITS) length = BITS;
    const Unsigned<T> bits = static_cast<Unsigned<T>>(a);
    const unsigned top = position < BITS && position + length - 1 < BITS ? position + length - 1 : BITS - 1;
    const bool sign = std::is_signed_v<T> && length != 0 && (bits >> top & 1);
    if (length == 0) return 0;
    Unsigned<T> out = position >= BITS ? Unsigned<T>(0) : static_cast<Unsigned<T>>(bits >> position);
    if (length < BITS) {
      const Unsigned<T> m = static_cast<Unsigned<T>>((Unsigned<T>(1) << length) - 1);
      const unsigned kept = position >= BITS ? 0 : BITS - position;
      out &= m;
      if (sign) out |= static_cast<Unsigned<T>>(~m);
      if (sign && kept < length) out |= static_cast<Unsigned<T>>(~((Unsigned<T>(1) << kept) - 1));
    } else if (sign && position) {
      out |= position >= BITS ? static_cast<Unsigned<T>>(~Unsigned<T>(0))
                              : static_cast<Unsigned<T>>(~Unsigned<T>(0) << (BITS - position));
    }
    return static_cast<T>(out);
  }
};
template <class T>
const Ins* insert(Warp& w, const Ins* i) {
  const T *a = w.reg<T>(i->a), *b = w.reg<T>(i->b);
  const uint32_t* position = w.reg<uint32_t>(i->c);
  const uint32_t* length = w.reg<uint32_t>(i->extra->d[0]);
  write_lanes<T>(w, i->d, w.active(i), [=](int k) {
    constexpr unsigned BITS = 8 * sizeof(T);
    const unsigned at = BITS == 32 ? position[k] & 255 : position[k], count = BITS == 32 ? length[k] & 255 : length[k];
    if (count == 0 || at >= BITS) return b[k];
    const T ones = count >= BITS ? ~T(0) : static_cast<T>((T(1) << count) - 1);
    const T m = static_cast<T>(ones << at);
    return static_cast<T>((b[k] & ~m) | ((a[k] << at) & m));
  });
  return i + 1;
}

struct FunnelLeft {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    return static_cast<uint32_t>(both << (c & 31) >> 32);
  }
};
struct FunnelRight {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    return static_cast<uint32_t>(both >> (c & 31));
  }
};
struct FunnelLeftClamped {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    return c >= 32 ? a : static_cast<uint32_t>(both << c >> 32);
  }
};
struct FunnelRightClamped {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    return c >= 32 ? b : static_cast<uint32_t>(both >> c);
  }
};
struct Permute {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t selectors) {
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    uint32_t out = 0;
    for (int n = 0; n < 4; ++n) {
      const uint32_t selector = selectors >> (4 * n) & 15;
      uint32_t byte = static_cast<uint32_t>(both >> (8 * (selector & 7))) & 255;
      if (selector & 8) byte = byte & 128 ? 255 : 0;
      out |= byte << (8 * n);
    }
    return out;
  }
};
struct AbsoluteDifferenceAdd {
  template <class T>
  static T of(T a, T b, T c) {
    return static_cast<T>(static_cast<Unsigned<T>>(c) +
                          (a < b ? static_cast<Unsigned<T>>(b) - static_cast<Unsigned<T>>(a)
                                 : static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b)));
  }
};
template <class A, class B>
struct DotProduct4 {
  template <class C>
  static C of(uint32_t a, uint32_t b, C c) {
    uint32_t sum = static_cast<uint32_t>(c);
    for (int n = 0; n < 4; ++n)
      sum += static_cast<uint32_t>(static_cast<int>(static_cast<A>(a >> (8 * n))) *
                                   static_cast<int>(static_cast<B>(b >> (8 * n))));
    return static_cast<C>(sum);
  }
};

const Ins* logic3(Warp& w, const Ins* i) {
  const uint32_t *a = w.reg<uint32_t>(i->a), *b = w.reg<uint32_t>(i->b), *c = w.reg<uint32_t>(i->c);
  const unsigned table = static_cast<unsigned>(i->imm);
  write_lanes<uint32_t>(w, i->d, w.active(i), [=](int k) {
    uint32_t out = 0;
    for (unsigned n = 0; n < 8; ++n)
      out |= (table >> n & 1) ? ((n & 4 ? a[k] : ~a[k]) & (n & 2 ? b[k] : ~b[k]) & (n & 1 ? c[k] : ~c[k])) : 0;
    return out;
  });
  return i + 1;
}

template <class T>
void integers(Table& t, const std::string& type) {
  using U = Unsigned<T>;
  add2<Add, U, U, U>(t, "add." + type);
  add2<Subtract, U, U, U>(t, "sub." + type);
  if (sizeof(T) == 2)
    add2<WideMultiply, uint16_t, uint16_t, uint16_t>(t, "mul.lo." + type);
  else
    add2<Multiply, U, U, U>(t, "mul.lo." + type);
  add2<HighMultiply, T, T, T>(t, "mul.hi." + type);
  add3<HighMultiplyAdd, T, T, T, T>(t, "mad.hi." + type);
  add3<MultiplyAdd, U, U, U, U>(t, "mad.lo." + type);
  if constexpr (sizeof(T) < 8) {
    using W = typename Wide<T>::type;
    add2<WideMultiply, W, T, T>(t, "mul.wide." + type);
    add3<WideMultiplyAdd, W, T, T, W>(t, "mad.wide." + type);
  }
  add2<IntegerDivide, T, T, T>(t, "div." + type);
  add2<Remainder, T, T, T>(t, "rem." + type);
  add2<Smaller, T, T, T>(t, "min." + type);
  add2<Larger, T, T, T>(t, "max." + type);
  add2<ShiftRight, T, T, uint32_t>(t, "shr." + type);
  add3<AbsoluteDifferenceAdd, T, T, T, T>(t, "sad." + type);
  if (std::is_signed_v<T>) {
    add1<Negate, U, U>(t, "neg." + type);
    add1<Magnitude, T, T>(t, "abs." + type);
  }
  if constexpr (sizeof(T) >= 4) {
    add3<Extract, T, T, uint32_t, uint32_t>(t, "bfe." + type);
    add1<FindHighest, uint32_t, T>(t, "bfind." + type);
  }
  comparisons<T>(t, type);
  t["selp." + type] = {select<U>, 4, {sizeof(T), sizeof(T), sizeof(T), 0}};
  add1<Same, U, U>(t, "mov." + type);
}

template <class U>
void bits(Table& t, const std::string& type) {
  add2<And, U, U, U>(t, "and." + type);
  add2<Or, U, U, U>(t, "or." + type);
  add2<Xor, U, U, U>(t, "xor." + type);
  add1<Not, U, U>(t, "not." + type);
  add1<LogicalNot, U, U>(t, "cnot." + type);
  add2<ShiftLeft, U, U, uint32_t>(t, "shl." + type);
  add2<ShiftRight, U, U, uint32_t>(t, "shr." + type);
  add1<Same, U, U>(t, "mov." + type);
  t["selp." + type] = {select<U>, 4, {sizeof(U), sizeof(U), sizeof(U), 0}};
  comparisons<U>(t, type);
  if constexpr (sizeof(U) >= 4) {
    add1<PopulationCount, uint32_t, U>(t, "popc." + type);
    add1<LeadingZeros, uint32_t, U>(t, "clz." + type);
    add1<Reverse, U, U>(t, "brev." + type);
    t["bfi." + type] = {insert<U>, 4, {sizeof(U), sizeof(U), sizeof(U), 4}};
  }
}

/** Adds operations of every width, then those that only 32 bits have. */
void add_integers(Table& t) {
  integers<int16_t>(t, "s16");
  integers<uint16_t>(t, "u16");
  integers<int32_t>(t, "s32");
  integers<uint32_t>(t, "u32");
  integers<int64_t>(t, "s64");
  integers<uint64_t>(t, "u64");
  bits<uint16_t>(t, "b16");
  bits<uint32_t>(t, "b32");
  bits<uint64_t>(t, "b64");
  add3<FunnelLeft, uint32_t, uint32_t, uint32_t, uint32_t>(t, "shf.l.wrap.b32");
  add3<FunnelRight, uint32_t, uint32_t, uint32_t, uint32_t>(t, "shf.r.wrap.b32");
  add3<FunnelLeftClamped, uint32_t, uint32_t, uint32_t, uint32_t>(t, "shf.l.clamp.b32");
  add3<FunnelRightClamped, uint32_t, uint32_t, uint32_t, uint32_t>(t, "shf.r.clamp.b32");
  add3<Permute, uint32_t, uint32_t, uint32_t, uint32_t>(t, "prmt.b32");
  t["lop3.b32"] = {logic3, 4, {4, 4, 4, 4}};
  add3<DotProduct4<int8_t, int8_t>, int32_t, uint32_t, uint32_t, int32_t>(t, "dp4a.s32.s32");
  add3<DotProduct4<uint8_t, uint8_t>, uint32_t, uint32_t, uint32_t, uint32_t>(t, "dp4a.u32.u32");
  add3<DotProduct4<int8_t, uint8_t>, int32_t, uint32_t, uint32_t, int32_t>(t, "dp4a.s32.u32");
  add3<DotProduct4<uint8_t, int8_t>, int32_t, uint32_t, uint32_t, int32_t>(t, "dp4a.u32.s32");
}

}  // namespace

}  // namespace flashcore::emu::ptx
