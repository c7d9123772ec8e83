#include "calls.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace flashcore::emu::ptx {

namespace {

constexpr size_t MOST_STATEMENTS = 4'000'000;

class Inliner {
 public:
  Inliner(const Program& program, const Function& entry) : program_(program), entry_(entry) {}

  Function run() {
    out_ = entry_;
    out_.statements.clear();
    out_.branch_tables.clear();
    add_body(entry_, {}, false);
    mark_labels();
    return std::move(out_);
  }

 private:
  using Names = std::map<std::string, std::string>;

  const Function* callee_of(const Statement& s) const {
    if (s.op != "call" || s.operands.size() != 3 || s.operands[1].kind != OperandKind::Symbol) return nullptr;
    const auto found = std::find_if(program_.callable.begin(), program_.callable.end(),
                                    [&](const Function& f) { return f.name == s.operands[1].name; });
    if (found == program_.callable.end()) return nullptr;
    const bool recursive = std::find(active_.begin(), active_.end(), &*found) != active_.end();
    const bool fits = found->parameters.size() == s.operands[2].items.size() &&
                      found->answers.size() == s.operands[0].items.size() &&
                      out_.statements.size() + found->statements.size() < MOST_STATEMENTS;
    return recursive || !fits ? nullptr : &*found;
  }

  /** `names`: what the function's parameters and variables are called here. Of the entry itself: as they are. */
  void add_body(const Function& f, const Names& names, bool called) {
    const auto first_register = called ? static_cast<int>(out_.registers.size()) : 0;
    if (called) out_.registers.insert(out_.registers.end(), f.registers.begin(), f.registers.end());
    const auto first_table = static_cast<int64_t>(out_.branch_tables.size());
    std::vector<int> at(f.statements.size() + 1);
    std::vector<size_t> own, returns;  // those that jump, by their place here
    for (size_t n = 0; n < f.statements.size(); ++n) {
      at[n] = static_cast<int>(out_.statements.size());
      Statement s = f.statements[n];
      if (called) {
        for (Operand& o : s.operands) rename(o, names, first_register);
        if (s.guard >= 0) s.guard += first_register;
      }
      if (const Function* callee = callee_of(s)) {
        add_call(s, *callee);
        continue;
      }
      if (called && s.op == "ret") {
        s.op = "bra";
        s.mods.clear();
        s.operands.clear();
        returns.push_back(out_.statements.size());
      } else if (s.target >= 0) {
        own.push_back(out_.statements.size());
      }
      if (s.op == "brx") s.operands.back().value += first_table;
      out_.statements.push_back(std::move(s));
    }
    at[f.statements.size()] = static_cast<int>(out_.statements.size());
    for (const size_t n : own) out_.statements[n].target = at[static_cast<size_t>(out_.statements[n].target)];
    for (const size_t n : returns) out_.statements[n].target = at[f.statements.size()];
    for (std::vector<int> table : f.branch_tables) {
      for (int& target : table) target = at[static_cast<size_t>(target)];
      out_.branch_tables.push_back(std::move(table));
    }
  }

  void add_call(const Statement& call, const Function& callee) {
    Names names;
    const auto bind = [&](const std::vector<Parameter>& formal, const std::vector<Operand>& actual) {
      for (size_t n = 0; n < formal.size(); ++n) names[formal[n].name] = actual[n].name;
    };
    bind(callee.answers, call.operands[0].items);
    bind(callee.parameters, call.operands[2].items);
    for (const Variable& variable : callee.variables) {
      Variable here = variable;
      // A function is active once at a time: what it keeps in local memory has one place.
      if (variable.space == Space::Local) names[variable.name] = here.name = callee.name + "/" + variable.name;
      const bool known = std::any_of(out_.variables.begin(), out_.variables.end(), [&](const Variable& v) {
        return v.name == here.name && v.space == here.space && v.bytes >= here.bytes;
      });
      if (!known) out_.variables.push_back(std::move(here));
    }
    const size_t skips = out_.statements.size();
    if (call.guard >= 0) {
      Statement skip;
      skip.op = "bra";
      skip.guard = call.guard;
      skip.guard_negated = !call.guard_negated;
      skip.place = call.place;
      out_.statements.push_back(std::move(skip));
    }
    active_.push_back(&callee);
    add_body(callee, names, true);
    active_.pop_back();
    if (call.guard >= 0) out_.statements[skips].target = static_cast<int>(out_.statements.size());
  }

  static void rename(Operand& o, const Names& names, int first_register) {
    if (o.reg >= 0) {
      o.reg += first_register;
    } else if (!o.name.empty()) {
      const auto found = names.find(o.name);
      if (found != names.end()) o.name = found->second;
    }
    for (Operand& item : o.items) rename(item, names, first_register);
  }

  void mark_labels() {
    std::vector<bool> jumped(out_.statements.size() + 1);
    for (const Statement& s : out_.statements)
      if (s.target >= 0) jumped[static_cast<size_t>(s.target)] = true;
    for (const auto& table : out_.branch_tables)
      for (const int target : table) jumped[static_cast<size_t>(target)] = true;
    for (size_t n = 0; n < out_.statements.size(); ++n) out_.statements[n].is_label = jumped[n];
  }

  const Program& program_;
  const Function& entry_;
  Function out_;
  std::vector<const Function*> active_;
};

}  // namespace

Function with_calls_inlined(const Program& program, const Function& entry) {
  if (program.callable.empty()) return entry;
  return Inliner(program, entry).run();
}

}  // namespace flashcore::emu::ptx
