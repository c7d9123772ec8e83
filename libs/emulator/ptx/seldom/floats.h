// Floats: directed rounding, halves with subnormals flushed, and set.
#pragma once
#include <cfenv>
#include <cmath>
#include <string>

#include "formats.h"
#include "lanes.h"

namespace flashcore::emu::ptx {

namespace {

/** Runs one operation with directed rounding. Sets the thread's rounding mode only for that time. */
template <class T>
T directed(char op, int mode, const std::array<T, 3>& operands) {
  volatile T a = operands[0], b = operands[1], c = operands[2], result = 0;
  fesetround(mode);
  switch (op) {
    case '+': result = a + b; break;
    case '-': result = a - b; break;
    case '*': result = a * b; break;
    case '/': result = a / b; break;
    case 'r': result = std::sqrt(a); break;
    default: result = std::fma(a, b, c); break;
  }
  fesetround(FE_TONEAREST);
  return result;
}

template <class T>
T as(Word bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
Word bits_of(T value) {
  Word bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
bool lower_directed(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const int mode = has(s, "rz") ? FE_TOWARDZERO : (has(s, "rm") ? FE_DOWNWARD : (has(s, "rp") ? FE_UPWARD : -1));
  static const std::map<std::string, char> OPERATIONS = {{"add", '+'}, {"sub", '-'}, {"mul", '*'},  {"div", '/'},
                                                         {"rcp", '1'}, {"fma", 'f'}, {"sqrt", 'r'}, {"mad", 'f'}};
  const auto found = OPERATIONS.find(s.op);
  if (found == OPERATIONS.end() || mode < 0) return false;
  const char op = found->second;
  const bool sat = has(s, "sat");
  const auto each = [=](Warp&, unsigned, const Word* in, Word* out) {
    T value = op == '1' ? directed<T>('/', mode, {T(1), as<T>(in[0]), T(0)})
                        : directed<T>(op, mode, {as<T>(in[0]), as<T>(in[1]), as<T>(in[2])});
    if (sat) value = value > 0 ? (value < 1 ? value : T(1)) : T(0);
    out[0] = bits_of<T>(value);
  };
  constexpr unsigned B = sizeof(T);
  if (op == '1' || op == 'r') return bind(l, ins, {{B}, {B}}, each);
  return op == 'f' ? bind(l, ins, {{B}, {B, B, B}}, each) : bind(l, ins, {{B}, {B, B}}, each);
}

bool holds(const std::string& test, double a, double b) {
  const bool unordered = a != a || b != b;
  if (test == "num") return !unordered;
  if (test == "nan") return unordered;
  const bool or_unordered = test.size() == 3;
  if (unordered) return or_unordered || test == "neu";
  const std::string plain = test.substr(0, 2);
  return plain == "eq"   ? a == b
         : plain == "ne" ? a != b
         : plain == "lt" ? a < b
         : plain == "le" ? a <= b
         : plain == "gt" ? a > b
                         : a >= b;
}

/** Lowers add, sub, mul and fma of halves with subnormals flushed to 0. */
bool lower_flushed_halves(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const char op = s.op == "add" ? '+' : s.op == "sub" ? '-' : s.op == "mul" ? '*' : s.op == "fma" ? 'f' : 0;
  if (!op) return false;
  const unsigned bytes = s.mods.back() == "f16x2" ? 4 : 2;
  const bool sat = has(s, "sat"), relu = has(s, "relu");
  const auto each = [=](Warp&, unsigned, const Word* in, Word* out) {
    for (unsigned shift = 0; shift < 8 * bytes; shift += 16) {
      double x[3];
      for (int n = 0; n < 3; ++n) {
        x[n] = number_of(in[n] >> shift & 0xffff, HALF);
        if (std::fabs(x[n]) < 0x1p-14) x[n] = std::copysign(0.0, x[n]);
      }
      // A double holds a sum of three halves except for its last bits, which do not affect rounding to a half.
      double y = op == '+'   ? x[0] + x[1]
                 : op == '-' ? x[0] - x[1]
                 : op == '*' ? x[0] * x[1]
                             : std::fma(x[0], x[1], x[2]);
      if (sat) y = y > 0 ? std::min(y, 1.0) : 0.0;
      if (relu) y = relu_of(y);
      Word bits = rounded(y, HALF, Rounding::Nearest);
      if (!(bits & 0x7c00)) bits &= 0x8000;
      out[0] |= bits << shift;
    }
  };
  return op == 'f' ? bind(l, ins, {{bytes}, {bytes, bytes, bytes}}, each)
                   : bind(l, ins, {{bytes}, {bytes, bytes}}, each);
}

/**
 * Lowers neg, abs, min and max of halves, with .ftz, .NaN and .xorsign.abs. These only select or change bits, so
 * nothing is rounded.
 */
bool lower_half_choice(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const std::string& type = s.mods.back();
  const bool pair = type.size() > 2 && type.substr(type.size() - 2) == "x2", bfloat = type[0] == 'b';
  const bool one = s.op == "neg" || s.op == "abs", smallest = s.op == "min";
  if (!one && !smallest && s.op != "max") return false;
  if (type != "f16" && type != "f16x2" && type != "bf16" && type != "bf16x2") return false;
  const unsigned bytes = pair ? 4 : 2;
  const bool negates = s.op == "neg", flush = has(s, "ftz"), keeps_nan = has(s, "NaN"), xors = has(s, "xorsign");
  const Format f = bfloat ? BFLOAT : HALF;
  const auto choice = [=](Word a, Word b) -> Word {
    const Word sign = 0x8000, magnitude = 0x7fff;
    if (flush && (a & magnitude) < 0x400) a &= sign;
    if (flush && (b & magnitude) < 0x400) b &= sign;
    if (one) return negates ? a ^ sign : a & magnitude;
    const Word signs = (a ^ b) & sign;
    if (xors) a &= magnitude, b &= magnitude;
    const bool no_a = (a & magnitude) > f.infinity(), no_b = (b & magnitude) > f.infinity();
    if ((no_a && no_b) || (keeps_nan && (no_a || no_b))) return f.nan();
    const double x = number_of(a, f), y = number_of(b, f);
    const bool negative_zero = x == 0 && y == 0 && ((a | b) & sign) != 0;
    Word chosen = no_a ? b : (no_b ? a : ((smallest ? x < y : x > y) ? a : b));
    if (negative_zero) chosen = smallest ? sign : a & b;
    return xors ? chosen | signs : chosen;
  };
  const auto each = [=](Warp&, unsigned, const Word* in, Word* out) {
    for (unsigned shift = 0; shift < 8 * bytes; shift += 16)
      out[0] |= choice(in[0] >> shift & 0xffff, in[1] >> shift & 0xffff) << shift;
  };
  return one ? bind(l, ins, {{bytes}, {bytes}}, each) : bind(l, ins, {{bytes}, {bytes, bytes}}, each);
}

bool holds(const std::string& test, Wide a, Wide b) {
  return test == "eq"                   ? a == b
         : test == "ne"                 ? a != b
         : test == "lt" || test == "lo" ? a < b
         : test == "le" || test == "ls" ? a <= b
         : test == "gt" || test == "hi" ? a > b
                                        : a >= b;
}

/** Combines a comparison and a predicate with `and`, `or` or `xor`. */
bool joined(const std::string& join, bool truth, bool other) {
  return join == "and" ? truth && other : join == "or" ? truth || other : join == "xor" ? truth != other : truth;
}

/**
 * Lowers set: if the comparison is true, the result is 1.0 or a mask as wide as the result. Pairs of halves have one in
 * each half.
 */
bool lower_set(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const std::string test = s.mods[0], type = s.mods.back(), join = s.mods[1];
  const bool ftz = has(s, "ftz"), joins = join == "and" || join == "or" || join == "xor";
  if (s.mods.size() != 3u + ftz + joins) return false;
  const std::string& to = s.mods[s.mods.size() - 2];
  const bool pair = type == "f16x2" || type == "bf16x2";
  const Format* const part = pair ? (type == "f16x2" ? &HALF : &BFLOAT) : format_of(type);
  IntegerType whole = integer_type(type);
  if (type[0] == 'b' && !part) whole = {static_cast<unsigned>(atoi(type.c_str() + 1)), false};
  if (!part && whole.bits != 16 && whole.bits != 32 && whole.bits != 64) return false;
  const bool is_one = (part && to == type) || (to == "f32" && !pair), mask32 = to == "u32" || to == "s32";
  if (!is_one && !mask32 && (pair || !part || (to != "u16" && to != "s16"))) return false;
  const unsigned from_bytes = pair ? 4 : (part ? static_cast<unsigned>(part->bits()) : whole.bits) / 8;
  const unsigned to_bytes = mask32 || to == "f32" || pair ? 4 : (is_one ? from_bytes : 2);
  const Word mask = pair || to_bytes == 2 ? 0xffff : 0xffffffff;
  const Word truth = is_one ? rounded(1.0, to == "f32" ? SINGLE : *part, Rounding::Nearest) : mask;
  const double least = ftz ? (type == "f32" ? 0x1p-126 : 0x1p-14) : 0;
  const bool negated = joins && s.operands[3].negated;
  const auto each = [=](Warp&, unsigned, const Word* in, Word* out) {
    for (unsigned n = 0; n < (pair ? 32u : 16u); n += 16) {
      bool found;
      if (part) {
        double x[2];
        for (int k = 0; k < 2; ++k) {
          x[k] = number_of(pair ? in[k] >> n & 0xffff : in[k], *part);
          if (std::fabs(x[k]) < least) x[k] = 0;
        }
        found = holds(test, x[0], x[1]);
      } else {
        found = holds(test, value_of(in[0], whole), value_of(in[1], whole));
      }
      if (joined(join, found, (in[2] != 0) != negated)) out[0] |= truth << n;
    }
  };
  return joins ? bind(l, ins, {{to_bytes}, {from_bytes, from_bytes, 0}}, each)
               : bind(l, ins, {{to_bytes}, {from_bytes, from_bytes}}, each);
}

bool lower_floats(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const std::string& type = s.mods.back();
  const Format* f = format_of(type);
  if (s.op == "testp" && f) {
    const std::string test = s.mods[0];
    return bind(l, ins, {{0}, {static_cast<unsigned>(f->bits()) / 8}}, [=](Warp&, unsigned, const Word* in, Word* out) {
      const Word x = in[0] & f->nan(), least = Word(1) << f->mantissa_bits;
      // The hardware counts zero as normal.
      out[0] = test == "finite"       ? x < f->infinity()
               : test == "infinite"   ? x == f->infinity()
               : test == "number"     ? x <= f->infinity()
               : test == "notanumber" ? x > f->infinity()
               : test == "normal"     ? x == 0 || (x >= least && x < f->infinity())
                                      : x > 0 && x < least;
    });
  }
  if (s.op == "set") return lower_set(l, ins);
  if (lower_half_choice(l, ins)) return true;
  if (s.op == "copysign" && type == "f64")
    return bind(l, ins, {{8}, {8, 8}}, [](Warp&, unsigned, const Word* in, Word* out) {
      out[0] = (in[0] & Word(1) << 63) | (in[1] & ~(Word(1) << 63));
    });
  if (s.op == "setp" && (type == "f16" || type == "bf16") && s.mods.size() == (has(s, "ftz") ? 3u : 2u)) {
    const std::string test = s.mods[0];
    const double least = has(s, "ftz") ? 0x1p-14 : 0;
    return bind(l, ins, {{0}, {2, 2}}, [=](Warp&, unsigned, const Word* in, Word* out) {
      double x[2];
      for (int k = 0; k < 2; ++k) {
        x[k] = number_of(in[k], *f);
        if (std::fabs(x[k]) < least) x[k] = 0;
      }
      out[0] = holds(test, x[0], x[1]);
    });
  }
  if (has(s, "ftz") && (type == "f16" || type == "f16x2")) return lower_flushed_halves(l, ins);
  if ((s.op == "min" || s.op == "max") && has(s, "xorsign") && type == "f32") {
    const bool smallest = s.op == "min", keeps_nan = has(s, "NaN");
    return bind(l, ins, {{4}, {4, 4}}, [=](Warp&, unsigned, const Word* in, Word* out) {
      const double a = std::fabs(number_of(in[0], SINGLE)), b = std::fabs(number_of(in[1], SINGLE));
      double x = a != a ? b : (b != b ? a : (smallest ? std::min(a, b) : std::max(a, b)));
      if (x != x || (keeps_nan && (a != a || b != b)))
        out[0] = SINGLE.nan();
      else
        out[0] = rounded(x, SINGLE, Rounding::Nearest) | ((in[0] ^ in[1]) & 0x80000000);
    });
  }
  if (type == "f64" && has(s, "approx") && (s.op == "rsqrt" || s.op == "rcp")) {
    const bool root = s.op == "rsqrt";
    return bind(l, ins, {{8}, {8}}, [=](Warp&, unsigned, const Word* in, Word* out) {
      double x = as<double>(in[0]);
      if (!root && std::fabs(x) < 0x1p-1022) x = std::copysign(0.0, x);
      double y = 1 / (root ? std::sqrt(x) : x);
      if (root && x == 0) y = std::copysign(INFINITY, x);
      if (!root && std::fabs(y) < 0x1p-1022) y = std::copysign(0.0, y);
      out[0] = bits_of(y);
    });
  }
  if (type == "f32") return lower_directed<float>(l, ins);
  if (type == "f64") return lower_directed<double>(l, ins);
  return false;
}

}  // namespace

}  // namespace flashcore::emu::ptx
