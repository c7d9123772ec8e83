#include "passes.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

#include "lower.h"

namespace flashcore::emu::ptx {

namespace {

constexpr unsigned WIDEST = 16;
// ptxas puts three loads before the first cp.async of a basic block. Their predicate is always false, so no lane takes
// part and there are no wavefronts, but ncu counts the loads as requests.
constexpr unsigned LOADS_BEFORE_ASYNC_COPY = 3;

/** Largest power of two up to 16 that divides a number. */
unsigned power_of_two_in(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  return value == 0 ? WIDEST : static_cast<unsigned>(std::min<uint64_t>(bits & (~bits + 1), WIDEST));
}

/** For each register, a power of two that divides all its values: the smallest among all values written to it. */
class Alignments {
 public:
  Alignments(const Program& program, const Function& function) : program_(program), function_(function) {
    of_.assign(function.registers.size(), WIDEST);
    for (bool changed = true; changed;) {
      changed = false;
      for (const Statement& s : function.statements)
        for (const int reg : written(s)) {
          const unsigned now = std::min(of_[static_cast<size_t>(reg)], result(s));
          changed |= now != of_[static_cast<size_t>(reg)];
          of_[static_cast<size_t>(reg)] = now;
        }
    }
  }
  unsigned of(const Operand& o) const {
    if (o.reg >= 0) return std::min(of_[static_cast<size_t>(o.reg)], power_of_two_in(o.value));
    if (o.kind == OperandKind::Immediate) return power_of_two_in(o.value);
    if (o.name.empty()) return 1;
    return std::min(of_symbol(o.name), power_of_two_in(o.value));
  }

  static std::vector<int> written(const Statement& s) {
    std::vector<int> registers;
    if (s.operands.empty() || s.op == "st" || s.op == "stmatrix" || (s.op == "wmma" && s.mods[0] == "store"))
      return registers;
    const Operand& first = s.operands[0];
    if (first.kind == OperandKind::Register) registers.push_back(first.reg);
    if (first.kind == OperandKind::Vector)
      for (const Operand& item : first.items)
        if (item.kind == OperandKind::Register) registers.push_back(item.reg);
    return registers;
  }

 private:
  unsigned of_symbol(const std::string& name) const {
    for (const auto* variables : {&program_.shared, &function_.variables})
      for (const Variable& v : *variables)
        // ptxas places variables of fixed size itself, so it knows that their alignment is larger than declared.
        if (v.name == name) return v.bytes >= WIDEST ? WIDEST : std::min(v.align, WIDEST);
    return 1;
  }

  unsigned result(const Statement& s) const {
    const auto operand = [&](size_t n) { return n < s.operands.size() ? of(s.operands[n]) : 1; };
    if (s.op == "mov" || s.op == "cvta" || s.op == "cvt")
      return s.operands[0].kind == OperandKind::Vector ? 1 : operand(1);
    if (s.op == "add" || s.op == "sub" || s.op == "or" || s.op == "xor") return std::min(operand(1), operand(2));
    if (s.op == "and") return std::max(operand(1), operand(2));
    if (s.op == "selp") return std::min(operand(1), operand(2));
    if (s.op == "mul" && !has(s, "hi")) return std::min(operand(1) * operand(2), WIDEST);
    if (s.op == "mad" && !has(s, "hi")) return std::min(std::min(operand(1) * operand(2), WIDEST), operand(3));
    if (s.op == "shl" && s.operands[2].kind == OperandKind::Immediate)
      return static_cast<unsigned>(std::min<uint64_t>(
          static_cast<uint64_t>(operand(1)) << std::min<int64_t>(s.operands[2].value & 31, 8), WIDEST));
    return 1;
  }

  const Program& program_;
  const Function& function_;
  std::vector<unsigned> of_;
};

struct Member {
  size_t statement;
  int64_t offset;
  unsigned bytes;
};
struct Group {
  bool loads;
  std::string base;
  unsigned alignment;
  std::vector<Member> members;
};

unsigned bytes_of_access(const Statement& s) {
  const std::string& type = s.mods.back();
  const unsigned bits = static_cast<unsigned>(atoi(type.c_str() + (type.compare(0, 2, "bf") == 0 ? 2 : 1)));
  return bits / 8 * (has(s, "v4") ? 4 : has(s, "v2") ? 2 : 1);
}

bool is_shared(const Statement& s) {
  return std::any_of(s.mods.begin(), s.mods.end(),
                     [](const std::string& mod) { return mod.compare(0, 6, "shared") == 0; });
}

/**
 * Joins two adjacent accesses of the same width into one of twice that width, if its address is a multiple of its
 * width. Repeats until no two can be joined.
 */
void join(const Group& group, std::vector<Joined>& joined) {
  struct Run {
    int64_t offset;
    unsigned bytes;
    std::vector<Member> members;
  };
  std::vector<Run> runs;
  for (const Member& member : group.members) runs.push_back({member.offset, member.bytes, {member}});
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.offset < b.offset; });
  for (unsigned bytes = 1; bytes < WIDEST; bytes *= 2) {
    if (2 * bytes > group.alignment) break;
    for (size_t n = 0; n + 1 < runs.size();) {
      Run &first = runs[n], &second = runs[n + 1];
      if (first.bytes == bytes && second.bytes == bytes && second.offset == first.offset + bytes &&
          first.offset % (2 * bytes) == 0) {
        first.bytes = 2 * bytes;
        first.members.insert(first.members.end(), second.members.begin(), second.members.end());
        runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(n) + 1);
      }
      ++n;
    }
  }
  for (const Run& run : runs) {
    if (run.members.size() == 1) continue;
    Joined one{group.loads, run.bytes, run.offset, {}};
    for (const Member& member : run.members) one.statements.push_back(member.statement);
    joined.push_back(std::move(one));
  }
}

}  // namespace

std::vector<Joined> joined_accesses(const Program& program, const Function& function) {
  std::vector<Joined> joined;
  const Alignments alignments(program, function);
  std::vector<Group> open;
  const auto close = [&](auto which) {
    for (size_t n = 0; n < open.size();) {
      if (!which(open[n])) {
        ++n;
        continue;
      }
      join(open[n], joined);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(n));
    }
  };
  const auto all = [](const Group&) { return true; };
  for (size_t n = 0; n < function.statements.size(); ++n) {
    const Statement& s = function.statements[n];
    if (s.is_label) close(all);
    const bool plain = (s.op == "ld" || s.op == "st") && is_shared(s) && !has(s, "volatile");
    if (plain) {
      const bool loads = s.op == "ld";
      const Operand& address = s.operands[loads ? 1 : 0];
      const unsigned bytes = bytes_of_access(s);
      const std::string key = (address.reg >= 0 ? "%" + std::to_string(address.reg) : address.name) + "@" +
                              std::to_string(s.guard) + (s.guard_negated ? "!" : "");
      // Neighbors are not joined if an access between them may touch the same bytes.
      close([&](const Group& group) {
        if (loads && group.loads) return false;
        if (group.base != key) return true;
        return std::any_of(group.members.begin(), group.members.end(), [&](const Member& m) {
          return m.offset < address.value + bytes && address.value < m.offset + m.bytes;
        });
      });
      auto found = std::find_if(open.begin(), open.end(),
                                [&](const Group& group) { return group.loads == loads && group.base == key; });
      if (found == open.end()) {
        Operand base = address;
        base.value = 0;
        open.push_back({loads, key, alignments.of(base), {}});
        found = open.end() - 1;
      }
      found->members.push_back({n, address.value, bytes});
    } else if (s.op == "bar" || s.op == "barrier" || s.op == "atom" || s.op == "red" || s.op == "membar" ||
               s.op == "fence" || s.op == "call" || s.op == "stmatrix" || s.op == "ldmatrix" || s.op == "mbarrier" ||
               (s.op == "wmma" && s.mods[0] != "mma") || has(s, "volatile") || (s.op == "cp" && has(s, "async"))) {
      close(all);
    }
    for (const int reg : Alignments::written(s))
      close([&](const Group& group) {
        return group.base.compare(0, group.base.find('@'), "%" + std::to_string(reg)) == 0;
      });
    if (ends_block(s)) close(all);
  }
  close(all);
  return joined;
}

std::vector<CountedAccess> counted_accesses(const Program& program, const Function& function) {
  std::vector<CountedAccess> counted(function.statements.size());
  for (const Joined& each : joined_accesses(program, function)) {
    const size_t first = *std::min_element(each.statements.begin(), each.statements.end());
    for (const size_t n : each.statements) counted[n].joined = n != first;
    const Statement& s = function.statements[first];
    counted[first].bytes = each.bytes;
    counted[first].shift = static_cast<int>(each.offset - s.operands[s.op == "ld" ? 1 : 0].value);
  }
  bool copied = false;  // this basic block has already had a cp.async
  for (size_t n = 0; n < function.statements.size(); ++n) {
    const Statement& s = function.statements[n];
    if (s.is_label) copied = false;
    if (s.op == "cp" && has(s, "async") && s.operands.size() > 1) {
      if (!copied) counted[n].idle_requests = LOADS_BEFORE_ASYNC_COPY;
      copied = true;
    }
    if (ends_block(s)) copied = false;
  }
  return counted;
}

}  // namespace flashcore::emu::ptx
