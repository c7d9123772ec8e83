// What kernels seldom use: done lane by lane, by its definition. What they use often has vectors (arithmetic.cpp).
#include <cfenv>
#include <cmath>
#include <string>

#include "halves.h"
#include "lower.h"

namespace flashcore::emu::ptx {

namespace {

using Word = uint64_t;

// --- one lane at a time -------------------------------------------------------------------------------------------------

Word read_lane(Warp& w, uint32_t slot, unsigned bytes, unsigned lane) {
  switch (bytes) {
    case 0: return w.pred(slot) >> lane & 1;
    case 2: return w.reg<uint16_t>(slot)[lane];
    case 4: return w.reg<uint32_t>(slot)[lane];
    default: return w.reg<uint64_t>(slot)[lane];
  }
}
void write_lane(Warp& w, uint32_t slot, unsigned bytes, unsigned lane, Word value) {
  switch (bytes) {
    case 0: return write_pred(w, slot, 1u << lane, value ? ALL : 0);
    case 2: w.reg<uint16_t>(slot)[lane] = static_cast<uint16_t>(value); break;
    case 4: w.reg<uint32_t>(slot)[lane] = static_cast<uint32_t>(value); break;
    default: w.reg<uint64_t>(slot)[lane] = value;
  }
}

constexpr unsigned MOST_OPERANDS = 5;

const Ins* lane_by_lane(Warp& w, const Ins* i) {
  const Extra& x = *i->extra;
  const uint32_t m = w.active(i);
  for (unsigned lane = 0; lane < LANES; ++lane) {
    if (!(m >> lane & 1)) continue;
    Word in[MOST_OPERANDS] = {}, out[2] = {};
    for (size_t n = 0; n < x.a.size(); ++n) in[n] = read_lane(w, x.a[n], x.a_bytes[n], lane);
    x.each_lane(w, lane, in, out);
    for (size_t n = 0; n < x.d.size(); ++n) write_lane(w, x.d[n], x.d_bytes[n], lane, out[n]);
  }
  return i + 1;
}

using EachLane = void (*)(Warp&, unsigned, const Word*, Word*);

/**
 * Operands of so many bytes; one of 1 byte lies in a register of any width, and one of 0 is a predicate, whose ! is the
 * caller's to see to.
 */
template <class Each>
bool bind(Lowering& l, Ins& ins, std::initializer_list<unsigned> d, std::initializer_list<unsigned> a, Each each) {
  const Statement& s = l.statement();
  Extra& extra = l.extra(ins);
  if (s.operands.size() < 1 + a.size()) return false;
  const auto width = [&](const Operand& o, unsigned bytes) {
    return bytes != 1 ? bytes : (o.kind == OperandKind::Register ? l.register_bytes(o) : 4u);
  };
  const Operand& to = s.operands[0];
  size_t n = 0;
  for (const unsigned bytes : d) {
    const Operand& o = to.kind == OperandKind::Vector ? to.items[n] : to;
    ++n;
    extra.d.push_back(l.slot(o, width(o, bytes)));
    extra.d_bytes.push_back(static_cast<uint8_t>(width(o, bytes)));
  }
  n = 1;
  for (const unsigned bytes : a) {
    const Operand& o = s.operands[n++];
    if (o.negated && bytes != 0) return false;
    extra.a.push_back(l.slot(o, width(o, bytes)));
    extra.a_bytes.push_back(static_cast<uint8_t>(width(o, bytes)));
  }
  extra.each_lane = std::move(each);
  ins.fn = lane_by_lane;
  return true;
}

// --- floating-point formats -----------------------------------------------------------------------------------------------

struct Format {
  int exponent_bits, mantissa_bits;
  bool has_infinity = true;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  Word infinity() const { return ((Word(1) << exponent_bits) - 1) << mantissa_bits; }
  /** All ones but the sign. */
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

/** x rounded once. Its significand has at most 64 bits. */
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

// --- conversions ------------------------------------------------------------------------------------------------------

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

/** A NaN becomes 0 from 16 and 32 bits, but for 64 bits of a whole number, and the least number from 64 bits. */
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

double relu_of(double x) { return x != x ? x : (x > 0 ? x : 0.0); }

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
    return bind(l, ins, {bytes}, {4, 4}, [=](Warp&, unsigned, const Word* in, Word* out) {
      out[0] = both(number_of(in[1], SINGLE), number_of(in[0], SINGLE));
    });
  const Format* g = format_of(from.substr(0, from.size() - 2));
  if (!g || from.size() < 3 || from.substr(from.size() - 2) != "x2") return false;
  const unsigned part = static_cast<unsigned>(g->bits());
  return bind(l, ins, {bytes}, {part / 4}, [=](Warp&, unsigned, const Word* in, Word* out) {
    const Word m = (Word(1) << part) - 1;
    out[0] = both(number_of(in[0] & m, *g), number_of(in[0] >> part & m, *g));
  });
}

bool lower_conversion(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.mods.size() < 2) return false;
  if (s.mods[0] == "pack" && s.mods.size() >= 4) {
    // cvt.pack.sat.u8.s32.b32 d, a, b, c: c moves up, a and b go below it.
    const IntegerType t = integer_type(s.mods[2]);
    if (t.bits != 16 && t.bits != 8 && t.bits != 4 && t.bits != 2) return false;
    const auto packed = [=](Warp&, unsigned, const Word* in, Word* out) {
      const IntegerType word{32, true};
      const Word m = (Word(1) << t.bits) - 1;
      const auto of = [&](Word bits) { return static_cast<Word>(clamped(value_of(bits, word), t)) & m; };
      out[0] = (in[2] << (2 * t.bits) | of(in[0]) << t.bits | of(in[1])) & 0xffffffff;
    };
    return s.mods.back() == "b32" ? bind(l, ins, {4}, {4, 4, 4}, packed) : bind(l, ins, {4}, {4, 4}, packed);
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
  return bind(l, ins, {bytes_of(f)}, {bytes_of(g)}, [=](Warp&, unsigned, const Word* in, Word* out) {
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

// --- whole numbers ------------------------------------------------------------------------------------------------------

/** bytes of a 24-bit number's register: its upper byte is not looked at. */
Wide low24(Word bits, bool is_signed) { return value_of(bits, {24, is_signed}); }

Word permuted(uint32_t a, uint32_t b, uint32_t c, const std::string& mode) {
  const Word both = static_cast<Word>(b) << 32 | a;
  const uint32_t n = c & 3;
  Word out = 0;
  for (uint32_t k = 0; k < 4; ++k) {
    const uint32_t pick = mode == "f4e"   ? n + k
                          : mode == "b4e" ? (n - k) & 7
                          : mode == "rc8" ? n
                          : mode == "ecl" ? std::max(k, n)
                          : mode == "ecr" ? std::min(k, n)
                                          : 2 * (n & 1) + (k & 1);
    out |= (both >> (8 * pick) & 255) << (8 * k);
  }
  return out;
}

/** The sum of two products of a's halves with b's lower (or upper) bytes, and c. */
Word dot2(Word a, Word b, Word c, bool a_signed, bool b_signed, bool upper) {
  Wide sum = static_cast<Wide>(c);
  for (unsigned n = 0; n < 2; ++n)
    sum += value_of(a >> (16 * n), {16, a_signed}) * value_of(b >> (8 * (n + (upper ? 2 : 0))), {8, b_signed});
  return static_cast<Word>(sum);
}

/** add, min and max of 32 bits or of two 16-bit numbers, with .relu no result below 0. */
bool lower_packed_integers(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const bool adds = s.op == "add", smallest = s.op == "min", relu = has(s, "relu");
  if (!adds && !smallest && s.op != "max") return false;
  IntegerType t;
  for (const std::string& mod : s.mods) {
    if (mod == "s16x2" || mod == "u16x2") t = {16, mod[0] == 's'};
    if (mod == "s32" && relu) t = {32, true};
  }
  if (!t.bits || s.mods.size() != (relu ? 2u : 1u)) return false;
  return bind(l, ins, {4}, {4, 4}, [=](Warp&, unsigned, const Word* in, Word* out) {
    for (unsigned shift = 0; shift < 32; shift += t.bits) {
      const Wide a = value_of(in[0] >> shift, t), b = value_of(in[1] >> shift, t);
      Wide x = adds ? a + b : (smallest ? std::min(a, b) : std::max(a, b));
      if (relu && x < 0) x = 0;
      out[0] |= (static_cast<Word>(x) & ((Word(1) << t.bits) - 1)) << shift;
    }
  });
}

/** vabsdiff2 and vabsdiff4: differences of the parts, or with .add their sum and c. */
bool lower_differences(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.op != "vabsdiff2" && s.op != "vabsdiff4") return false;
  const bool adds = s.mods.back() == "add";
  const unsigned bits = s.op == "vabsdiff4" ? 8 : 16;
  if (s.mods.size() != (adds ? 4u : 3u)) return false;
  const IntegerType a{bits, s.mods[1] == "s32"}, b{bits, s.mods[2] == "s32"};
  return bind(l, ins, {4}, {4, 4, 4}, [=](Warp&, unsigned, const Word* in, Word* out) {
    if (adds) out[0] = in[2];
    for (unsigned shift = 0; shift < 32; shift += bits) {
      const Wide apart = value_of(in[0] >> shift, a) - value_of(in[1] >> shift, b);
      const auto difference = static_cast<Word>(apart < 0 ? -apart : apart);
      out[0] += adds ? difference : (difference & ((Word(1) << bits) - 1)) << shift;
    }
  });
}

/** The n-th set bit from `base` on, upwards or (n below 0) downwards; all ones where there is none. */
Word nth_set_bit(uint32_t mask, uint32_t base, int32_t n) {
  if (n == 0) return base < 32 && (mask >> base & 1) ? base : 0xffffffff;
  int64_t left = std::abs(static_cast<int64_t>(n)) - 1;
  for (int64_t at = base; at >= 0 && at < 32; at += n > 0 ? 1 : -1)
    if ((mask >> at & 1) && left-- == 0) return static_cast<Word>(at);
  return 0xffffffff;
}

/** lop3.or.b32 d|p, a, b, c, table, q: p tells whether d has a bit, combined with q. */
bool lower_tested_logic(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.op != "lop3" || s.mods.size() != 2 || s.operands[0].kind != OperandKind::Vector) return false;
  const bool both = s.mods[0] == "and", negated = s.operands[5].negated;
  if (!both && s.mods[0] != "or") return false;
  return bind(l, ins, {4, 0}, {4, 4, 4, 4, 0}, [=](Warp&, unsigned, const Word* in, Word* out) {
    for (unsigned bit = 0; bit < 32; ++bit) {
      const Word row = (in[0] >> bit & 1) << 2 | (in[1] >> bit & 1) << 1 | (in[2] >> bit & 1);
      out[0] |= (in[3] >> row & 1) << bit;
    }
    const bool q = (in[4] != 0) != negated;
    out[1] = both ? out[0] && q : out[0] || q;
  });
}

/** Which window a generic address lies in; the GPU's own memory has none. */
bool lower_space_test(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.op != "isspacep") return false;
  const std::string& space = s.mods.back();
  const bool shared = space.rfind("shared", 0) == 0;
  if (!shared && space != "global" && space != "local" && space != "const" && space.rfind("param", 0) != 0)
    return false;
  const uint64_t window = shared ? SHARED_WINDOW : (space == "local" ? LOCAL_WINDOW : PARAMETER_WINDOW);
  const bool global = space == "global", constant = space == "const";
  return bind(l, ins, {0}, {8}, [=](Warp&, unsigned, const Word* in, Word* out) {
    out[0] = !constant && (in[0] & WINDOW_MASK) == (global ? 0 : window);
  });
}

bool lower_integers(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (lower_packed_integers(l, ins) || lower_tested_logic(l, ins) || lower_space_test(l, ins) ||
      lower_differences(l, ins))
    return true;
  if (s.op == "fns")
    return bind(l, ins, {4}, {4, 4, 4}, [](Warp&, unsigned, const Word* in, Word* out) {
      out[0] = nth_set_bit(static_cast<uint32_t>(in[0]), static_cast<uint32_t>(in[1]), static_cast<int32_t>(in[2]));
    });
  const IntegerType t = integer_type(s.mods.back());
  const unsigned bytes = t.bits / 8;
  if (s.op == "bfind" && has(s, "shiftamt"))
    return bind(l, ins, {4}, {bytes}, [=](Warp&, unsigned, const Word* in, Word* out) {
      Wide value = value_of(in[0], t);
      if (value < 0) value = ~value;
      out[0] = value ? t.bits - 64 + static_cast<Word>(__builtin_clzll(static_cast<Word>(value))) : ~Word(0);
    });
  const bool adds = s.op == "add", subtracts = s.op == "sub";
  if ((adds || subtracts) && has(s, "sat") && t.bits == 32)
    return bind(l, ins, {4}, {4, 4}, [=](Warp&, unsigned, const Word* in, Word* out) {
      const Wide a = value_of(in[0], t), b = value_of(in[1], t);
      out[0] = static_cast<Word>(clamped(adds ? a + b : a - b, t));
    });
  // The carry is the thread's own register.
  const bool with_carry = s.op == "addc" || s.op == "subc" || s.op == "madc",
             multiplies = s.op == "mad" || s.op == "madc";
  if ((with_carry || ((adds || subtracts || multiplies) && has(s, "cc"))) && bytes >= 4) {
    const bool sets = has(s, "cc"), upper = has(s, "hi"), minus = subtracts || s.op == "subc";
    const auto carrying = [=](Warp& w, unsigned lane, const Word* in, Word* out) {
      const Word m = t.bits == 64 ? ~Word(0) : (Word(1) << t.bits) - 1;
      unsigned __int128 a = in[0] & m, b = in[1] & m;
      if (multiplies) {
        const Wide product = value_of(in[0], t) * value_of(in[1], t);
        a = static_cast<Word>(upper ? product >> t.bits : product) & m;
        b = in[2] & m;
      }
      const unsigned carry = with_carry ? w.carry >> lane & 1 : 0;
      const unsigned __int128 sum = minus ? a - b - carry : a + b + carry;
      out[0] = static_cast<Word>(sum) & m;
      if (sets) w.carry = (w.carry & ~(1u << lane)) | (sum >> t.bits & 1 ? 1u << lane : 0);
    };
    return multiplies ? bind(l, ins, {bytes}, {bytes, bytes, bytes}, carrying)
                      : bind(l, ins, {bytes}, {bytes, bytes}, carrying);
  }
  if (s.op == "mul24" || s.op == "mad24") {
    const bool upper = has(s, "hi"), accumulates = s.op == "mad24";
    const auto product = [=](Warp&, unsigned, const Word* in, Word* out) {
      const Wide whole = low24(in[0], t.is_signed) * low24(in[1], t.is_signed);
      out[0] = static_cast<Word>(upper ? whole >> 16 : whole) + (accumulates ? in[2] : 0);
    };
    return accumulates ? bind(l, ins, {4}, {4, 4, 4}, product) : bind(l, ins, {4}, {4, 4}, product);
  }
  if (s.op == "mad" && has(s, "hi") && has(s, "sat") && t.bits == 32)
    return bind(l, ins, {4}, {4, 4, 4}, [=](Warp&, unsigned, const Word* in, Word* out) {
      const Wide product = value_of(in[0], t) * value_of(in[1], t);
      out[0] = static_cast<Word>(clamped((product >> 32) + value_of(in[2], t), t));
    });
  if (s.op == "dp2a" && s.mods.size() == 3) {
    const bool a_signed = s.mods[1] == "s32", b_signed = s.mods[2] == "s32", upper = s.mods[0] == "hi";
    return bind(l, ins, {4}, {4, 4, 4}, [=](Warp&, unsigned, const Word* in, Word* out) {
      out[0] = dot2(in[0], in[1], in[2], a_signed, b_signed, upper);
    });
  }
  if (s.op == "prmt" && s.mods.size() == 2) {
    const std::string mode = s.mods[1];
    return bind(l, ins, {4}, {4, 4, 4}, [=](Warp&, unsigned, const Word* in, Word* out) {
      out[0] = permuted(static_cast<uint32_t>(in[0]), static_cast<uint32_t>(in[1]), static_cast<uint32_t>(in[2]), mode);
    });
  }
  const bool wraps = has(s, "wrap");
  if (s.op == "bmsk")
    return bind(l, ins, {4}, {4, 4}, [=](Warp&, unsigned, const Word* in, Word* out) {
      const Word at = wraps ? in[0] & 31 : std::min<Word>(in[0], 32),
                 count = wraps ? in[1] & 31 : std::min<Word>(in[1], 32);
      out[0] = ((Word(1) << count) - 1) << at;
    });
  if (s.op == "szext")
    return bind(l, ins, {4}, {4, 4}, [=](Warp&, unsigned, const Word* in, Word* out) {
      const Word count = wraps ? in[1] & 31 : in[1];
      out[0] = count >= 32 ? in[0]
               : count     ? static_cast<Word>(value_of(in[0], {static_cast<unsigned>(count), t.is_signed}))
                           : 0;
    });
  if (s.op == "slct" && s.mods.size() >= 2) {
    const unsigned width = static_cast<unsigned>(atoi(s.mods[s.mods.size() - 2].c_str() + 1)) / 8;
    const bool by_float = s.mods.back() == "f32", flush = has(s, "ftz");
    return bind(l, ins, {width}, {width, width, 4}, [=](Warp&, unsigned, const Word* in, Word* out) {
      const double chooser = number_of(in[2], SINGLE);
      const bool first = by_float ? chooser >= 0 || (flush && chooser > -0x1p-126) : !(in[2] >> 31 & 1);
      out[0] = first ? in[0] : in[1];
    });
  }
  return false;
}

// --- floats -----------------------------------------------------------------------------------------------------------

/** One operation with another rounding than to nearest; the mode is the thread's while it runs. */
template <class T>
T directed(char op, int mode, T first, T second, T third) {
  volatile T a = first, b = second, c = third, result = 0;
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
    T value = op == '1' ? directed<T>('/', mode, T(1), as<T>(in[0]), T(0))
                        : directed<T>(op, mode, as<T>(in[0]), as<T>(in[1]), as<T>(in[2]));
    if (sat) value = value > 0 ? (value < 1 ? value : T(1)) : T(0);
    out[0] = bits_of<T>(value);
  };
  constexpr unsigned B = sizeof(T);
  if (op == '1' || op == 'r') return bind(l, ins, {B}, {B}, each);
  return op == 'f' ? bind(l, ins, {B}, {B, B, B}, each) : bind(l, ins, {B}, {B, B}, each);
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

/** add, sub, mul and fma of halves whose subnormal numbers are 0. */
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
      // Sums of three halves fit a double but for their last bits, which a half's rounding does not see.
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
  return op == 'f' ? bind(l, ins, {bytes}, {bytes, bytes, bytes}, each) : bind(l, ins, {bytes}, {bytes, bytes}, each);
}

/** neg, abs, min and max of halves, with .ftz, .NaN and .xorsign.abs: they choose and do not round. */
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
  return one ? bind(l, ins, {bytes}, {bytes}, each) : bind(l, ins, {bytes}, {bytes, bytes}, each);
}

bool holds(const std::string& test, Wide a, Wide b) {
  return test == "eq"                   ? a == b
         : test == "ne"                 ? a != b
         : test == "lt" || test == "lo" ? a < b
         : test == "le" || test == "ls" ? a <= b
         : test == "gt" || test == "hi" ? a > b
                                        : a >= b;
}

/** What `and`, `or` or `xor` make of a comparison and a predicate. */
bool joined(const std::string& join, bool truth, bool other) {
  return join == "and" ? truth && other : join == "or" ? truth || other : join == "xor" ? truth != other : truth;
}

/** 1.0 or a mask as wide as the result where the comparison holds; of pairs of halves a half of it each. */
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
  return joins ? bind(l, ins, {to_bytes}, {from_bytes, from_bytes, 0}, each)
               : bind(l, ins, {to_bytes}, {from_bytes, from_bytes}, each);
}

bool lower_floats(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const std::string& type = s.mods.back();
  const Format* f = format_of(type);
  if (s.op == "testp" && f) {
    const std::string test = s.mods[0];
    return bind(l, ins, {0}, {static_cast<unsigned>(f->bits()) / 8}, [=](Warp&, unsigned, const Word* in, Word* out) {
      const Word x = in[0] & f->nan(), least = Word(1) << f->mantissa_bits;
      // A zero is normal to the hardware.
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
    return bind(l, ins, {8}, {8, 8}, [](Warp&, unsigned, const Word* in, Word* out) {
      out[0] = (in[0] & Word(1) << 63) | (in[1] & ~(Word(1) << 63));
    });
  if (s.op == "setp" && (type == "f16" || type == "bf16") && s.mods.size() == (has(s, "ftz") ? 3u : 2u)) {
    const std::string test = s.mods[0];
    const double least = has(s, "ftz") ? 0x1p-14 : 0;
    return bind(l, ins, {0}, {2, 2}, [=](Warp&, unsigned, const Word* in, Word* out) {
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
    return bind(l, ins, {4}, {4, 4}, [=](Warp&, unsigned, const Word* in, Word* out) {
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
    return bind(l, ins, {8}, {8}, [=](Warp&, unsigned, const Word* in, Word* out) {
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

// --- caches -------------------------------------------------------------------------------------------------------------

/**
 * What a load is to wish of a cache. It says nothing of values, so loads do not look at it; the bits of .fractional are
 * those of ptxas and an H200, those of other forms 0.
 */
bool lower_policy(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (has(s, "cvt") && s.operands.size() == 2)
    return bind(l, ins, {8}, {8}, [](Warp&, unsigned, const Word* in, Word* out) { out[0] = in[0]; });
  if (!has(s, "fractional") || s.mods.size() < 3)
    return bind(l, ins, {8}, {}, [](Warp&, unsigned, const Word*, Word* out) { out[0] = 0; });
  const std::string& first = s.mods[1];
  const Word kind = first == "L2::evict_normal"  ? 6
                    : first == "L2::evict_last"  ? 4
                    : first == "L2::evict_first" ? 2
                                                 : 0;
  const Word policy = (0x10 | kind | (s.mods[2] == "L2::evict_first" ? 1 : 0)) << 56;
  const auto of = [=](double fraction) {
    return policy | static_cast<Word>(std::min(std::max(std::ceil(16 * fraction), 1.0), 16.0) - 1) << 52;
  };
  if (s.operands.size() < 2)
    return bind(l, ins, {8}, {}, [=](Warp&, unsigned, const Word*, Word* out) { out[0] = of(1); });
  return bind(l, ins, {8}, {4}, [=](Warp&, unsigned, const Word* in, Word* out) { out[0] = of(as<float>(in[0])); });
}

// --- .sat and .ftz of what has vectors ------------------------------------------------------------------------------------

/** The handler before it, then 0 to 1 (a NaN is 0). imm: bytes; options 0: halves. */
const Ins* to_unit(Warp& w, const Ins* i) {
  const Ins* next = reinterpret_cast<Handler>(i->extra->readers[0])(w, i);
  const uint32_t m = w.active(i);
  const int bytes = i->extra->options[0], parts = i->extra->options[1];
  for (unsigned lane = 0; lane < LANES; ++lane) {
    if (!(m >> lane & 1)) continue;
    if (bytes == 2) {
      uint16_t* halves = w.reg<uint16_t>(i->d) + static_cast<int>(lane) * parts;
      for (int n = 0; n < parts; ++n) {
        const float x = half_to_float(halves[n]);
        halves[n] = float_to_half(x > 0 ? (x < 1 ? x : 1.0f) : 0.0f);
      }
    } else if (bytes == 4) {
      float& x = w.reg<float>(i->d)[lane];
      x = x > 0 ? (x < 1 ? x : 1.0f) : 0.0f;
    } else {
      double& x = w.reg<double>(i->d)[lane];
      x = x > 0 ? (x < 1 ? x : 1.0) : 0.0;
    }
  }
  return next;
}

/** The handler before it, then subnormal numbers are 0. */
const Ins* flushed(Warp& w, const Ins* i) {
  const Ins* next = reinterpret_cast<Handler>(i->extra->readers[0])(w, i);
  const uint32_t* d = w.reg<uint32_t>(i->d);
  write_lanes<uint32_t>(w, i->d, w.active(i), [=](int k) { return d[k] & 0x7f800000 ? d[k] : d[k] & 0x80000000; });
  return next;
}

}  // namespace

void saturate_result(Lowering& l, Ins& ins, unsigned bytes, unsigned parts) {
  Extra& extra = l.extra(ins);
  extra.readers[0] = reinterpret_cast<void (*)()>(ins.fn);
  extra.options[0] = static_cast<int>(bytes);
  extra.options[1] = static_cast<int>(parts);
  ins.fn = to_unit;
}

void flush_result(Lowering& l, Ins& ins) {
  l.extra(ins).readers[0] = reinterpret_cast<void (*)()>(ins.fn);
  ins.fn = flushed;
}

bool lower_seldom(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.operands.empty() || s.mods.empty()) return false;
  if (s.op == "cvt") return lower_conversion(l, ins);
  if (s.op == "createpolicy") return lower_policy(l, ins);
  return lower_integers(l, ins) || lower_floats(l, ins);
}

}  // namespace flashcore::emu::ptx
