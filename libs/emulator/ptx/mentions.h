// Which registers a statement reads and writes, and which statements of a function mention a register.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "lower.h"

namespace flashcore::emu::ptx {

/** Removes a statement but keeps its index, because a jump may lead there. */
inline void remove(Statement& s) {
  s.op.clear();
  s.mods.clear();
  s.operands.clear();
}

inline bool has_destination(const Statement& s) {
  static const std::set<std::string> WITHOUT = {
      "st",        "bra",          "brx",    "red",      "cp",       "stmatrix",  "ret",
      "exit",      "trap",         "membar", "fence",    "prefetch", "prefetchu", "call",
      "nanosleep", "setmaxnreg",   "brkpt",  "mbarrier", "wgmma",    "tensormap", "griddepcontrol",
      "discard",   "applypriority"};
  if (s.op == "bar" || s.op == "barrier") return has(s, "red");
  if (s.op == "wmma") return s.mods[0] != "store";
  if (s.op == "mbarrier") return has(s, "try_wait") || has(s, "test_wait") || has(s, "arrive") || has(s, "arrive_drop");
  return WITHOUT.count(s.op) == 0;
}

template <class Visit>
inline void visit_registers(const Operand& o, const Visit& visit) {
  if (o.reg >= 0) visit(o.reg);
  for (const Operand& item : o.items) visit_registers(item, visit);
}

struct RegisterUse {
  std::vector<int> reads, writes;
};

inline RegisterUse registers_of(const Statement& s) {
  RegisterUse use;
  const bool writes = has_destination(s);
  for (size_t n = 0; n < s.operands.size(); ++n) {
    const bool is_destination = n == 0 && writes && s.operands[n].kind != OperandKind::Address;
    visit_registers(s.operands[n], [&](int reg) {
      (is_destination ? use.writes : use.reads).push_back(reg);
      if (is_destination && s.guard >= 0) use.reads.push_back(reg);  // lanes that do not write keep the old value
    });
  }
  if (s.guard >= 0) use.reads.push_back(s.guard);
  return use;
}

/** For each register, the statements that mention it, in order. A statement that mentions it twice is listed twice. */
class Mentions {
 public:
  explicit Mentions(const Function& f) : places_(f.registers.size()) {
    for (size_t n = 0; n < f.statements.size(); ++n) {
      const Statement& s = f.statements[n];
      for (const Operand& o : s.operands) note(o, n);
      if (s.guard >= 0) places_[static_cast<size_t>(s.guard)].push_back(n);
    }
  }
  const std::vector<size_t>& of(int reg) const { return places_[static_cast<size_t>(reg)]; }

 private:
  void note(const Operand& o, size_t n) {
    if (o.reg >= 0) places_[static_cast<size_t>(o.reg)].push_back(n);
    for (const Operand& item : o.items) note(item, n);
  }
  std::vector<std::vector<size_t>> places_;
};

}  // namespace flashcore::emu::ptx
