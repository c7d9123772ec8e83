// Operations that kernels seldom use, computed lane by lane from their definitions. Frequent operations use vectors
// (arithmetic.cpp).
#include <string>

#include "lower.h"
#include "seldom/conversions.h"
#include "seldom/floats.h"
#include "seldom/integers.h"
#include "seldom/lanes.h"
#include "seldom/results.h"

namespace flashcore::emu::ptx {

namespace {

/**
 * Makes the cache hint of a load. Loads ignore it, because it does not affect values. The bits of .fractional are those
 * of ptxas and an H200. Other forms give 0.
 */
bool lower_policy(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (has(s, "cvt") && s.operands.size() == 2)
    return bind(l, ins, {{8}, {8}}, [](Warp&, unsigned, const Word* in, Word* out) { out[0] = in[0]; });
  if (!has(s, "fractional") || s.mods.size() < 3)
    return bind(l, ins, {{8}, {}}, [](Warp&, unsigned, const Word*, Word* out) { out[0] = 0; });
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
    return bind(l, ins, {{8}, {}}, [=](Warp&, unsigned, const Word*, Word* out) { out[0] = of(1); });
  return bind(l, ins, {{8}, {4}}, [=](Warp&, unsigned, const Word* in, Word* out) { out[0] = of(as<float>(in[0])); });
}

}  // namespace

bool lower_seldom(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.operands.empty() || s.mods.empty()) return false;
  if (s.op == "cvt") return lower_conversion(l, ins);
  if (s.op == "createpolicy") return lower_policy(l, ins);
  return lower_integers(l, ins) || lower_floats(l, ins);
}

}  // namespace flashcore::emu::ptx
