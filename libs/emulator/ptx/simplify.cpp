#include "passes.h"

#include <algorithm>
#include <vector>

#include "lower.h"
#include "mentions.h"

namespace flashcore::emu::ptx {

namespace {

bool mentions(const Operand& o, int reg) {
  if (o.reg == reg) return true;
  return std::any_of(o.items.begin(), o.items.end(), [&](const Operand& item) { return mentions(item, reg); });
}
bool mentions(const Statement& s, int reg) {
  if (s.guard == reg) return true;
  return std::any_of(s.operands.begin(), s.operands.end(), [&](const Operand& o) { return mentions(o, reg); });
}

bool is_conversion(const Statement& s, int reg) {
  return s.op == "cvt" && s.guard < 0 && !s.is_label && s.mods.size() == 2 && s.mods[0] == "f32" &&
         s.mods[1] == "f16" && s.operands.size() == 2 && s.operands[1].reg == reg &&
         s.operands[1].kind == OperandKind::Register;
}

/** Turns mov.b32 {low, high}, %r; cvt.f32.f16 %f, low into cvt.f32.low %f, %r if nothing else uses the half. */
void widen_halves(Function& f) {
  const Mentions mentions_of(f);
  for (size_t n = 0; n + 1 < f.statements.size(); ++n) {
    Statement& move = f.statements[n];
    if (move.op != "mov" || move.guard >= 0 || move.mods.size() != 1 || move.mods[0] != "b32" ||
        move.operands.size() != 2 || move.operands[0].kind != OperandKind::Vector ||
        move.operands[0].items.size() != 2 || move.operands[1].kind != OperandKind::Register)
      continue;
    const Operand pair = move.operands[1];
    size_t last = n;
    bool fits = true;
    for (const Operand& half : move.operands[0].items) {
      if (half.kind == OperandKind::Sink) continue;
      if (half.kind != OperandKind::Register) {
        fits = false;
        break;
      }
      for (const size_t at : mentions_of.of(half.reg)) {
        fits = fits && (at == n || (at > n && is_conversion(f.statements[at], half.reg)));
        last = std::max(last, at);
      }
    }
    for (size_t at = n + 1; fits && at <= last; ++at) {
      const Statement& s = f.statements[at];
      fits = !s.is_label && !ends_block(s) && !(!s.operands.empty() && mentions(s.operands[0], pair.reg));
    }
    if (!fits) continue;
    for (size_t half = 0; half < 2; ++half) {
      const Operand& item = move.operands[0].items[half];
      if (item.kind == OperandKind::Sink) continue;
      for (const size_t at : mentions_of.of(item.reg)) {
        if (at == n) continue;
        f.statements[at].mods = {"f32", half == 0 ? "low" : "high"};
        f.statements[at].operands[1] = pair;
      }
    }
    remove(move);
  }
}

/** Widens both halves of a pair in one statement if two neighboring statements widen them. */
void widen_pairs(Function& f) {
  const auto half_of = [](const Statement& s) {
    return s.op == "cvt" && s.mods.size() == 2 && (s.mods[1] == "low" || s.mods[1] == "high") ? &s.mods[1] : nullptr;
  };
  for (size_t n = 0; n < f.statements.size(); ++n) {
    Statement& first = f.statements[n];
    const std::string* which = half_of(first);
    if (!which) continue;
    size_t next = n + 1;
    while (next < f.statements.size() && f.statements[next].op.empty() && !f.statements[next].is_label) ++next;
    if (next >= f.statements.size() || f.statements[next].is_label) continue;
    Statement& second = f.statements[next];
    const std::string* other = half_of(second);
    const int from = first.operands[1].reg;
    if (!other || *other == *which || second.operands[1].reg != from || first.operands[0].reg == from ||
        first.operands[0].reg == second.operands[0].reg)
      continue;
    Operand both;
    both.kind = OperandKind::Vector;
    both.items = {first.operands[0], second.operands[0]};
    if (*which == "high") std::swap(both.items[0], both.items[1]);
    first.mods = {"f32", "pair"};
    first.operands[0] = std::move(both);
    remove(second);
  }
}

/** Joins ld.shared.u32 of adjacent words into one ld.shared.v4 or v2 in place of the first. */
void join_loads(const Program& program, Function& f) {
  for (const Joined& joined : joined_accesses(program, f)) {
    const size_t count = joined.statements.size();
    if (!joined.loads || joined.bytes != 4 * count) continue;
    const size_t first = *std::min_element(joined.statements.begin(), joined.statements.end());
    bool fits = true;
    std::vector<int> registers;
    for (const size_t n : joined.statements) {
      const Statement& s = f.statements[n];
      const std::string& type = s.mods.back();
      const int reg = s.operands[0].reg;
      // A report of a race names the line of the access, so loads of different lines stay separate.
      fits = fits && (!program.races || program.describe(s.place) == program.describe(f.statements[first].place));
      fits = fits && s.guard < 0 && (type == "u32" || type == "f32" || type == "b32" || type == "s32") &&
             s.operands[0].kind == OperandKind::Register && f.registers[static_cast<size_t>(reg)].bytes == 4 &&
             std::find(registers.begin(), registers.end(), reg) == registers.end();
      registers.push_back(reg);
      for (size_t at = first; fits && at < n; ++at) fits = !mentions(f.statements[at], reg);
    }
    if (!fits) continue;
    Operand all;
    all.kind = OperandKind::Vector;
    for (const size_t n : joined.statements) all.items.push_back(f.statements[n].operands[0]);
    for (const size_t n : joined.statements)
      if (n != first) remove(f.statements[n]);
    Statement& one = f.statements[first];
    one.operands[0] = std::move(all);
    one.operands[1].value = joined.offset;
    one.mods.insert(one.mods.end() - 1, count == 4 ? "v4" : "v2");
  }
}

bool is_wmma(const Statement& s, const char* what) { return s.op == "wmma" && s.mods[0] == what; }

/**
 * Drops the registers of wmma loads of A and B that repeat other registers. Only wmma uses these loads, and it ignores
 * the repeats.
 */
void drop_repeated(Function& f) {
  const Mentions mentions_of(f);
  for (Statement& load : f.statements) {
    if (!is_wmma(load, "load") || (load.mods[1] != "a" && load.mods[1] != "b") || load.guard >= 0) continue;
    const bool is_left = load.mods[1] == "a";
    const unsigned outer = has(load, "m16n16k16") ? 16 : (has(load, "m32n8k16") == is_left ? 32 : 8);
    std::vector<Operand>& items = load.operands[0].items;
    for (size_t n = outer / 8 * 2; n < items.size(); ++n) {
      const int reg = items[n].reg;
      if (reg < 0) continue;
      const std::vector<size_t>& at = mentions_of.of(reg);
      const bool needed = std::any_of(at.begin(), at.end(), [&](size_t m) {
        const Statement& s = f.statements[m];
        return &s != &load && (!is_wmma(s, "mma") || mentions(s.operands[0], reg) || mentions(s.operands[3], reg));
      });
      if (needed) continue;
      const auto sink = [&](Operand& o) {
        if (o.reg == reg) o = Operand();
      };
      for (const size_t m : at)
        for (Operand& o : f.statements[m].operands) std::for_each(o.items.begin(), o.items.end(), sink);
    }
  }
}

}  // namespace

bool has_asynchronous_products(const Function& f) {
  return std::any_of(f.statements.begin(), f.statements.end(), [](const Statement& s) { return s.op == "wgmma"; });
}

Function simplified(const Program& program, const Function& function, bool counted) {
  Function f = function;
  widen_halves(f);
  widen_pairs(f);
  join_loads(program, f);
  if (!counted) drop_repeated(f);
  // Multiply-adds stay separate in two cases: a profile counts each one at its own line, and the race check must see
  // what each one reads while asynchronous products run.
  if (!counted && !(program.races && has_asynchronous_products(f))) fuse_multiply_adds(f);
  return f;
}

}  // namespace flashcore::emu::ptx
