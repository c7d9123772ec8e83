#include "passes.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "warp.h"

namespace flashcore::emu::ptx {

namespace {

constexpr size_t MOST_STATEMENTS = 4'000'000;
// Limit for a kernel that calls by address, because each such call contains the bodies of all functions it may call.
constexpr size_t MOST_STATEMENTS_OF_CHOICES = 400'000;

void note_names(const Operand& o, std::set<std::string>& names) {
  if (o.kind == OperandKind::Symbol) names.insert(o.name);
  for (const Operand& item : o.items) note_names(item, names);
}

/** Names used as values, which includes functions whose address is taken but not functions that are called directly. */
std::set<std::string> names_used_as_values(const Program& program) {
  std::set<std::string> names;
  for (const Variable& variable : program.globals)
    for (const Relocation& relocation : variable.relocations) names.insert(relocation.name);
  for (const auto* functions : {&program.functions, &program.callable})
    for (const Function& f : *functions)
      for (const Statement& s : f.statements)
        if (s.op != "call")
          for (const Operand& o : s.operands) note_names(o, names);
  return names;
}

class Inliner {
 public:
  Inliner(const Program& program, const Function& entry)
      : program_(program), entry_(entry), addressed_(names_used_as_values(program)) {}

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
    return found != program_.callable.end() && fits(s, *found, MOST_STATEMENTS) ? &*found : nullptr;
  }

  bool fits(const Statement& call, const Function& callee, size_t most) const {
    const bool recursive = std::find(active_.begin(), active_.end(), &callee) != active_.end();
    return !recursive && callee.parameters.size() == call.operands[2].items.size() &&
           callee.answers.size() == call.operands[0].items.size() &&
           out_.statements.size() + callee.statements.size() < most;
  }

  /**
   * `names` maps the function's parameters and variables to their names in the result. The entry keeps its own names.
   */
  void add_body(const Function& f, const Names& names, bool called) {
    const auto first_register = called ? static_cast<int>(out_.registers.size()) : 0;
    if (called) out_.registers.insert(out_.registers.end(), f.registers.begin(), f.registers.end());
    const auto first_table = static_cast<int64_t>(out_.branch_tables.size());
    std::vector<int> at(f.statements.size() + 1);
    std::vector<size_t> own, returns;  // statements that jump, by their index in the result
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
      if (s.op == "call" && s.operands.size() == 3 && s.operands[1].kind == OperandKind::Register) {
        add_choice(s);
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
      // A function is active only once at a time, so one copy of its local variables is enough.
      if (variable.space == Space::Local) names[variable.name] = here.name = callee.name + "/" + variable.name;
      const bool known = std::any_of(out_.variables.begin(), out_.variables.end(), [&](const Variable& v) {
        return v.name == here.name && v.space == here.space && v.bytes >= here.bytes;
      });
      if (!known) out_.variables.push_back(std::move(here));
    }
    const size_t skips = out_.statements.size();
    if (call.guard >= 0) jump(call, call.guard, !call.guard_negated);
    active_.push_back(&callee);
    add_body(callee, names, true);
    active_.pop_back();
    if (call.guard >= 0) lead_here(skips);
  }

  /** Expands a call by address: compares the address with each possible function in turn. */
  void add_choice(const Statement& call) {
    const size_t skips = out_.statements.size();
    if (call.guard >= 0) jump(call, call.guard, !call.guard_negated);
    Statement body = call;
    body.guard = -1;
    const auto predicate = static_cast<int>(out_.registers.size());
    out_.registers.emplace_back();
    std::vector<size_t> ends;
    for (size_t n = 0; n < program_.callable.size(); ++n) {
      const Function& callee = program_.callable[n];
      if (!addressed_.count(callee.name) || !fits(call, callee, MOST_STATEMENTS_OF_CHOICES)) continue;
      compare(call, predicate, function_address(n));
      const size_t other = out_.statements.size();
      jump(call, predicate, true);
      add_call(body, callee);
      ends.push_back(out_.statements.size());
      jump(call, -1, false);
      lead_here(other);
    }
    out_.statements.push_back(std::move(body));  // no function has this address
    for (const size_t end : ends) lead_here(end);
    if (call.guard >= 0) lead_here(skips);
  }

  void compare(const Statement& call, int predicate, uint64_t address) {
    Statement test;
    test.op = "setp";
    test.mods = {"eq", "u64"};
    test.place = call.place;
    Operand truth, value;
    truth.kind = OperandKind::Register;
    truth.reg = predicate;
    value.kind = OperandKind::Immediate;
    value.value = static_cast<int64_t>(address);
    test.operands = {std::move(truth), call.operands[1], std::move(value)};
    out_.statements.push_back(std::move(test));
  }

  void jump(const Statement& call, int guard, bool negated) {
    Statement jump;
    jump.op = "bra";
    jump.guard = guard;
    jump.guard_negated = negated;
    jump.place = call.place;
    out_.statements.push_back(std::move(jump));
  }
  void lead_here(size_t jump) { out_.statements[jump].target = static_cast<int>(out_.statements.size()); }

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
  const std::set<std::string> addressed_;
  Function out_;
  std::vector<const Function*> active_;
};

}  // namespace

uint64_t function_address(size_t n) { return FUNCTION_WINDOW | (n + 1) * 16; }

Function with_calls_inlined(const Program& program, const Function& entry) {
  if (program.callable.empty()) return entry;
  return Inliner(program, entry).run();
}

}  // namespace flashcore::emu::ptx
