// Integers.
#pragma once
#include <string>

#include "formats.h"
#include "lanes.h"

namespace flashcore::emu::ptx {

namespace {

/** The 24-bit number in a register; its upper byte is ignored. */
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

/** dp2a of a, b and c: c plus two products, each of a half of a and one of the lower (or upper) bytes of b. */
struct Dot2 {
  bool a_signed, b_signed, upper;
};
Word dot2(const Dot2& form, const Word* in) {
  Wide sum = static_cast<Wide>(in[2]);
  for (unsigned n = 0; n < 2; ++n)
    sum += value_of(in[0] >> (16 * n), {16, form.a_signed}) *
           value_of(in[1] >> (8 * (n + (form.upper ? 2 : 0))), {8, form.b_signed});
  return static_cast<Word>(sum);
}

/** Lowers add, min and max of 32 bits or of two 16-bit numbers. .relu raises negative results to 0. */
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
  return bind(l, ins, {{4}, {4, 4}}, [=](Warp&, unsigned, const Word* in, Word* out) {
    for (unsigned shift = 0; shift < 32; shift += t.bits) {
      const Wide a = value_of(in[0] >> shift, t), b = value_of(in[1] >> shift, t);
      Wide x = adds ? a + b : (smallest ? std::min(a, b) : std::max(a, b));
      if (relu && x < 0) x = 0;
      out[0] |= (static_cast<Word>(x) & ((Word(1) << t.bits) - 1)) << shift;
    }
  });
}

/** Lowers vabsdiff2 and vabsdiff4: the absolute differences of the parts, or with .add their sum plus c. */
bool lower_differences(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.op != "vabsdiff2" && s.op != "vabsdiff4") return false;
  const bool adds = s.mods.back() == "add";
  const unsigned bits = s.op == "vabsdiff4" ? 8 : 16;
  if (s.mods.size() != (adds ? 4u : 3u)) return false;
  const IntegerType a{bits, s.mods[1] == "s32"}, b{bits, s.mods[2] == "s32"};
  return bind(l, ins, {{4}, {4, 4, 4}}, [=](Warp&, unsigned, const Word* in, Word* out) {
    if (adds) out[0] = in[2];
    for (unsigned shift = 0; shift < 32; shift += bits) {
      const Wide apart = value_of(in[0] >> shift, a) - value_of(in[1] >> shift, b);
      const auto difference = static_cast<Word>(apart < 0 ? -apart : apart);
      out[0] += adds ? difference : (difference & ((Word(1) << bits) - 1)) << shift;
    }
  });
}

/**
 * The position of the n-th set bit, counting from `base` upwards, or downwards if n is negative. All ones if there is
 * none.
 */
Word nth_set_bit(uint32_t mask, uint32_t base, int32_t n) {
  if (n == 0) return base < 32 && (mask >> base & 1) ? base : 0xffffffff;
  int64_t left = std::abs(static_cast<int64_t>(n)) - 1;
  for (int64_t at = base; at >= 0 && at < 32; at += n > 0 ? 1 : -1)
    if ((mask >> at & 1) && left-- == 0) return static_cast<Word>(at);
  return 0xffffffff;
}

/** Lowers lop3.or.b32 d|p, a, b, c, table, q: p tells whether d has a set bit, combined with q. */
bool lower_tested_logic(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.op != "lop3" || s.mods.size() != 2 || s.operands[0].kind != OperandKind::Vector) return false;
  const bool both = s.mods[0] == "and", negated = s.operands[5].negated;
  if (!both && s.mods[0] != "or") return false;
  return bind(l, ins, {{4, 0}, {4, 4, 4, 4, 0}}, [=](Warp&, unsigned, const Word* in, Word* out) {
    for (unsigned bit = 0; bit < 32; ++bit) {
      const Word row = (in[0] >> bit & 1) << 2 | (in[1] >> bit & 1) << 1 | (in[2] >> bit & 1);
      out[0] |= (in[3] >> row & 1) << bit;
    }
    const bool q = (in[4] != 0) != negated;
    out[1] = both ? out[0] && q : out[0] || q;
  });
}

/** Lowers a test whether a generic address is in a window. Global memory has no window. */
bool lower_space_test(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.op != "isspacep") return false;
  const std::string& space = s.mods.back();
  const bool shared = space.rfind("shared", 0) == 0;
  if (!shared && space != "global" && space != "local" && space != "const" && space.rfind("param", 0) != 0)
    return false;
  const uint64_t window = shared ? SHARED_WINDOW : (space == "local" ? LOCAL_WINDOW : PARAMETER_WINDOW);
  const bool global = space == "global", constant = space == "const";
  return bind(l, ins, {{0}, {8}}, [=](Warp&, unsigned, const Word* in, Word* out) {
    out[0] = !constant && (in[0] & WINDOW_MASK) == (global ? 0 : window);
  });
}

bool lower_integers(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (lower_packed_integers(l, ins) || lower_tested_logic(l, ins) || lower_space_test(l, ins) ||
      lower_differences(l, ins))
    return true;
  if (s.op == "fns")
    return bind(l, ins, {{4}, {4, 4, 4}}, [](Warp&, unsigned, const Word* in, Word* out) {
      out[0] = nth_set_bit(static_cast<uint32_t>(in[0]), static_cast<uint32_t>(in[1]), static_cast<int32_t>(in[2]));
    });
  const IntegerType t = integer_type(s.mods.back());
  const unsigned bytes = t.bits / 8;
  if (s.op == "bfind" && has(s, "shiftamt"))
    return bind(l, ins, {{4}, {bytes}}, [=](Warp&, unsigned, const Word* in, Word* out) {
      Wide value = value_of(in[0], t);
      if (value < 0) value = ~value;
      out[0] = value ? t.bits - 64 + static_cast<Word>(__builtin_clzll(static_cast<Word>(value))) : ~Word(0);
    });
  const bool adds = s.op == "add", subtracts = s.op == "sub";
  if ((adds || subtracts) && has(s, "sat") && t.bits == 32)
    return bind(l, ins, {{4}, {4, 4}}, [=](Warp&, unsigned, const Word* in, Word* out) {
      const Wide a = value_of(in[0], t), b = value_of(in[1], t);
      out[0] = static_cast<Word>(clamped(adds ? a + b : a - b, t));
    });
  // The carry flag is a register of the thread. A subtraction adds the complement, so it leaves 0 if it borrows. An
  // addc after a sub.cc therefore adds 1 if nothing was borrowed. An H100 does the same, although the manual treats the
  // two flags as separate.
  const bool with_carry = s.op == "addc" || s.op == "subc" || s.op == "madc",
             multiplies = s.op == "mad" || s.op == "madc";
  if ((with_carry || ((adds || subtracts || multiplies) && has(s, "cc"))) && bytes >= 4) {
    const bool sets = has(s, "cc"), upper = has(s, "hi"), minus = subtracts || s.op == "subc";
    const auto carrying = [=](Warp& w, unsigned lane, const Word* in, Word* out) {
      const Word m = t.bits == 64 ? ~Word(0) : (Word(1) << t.bits) - 1;
      unsigned __int128 a = in[0] & m, b = (minus ? ~in[1] : in[1]) & m;
      if (multiplies) {
        const auto product =
            static_cast<unsigned __int128>(value_of(in[0], t)) * static_cast<unsigned __int128>(value_of(in[1], t));
        a = static_cast<Word>(upper ? product >> t.bits : product) & m;
        b = in[2] & m;
      }
      const unsigned carry = with_carry ? w.carry >> lane & 1 : minus;
      const unsigned __int128 sum = a + b + carry;
      out[0] = static_cast<Word>(sum) & m;
      if (sets) w.carry = (w.carry & ~(1u << lane)) | (sum >> t.bits & 1 ? 1u << lane : 0);
    };
    return multiplies ? bind(l, ins, {{bytes}, {bytes, bytes, bytes}}, carrying)
                      : bind(l, ins, {{bytes}, {bytes, bytes}}, carrying);
  }
  if (s.op == "mul24" || s.op == "mad24") {
    const bool upper = has(s, "hi"), accumulates = s.op == "mad24";
    const auto product = [=](Warp&, unsigned, const Word* in, Word* out) {
      const Wide whole = low24(in[0], t.is_signed) * low24(in[1], t.is_signed);
      out[0] = static_cast<Word>(upper ? whole >> 16 : whole) + (accumulates ? in[2] : 0);
    };
    return accumulates ? bind(l, ins, {{4}, {4, 4, 4}}, product) : bind(l, ins, {{4}, {4, 4}}, product);
  }
  if (s.op == "mad" && has(s, "hi") && has(s, "sat") && t.bits == 32)
    return bind(l, ins, {{4}, {4, 4, 4}}, [=](Warp&, unsigned, const Word* in, Word* out) {
      const Wide product = value_of(in[0], t) * value_of(in[1], t);
      out[0] = static_cast<Word>(clamped((product >> 32) + value_of(in[2], t), t));
    });
  if (s.op == "dp2a" && s.mods.size() == 3) {
    const Dot2 form{s.mods[1] == "s32", s.mods[2] == "s32", s.mods[0] == "hi"};
    return bind(l, ins, {{4}, {4, 4, 4}}, [=](Warp&, unsigned, const Word* in, Word* out) { out[0] = dot2(form, in); });
  }
  if (s.op == "prmt" && s.mods.size() == 2) {
    const std::string mode = s.mods[1];
    return bind(l, ins, {{4}, {4, 4, 4}}, [=](Warp&, unsigned, const Word* in, Word* out) {
      out[0] = permuted(static_cast<uint32_t>(in[0]), static_cast<uint32_t>(in[1]), static_cast<uint32_t>(in[2]), mode);
    });
  }
  const bool wraps = has(s, "wrap");
  if (s.op == "bmsk")
    return bind(l, ins, {{4}, {4, 4}}, [=](Warp&, unsigned, const Word* in, Word* out) {
      const Word at = wraps ? in[0] & 31 : std::min<Word>(in[0], 32),
                 count = wraps ? in[1] & 31 : std::min<Word>(in[1], 32);
      out[0] = ((Word(1) << count) - 1) << at;
    });
  if (s.op == "szext")
    return bind(l, ins, {{4}, {4, 4}}, [=](Warp&, unsigned, const Word* in, Word* out) {
      const Word count = wraps ? in[1] & 31 : in[1];
      out[0] = count >= 32 ? in[0]
               : count     ? static_cast<Word>(value_of(in[0], {static_cast<unsigned>(count), t.is_signed}))
                           : 0;
    });
  if (s.op == "slct" && s.mods.size() >= 2) {
    const unsigned width = static_cast<unsigned>(atoi(s.mods[s.mods.size() - 2].c_str() + 1)) / 8;
    const bool by_float = s.mods.back() == "f32", flush = has(s, "ftz");
    return bind(l, ins, {{width}, {width, width, 4}}, [=](Warp&, unsigned, const Word* in, Word* out) {
      const double chooser = number_of(in[2], SINGLE);
      const bool first = by_float ? chooser >= 0 || (flush && chooser > -0x1p-126) : !(in[2] >> 31 & 1);
      out[0] = first ? in[0] : in[1];
    });
  }
  return false;
}

}  // namespace

}  // namespace flashcore::emu::ptx
