// cvt between any two types.
#pragma once
#include <cmath>
#include <string>

#include "formats.h"
#include "lanes.h"

namespace flashcore::emu::ptx {

namespace {

/**
 * A NaN becomes 0 if the float has at most 32 bits and the integer has fewer than 64. Otherwise it becomes the smallest
 * number.
 */
Wide to_integer(double x, const IntegerType& t, Rounding mode, bool from_double) {
  if (x != x) {
    if (!from_double && t.bits != 64) return 0;
    return -(static_cast<Wide>(1) << (t.bits - 1));
  }
  const double whole = mode == Rounding::Zero   ? std::trunc(x)
                       : mode == Rounding::Down ? std::floor(x)
                       : mode == Rounding::Up   ? std::ceil(x)
                                                : std::nearbyint(x);
  if (whole >= 0x1p70 || whole <= -0x1p70) return clamped(static_cast<Wide>(whole > 0 ? 1 : -1) << 70, t);
  return clamped(static_cast<Wide>(whole), t);
}

bool lower_pair_conversion(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const std::string &to = s.mods[s.mods.size() - 2], &from = s.mods.back();
  const Format* f = format_of(to.substr(0, to.size() - 2));
  if (!f) return false;
  const Rounding mode = rounding_of(s);
  const bool relu = has(s, "relu"), last = has(s, "satfinite");
  const unsigned bytes = static_cast<unsigned>(f->bits()) / 4, width = static_cast<unsigned>(f->bits());
  const auto both = [=](double low, double high) {
    return rounded(relu ? relu_of(low) : low, *f, mode, last) | rounded(relu ? relu_of(high) : high, *f, mode, last)
                                                                    << width;
  };
  if (from == "f32")  // the first operand goes to the upper half
    return bind(l, ins, {{bytes}, {4, 4}}, [=](Warp&, unsigned, const Word* in, Word* out) {
      out[0] = both(number_of(in[1], SINGLE), number_of(in[0], SINGLE));
    });
  const Format* g = format_of(from.substr(0, from.size() - 2));
  if (!g || from.size() < 3 || from.substr(from.size() - 2) != "x2") return false;
  const unsigned part = static_cast<unsigned>(g->bits());
  return bind(l, ins, {{bytes}, {part / 4}}, [=](Warp&, unsigned, const Word* in, Word* out) {
    const Word m = (Word(1) << part) - 1;
    out[0] = both(number_of(in[0] & m, *g), number_of(in[0] >> part & m, *g));
  });
}

bool lower_conversion(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.mods.size() < 2) return false;
  if (s.mods[0] == "pack" && s.mods.size() >= 4) {
    // cvt.pack.sat.u8.s32.b32 d, a, b, c moves c up, and packs a and b below it.
    const IntegerType t = integer_type(s.mods[2]);
    if (t.bits != 16 && t.bits != 8 && t.bits != 4 && t.bits != 2) return false;
    const auto packed = [=](Warp&, unsigned, const Word* in, Word* out) {
      const IntegerType word{32, true};
      const Word m = (Word(1) << t.bits) - 1;
      const auto of = [&](Word bits) { return static_cast<Word>(clamped(value_of(bits, word), t)) & m; };
      out[0] = (in[2] << (2 * t.bits) | of(in[0]) << t.bits | of(in[1])) & 0xffffffff;
    };
    return s.mods.back() == "b32" ? bind(l, ins, {{4}, {4, 4, 4}}, packed) : bind(l, ins, {{4}, {4, 4}}, packed);
  }
  const std::string &to = s.mods[s.mods.size() - 2], &from = s.mods.back();
  if (to.size() > 2 && to.substr(to.size() - 2) == "x2") return lower_pair_conversion(l, ins);
  const Format *f = format_of(to), *g = format_of(from);
  const IntegerType ti = integer_type(to), fi = integer_type(from);
  if ((!f && !ti.bits) || (!g && !fi.bits)) return false;
  const Rounding mode = rounding_of(s);
  const bool relu = has(s, "relu"), sat = has(s, "sat"), flush = has(s, "ftz"), last = has(s, "satfinite");
  const bool to_whole = has(s, "rni") || has(s, "rzi") || has(s, "rmi") || has(s, "rpi");
  const auto bytes_of = [](const Format* format) {
    if (format) return static_cast<unsigned>(format->bits() == 19 ? 4 : format->bits() / 8);
    return 1u;
  };
  const bool from_double = g == &DOUBLE;
  return bind(l, ins, {{bytes_of(f)}, {bytes_of(g)}}, [=](Warp&, unsigned, const Word* in, Word* out) {
    if (!g) {
      const Wide value = value_of(in[0], fi);
      if (f)
        out[0] = rounded(static_cast<long double>(value), *f, mode);
      else
        out[0] = static_cast<Word>(sat ? clamped(value, ti) : value_of(static_cast<Word>(value), ti));
      return;
    }
    double x = number_of(in[0], *g);
    if (flush && std::fabs(x) < 0x1p-126) x = std::copysign(0.0, x);
    if (!f) {
      out[0] = static_cast<Word>(to_integer(x, ti, mode, from_double));
      return;
    }
    if (to_whole && std::isfinite(x)) {
      const double whole = mode == Rounding::Zero   ? std::trunc(x)
                           : mode == Rounding::Down ? std::floor(x)
                           : mode == Rounding::Up   ? std::ceil(x)
                                                    : std::nearbyint(x);
      x = whole;
    }
    if (sat) x = x > 0 ? (x < 1 ? x : 1.0) : 0.0;
    if (relu) x = relu_of(x);
    out[0] = rounded(x, *f, to_whole ? Rounding::Nearest : mode, last) << (f == &TF32 ? 13 : 0);
  });
}

}  // namespace

}  // namespace flashcore::emu::ptx
