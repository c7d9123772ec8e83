// Floating-point formats of 4 to 64 bits, and rounding to them; integers of any width up to 64 bits.
#pragma once
#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <string>

#include "../halves.h"
#include "../lower.h"
#include "lanes.h"

namespace flashcore::emu::ptx {

namespace {

struct Format {
  int exponent_bits, mantissa_bits;
  bool has_infinity = true;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  Word infinity() const { return ((Word(1) << exponent_bits) - 1) << mantissa_bits; }
  /** All bits set except the sign. */
  Word nan() const { return (Word(1) << (bits() - 1)) - 1; }
  Word largest() const { return has_infinity ? infinity() - 1 : nan() - 1; }
};
constexpr Format HALF{5, 10}, BFLOAT{8, 7}, TF32{8, 10}, SINGLE{8, 23}, DOUBLE{11, 52}, E5M2{5, 2}, E4M3{4, 3, false};

const Format* format_of(const std::string& type) {
  static const std::map<std::string, const Format*> FORMATS = {{"f16", &HALF},   {"bf16", &BFLOAT}, {"tf32", &TF32},
                                                               {"f32", &SINGLE}, {"f64", &DOUBLE},  {"e5m2", &E5M2},
                                                               {"e4m3", &E4M3}};
  const auto found = FORMATS.find(type);
  return found == FORMATS.end() ? nullptr : found->second;
}

double number_of(Word bits, const Format& f) {
  const double sign = bits >> (f.bits() - 1) & 1 ? -1.0 : 1.0;
  const auto exponent = static_cast<int>(bits >> f.mantissa_bits & ((Word(1) << f.exponent_bits) - 1));
  const Word mantissa = bits & ((Word(1) << f.mantissa_bits) - 1);
  if (!f.has_infinity && (bits & f.nan()) == f.nan()) return NAN;
  if (f.has_infinity && exponent == (1 << f.exponent_bits) - 1) return mantissa ? NAN : sign * INFINITY;
  const Word whole = exponent ? mantissa | Word(1) << f.mantissa_bits : mantissa;
  return sign * std::ldexp(static_cast<double>(whole), std::max(exponent, 1) - f.bias() - f.mantissa_bits);
}

enum class Rounding : uint8_t { Nearest, NearestAway, Zero, Down, Up };

/** Rounds x once to a format. x has a significand of at most 64 bits. */
Word rounded(long double x, const Format& f, Rounding mode, bool largest_is_last = false) {
  if (x != x) return f.nan();
  const bool negative = std::signbit(x);
  const Word sign = negative ? Word(1) << (f.bits() - 1) : 0;
  if (x == 0) return sign;
  if (std::isinf(x)) return sign | (largest_is_last ? f.largest() : f.infinity());
  int exponent;
  std::frexp(std::fabs(x), &exponent);
  exponent = std::max(exponent - 1, 1 - f.bias());
  const long double scaled = std::ldexp(std::fabs(x), f.mantissa_bits - exponent);
  const long double whole = std::floor(scaled), rest = scaled - whole;
  Word bits = static_cast<Word>(whole);
  bool up = false;
  switch (mode) {
    case Rounding::Nearest: up = rest > 0.5L || (rest == 0.5L && (bits & 1)); break;
    case Rounding::NearestAway: up = rest >= 0.5L; break;
    case Rounding::Zero: break;
    case Rounding::Down: up = negative && rest > 0; break;
    case Rounding::Up: up = !negative && rest > 0; break;
  }
  bits += up;
  bits += static_cast<Word>(exponent + f.bias() - 1) << f.mantissa_bits;
  if (bits <= f.largest()) return sign | bits;
  const bool stays = largest_is_last || mode == Rounding::Zero || (mode == Rounding::Down && !negative) ||
                     (mode == Rounding::Up && negative);
  return sign | (stays ? f.largest() : f.infinity());
}

Rounding rounding_of(const Statement& s) {
  if (has(s, "rna")) return Rounding::NearestAway;
  if (has(s, "rz") || has(s, "rzi")) return Rounding::Zero;
  if (has(s, "rm") || has(s, "rmi")) return Rounding::Down;
  if (has(s, "rp") || has(s, "rpi")) return Rounding::Up;
  return Rounding::Nearest;
}

double relu_of(double x) { return x != x ? x : (x > 0 ? x : 0.0); }

struct IntegerType {
  unsigned bits = 0;
  bool is_signed = false;
};
IntegerType integer_type(const std::string& type) {
  if (type.size() < 2 || (type[0] != 's' && type[0] != 'u')) return {};
  const auto bits = static_cast<unsigned>(atoi(type.c_str() + 1));
  if (bits < 2 || bits > 64 || (bits & (bits - 1)) != 0) return {};
  return {bits, type[0] == 's'};
}
using Wide = __int128;
Wide value_of(Word bits, const IntegerType& t) {
  const Word kept = t.bits == 64 ? bits : bits & ((Word(1) << t.bits) - 1);
  if (t.is_signed && (kept >> (t.bits - 1) & 1)) return static_cast<Wide>(kept) - (static_cast<Wide>(1) << t.bits);
  return static_cast<Wide>(kept);
}
Wide clamped(Wide value, const IntegerType& t) {
  const Wide low = t.is_signed ? -(static_cast<Wide>(1) << (t.bits - 1)) : 0;
  const Wide high = low + (static_cast<Wide>(1) << t.bits) - 1;
  return value < low ? low : (value > high ? high : value);
}

}  // namespace

}  // namespace flashcore::emu::ptx
