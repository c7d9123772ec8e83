#include "passes.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "mentions.h"

namespace flashcore::emu::ptx {

namespace {

/** The statements from a backward branch's target to the branch. */
class Loop {
 public:
  Loop(const Function& f, size_t first, size_t last) : f_(f), first_(first), last_(last) {
    for (size_t n = first; n <= last; ++n) {
      uses_.push_back(registers_of(f.statements[n]));
      for (const int reg : uses_.back().writes) writers_.emplace(reg, n);
    }
  }

  bool waits_with(size_t load) {
    bool same_address = true;
    visit_registers(f_.statements[load].operands[1], [&](int reg) { same_address = same_address && stays(reg); });
    return same_address && decides(load);
  }

 private:
  const RegisterUse& use(size_t n) const { return uses_[n - first_]; }

  /**
   * True if the register keeps its value while the loop runs, because every write in the loop computes it from
   * registers that do.
   */
  bool stays(int reg) {
    const auto [known, is_new] = stays_.try_emplace(reg, false);  // a register that depends on itself changes
    if (!is_new) return known->second;
    bool all = true;
    const auto [begin, end] = writers_.equal_range(reg);
    for (auto writer = begin; writer != end && all; ++writer) {
      const Statement& s = f_.statements[writer->second];
      all = s.op != "ld" && s.op != "atom" && s.op != "call";
      for (const int from : use(writer->second).reads) all = all && stays(from);
    }
    return stays_[reg] = all;
  }

  /** True if the value of `load` decides a branch that repeats the loop or leaves it. */
  bool decides(size_t load) const {
    std::set<int> follow(use(load).writes.begin(), use(load).writes.end());
    for (size_t before = 0; before != follow.size();) {
      before = follow.size();
      for (const RegisterUse& each : uses_)
        if (std::any_of(each.reads.begin(), each.reads.end(), [&](int reg) { return follow.count(reg) > 0; }))
          follow.insert(each.writes.begin(), each.writes.end());
    }
    for (size_t n = first_; n <= last_; ++n) {
      const Statement& s = f_.statements[n];
      if (s.target < 0 || s.guard < 0 || !follow.count(s.guard)) continue;
      const auto to = static_cast<size_t>(s.target);
      if (to <= first_ || to > last_) return true;
    }
    return false;
  }

  const Function& f_;
  const size_t first_, last_;
  std::vector<RegisterUse> uses_;
  std::multimap<int, size_t> writers_;
  std::map<int, bool> stays_;
};

}  // namespace

std::vector<bool> waiting_loads(const Program& program, const Function& f) {
  std::vector<bool> waiting(f.statements.size());
  std::vector<size_t> loads;
  for (size_t n = 0; n < f.statements.size(); ++n)
    if (f.statements[n].op == "ld" && has(f.statements[n], "volatile")) loads.push_back(n);
  if (loads.empty()) return waiting;
  for (size_t n = loads.front(); n < f.statements.size(); ++n) {
    const int target = f.statements[n].target;
    if (target < 0 || static_cast<size_t>(target) > n) continue;
    const auto first = static_cast<size_t>(target);
    Loop loop(f, first, n);
    for (const size_t load : loads)
      if (load >= first && load <= n && !waiting[load]) waiting[load] = loop.waits_with(load);
  }
  const auto line_of = [&](size_t load) {
    const SourcePlace& place = program.places[static_cast<size_t>(f.statements[load].place)];
    return std::make_pair(place.file, place.line);
  };
  std::set<std::pair<int, int>> lines;
  for (const size_t load : loads)
    if (waiting[load] && f.statements[load].place) lines.insert(line_of(load));
  for (const size_t load : loads)
    if (lines.count(line_of(load))) waiting[load] = true;
  return waiting;
}

std::vector<bool> checked_accesses(const Function& f) {
  std::vector<bool> checked(f.statements.size());
  std::vector<int> writers(f.registers.size());
  std::vector<int> readers(f.registers.size());
  std::vector<const Statement*> latest(f.registers.size());
  bool has_atomics = false;
  for (const Statement& s : f.statements) {
    has_atomics |= s.op == "atom" || s.op == "red";
    const RegisterUse use = registers_of(s);
    for (const int reg : use.reads) ++readers[static_cast<size_t>(reg)];
    for (const int reg : use.writes) {
      ++writers[static_cast<size_t>(reg)];
      latest[static_cast<size_t>(reg)] = &s;
    }
  }
  if (!has_atomics) return checked;
  /** The register or variable of an address, and the offset. cvta and cvt only change the form of an address. */
  const auto place_of = [&](const Operand& at) {
    int reg = at.reg;
    std::string name = at.name;
    for (size_t steps = 0; reg >= 0 && writers[static_cast<size_t>(reg)] == 1 && steps < writers.size(); ++steps) {
      const Statement& s = *latest[static_cast<size_t>(reg)];
      const bool copies = s.op == "mov" || s.op == "cvta" || s.op == "cvt";
      if (!copies || s.guard >= 0 || s.operands.size() != 2) break;
      const Operand& from = s.operands[1];
      if (from.kind != OperandKind::Register && from.kind != OperandKind::Symbol) break;
      reg = from.reg;
      name = from.name;
    }
    return std::make_tuple(reg, name, at.value);
  };
  std::set<std::tuple<int, std::string, int64_t>> atomics;
  for (size_t n = f.statements.size(); n-- > 0;) {
    const Statement& s = f.statements[n];
    if (s.op == "ld") checked[n] = atomics.count(place_of(s.operands[1])) > 0;
    if (s.op != "atom" && s.op != "red") continue;
    atomics.insert(place_of(s.operands[s.op == "atom" ? 1 : 0]));
    if (s.op == "atom")
      visit_registers(s.operands[0], [&](int reg) {
        if (readers[static_cast<size_t>(reg)] > (s.guard >= 0 ? 1 : 0)) checked[n] = true;
      });
  }
  return checked;
}

}  // namespace flashcore::emu::ptx
