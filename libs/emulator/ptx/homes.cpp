#include "passes.h"

#include "mentions.h"

namespace flashcore::emu::ptx {

namespace {

/** Where a register's address comes from: not known yet, one array, or anything else. */
struct Origin {
  const Home* array = nullptr;
  bool is_other = false;
  bool is_array() const { return array && !is_other; }
};

class Origins {
 public:
  Origins(const Function& f, const std::map<std::string, Home>& arrays)
      : arrays_(arrays), origins_(f.registers.size()) {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Statement& s : f.statements) changed |= define(s);
    }
  }

  Origin of(const Operand& o) const {
    if (o.reg >= 0) return origins_[static_cast<size_t>(o.reg)];
    const auto found = arrays_.find(o.name);
    return found == arrays_.end() ? Origin{nullptr, true} : Origin{&found->second, false};
  }

 private:
  /** Updates the origin of a statement's result. Returns true if that changed what is known of a register. */
  bool define(const Statement& s) {
    if (s.operands.empty() || !has_destination(s)) return false;
    const Origin made = made_by(s);
    bool changed = false;
    visit_registers(s.operands[0], [&](int reg) {
      Origin& origin = origins_[static_cast<size_t>(reg)];
      const bool differs = made.is_other || (made.array && origin.array && made.array != origin.array);
      if (origin.is_other || (!differs && (!made.array || made.array == origin.array))) return;
      origin = {made.array, differs};
      changed = true;
    });
    return changed;
  }

  Origin made_by(const Statement& s) const {
    const auto& o = s.operands;
    if (o[0].kind != OperandKind::Register) return {nullptr, true};
    if ((s.op == "mov" || s.op == "cvta" || s.op == "cvt") && o.size() == 2 && o[1].kind != OperandKind::Vector)
      return of(o[1]);
    if ((s.op == "add" || s.op == "or") && o.size() == 3) return sum(of(o[1]), of(o[2]));
    if (s.op == "sub" && o.size() == 3) return of(o[2]).is_array() ? Origin{nullptr, true} : of(o[1]);
    if (s.op == "mad" && o.size() == 4) return sum(of(o[3]), Origin{nullptr, true});
    return {nullptr, true};
  }

  static Origin sum(const Origin& a, const Origin& b) {
    if (a.is_array() && b.is_array()) return {nullptr, true};
    if (a.is_array() || b.is_array()) return a.is_array() ? a : b;
    return a.is_other && b.is_other ? a : Origin();
  }

  const std::map<std::string, Home>& arrays_;
  std::vector<Origin> origins_;
};

}  // namespace

std::vector<Home> homes_of(const Function& f, const std::map<std::string, Home>& arrays) {
  if (arrays.size() < 2) return {};
  const Origins origins(f, arrays);
  std::vector<Home> homes(f.statements.size());
  for (size_t n = 0; n < f.statements.size(); ++n) {
    const Statement& s = f.statements[n];
    if (s.op != "ld" && s.op != "st" && s.op != "atom" && s.op != "red") continue;
    for (const Operand& o : s.operands)
      if (o.kind == OperandKind::Address && origins.of(o).is_array()) homes[n] = *origins.of(o).array;
  }
  return homes;
}

}  // namespace flashcore::emu::ptx
