// Which statements of a function mention a register.
#pragma once
#include <vector>

#include "program.h"

namespace flashcore::emu::ptx {

/** Nothing is left of it but its place, to which may be jumped. */
inline void remove(Statement& s) {
  s.op.clear();
  s.mods.clear();
  s.operands.clear();
}

/** Statements by the registers that they mention, in order; twice where it does so twice. */
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
