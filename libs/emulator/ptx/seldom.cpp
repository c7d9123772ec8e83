// Operations that kernels seldom use, done lane by lane from their definitions. Frequent ones use vectors
// (arithmetic.cpp).
#include "lower.h"
#include "seldom/conversions.h"
#include "seldom/floats.h"
#include "seldom/integers.h"
#include "seldom/policies.h"
#include "seldom/results.h"

namespace flashcore::emu::ptx {

bool lower_seldom(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.operands.empty() || s.mods.empty()) return false;
  if (s.op == "cvt") return lower_conversion(l, ins);
  if (s.op == "createpolicy") return lower_policy(l, ins);
  return lower_integers(l, ins) || lower_floats(l, ins);
}

}  // namespace flashcore::emu::ptx
