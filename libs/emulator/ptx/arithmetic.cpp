// Arithmetic, logic, comparisons and conversions. Each is a loop over 32 lanes that the compiler vectorizes. A
// translation unit of its own, because it compiles along with engine.cpp.
#include "arithmetic/comparisons.h"
#include "arithmetic/conversions.h"
#include "arithmetic/floats.h"
#include "arithmetic/integers.h"
#include "arithmetic/moves.h"
#include "arithmetic/multiply_adds.h"
#include "arithmetic/shapes.h"
#include "arithmetic/sixteen_bit_floats.h"
#include "lower.h"

namespace flashcore::emu::ptx {

namespace {

Table make_table() {
  Table t;
  add_integers(t);
  add_floats(t);
  add_sixteen_bit_floats(t);
  add_predicates(t);
  add_conversions(t);
  return t;
}

/** The operation's name in the table, without modifiers that make no difference to this engine. */
std::string key_of(const Statement& s) {
  std::string key = s.op;
  const bool conversion = s.op == "cvt";
  for (const std::string& mod : s.mods) {
    if (mod == "ftz" || mod == "satfinite") continue;
    if (!conversion && mod == "rn") continue;
    if (mod == "sat" && !conversion) continue;
    if (mod == "noftz") continue;
    key += "." + mod;
  }
  return key;
}

bool fits_registers(const Lowering& l, const Operation& op) {
  const std::vector<Operand>& operands = l.statement().operands;
  for (size_t n = 0; n < operands.size() && n < op.operands; ++n)
    if (operands[n].kind == OperandKind::Register && l.register_bytes(operands[n]) != op.bytes[n]) return false;
  return true;
}

}  // namespace

const std::map<std::string, Operation>& arithmetic_operations() {
  static const Table table = make_table();
  return table;
}

bool lower_arithmetic(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.operands.empty() || s.mods.empty()) return false;
  if (s.op == "mov" && s.operands.size() == 2 && lower_move(l, ins)) return true;
  if (s.op == "fma" && s.mods[0] == "run") return lower_multiply_adds(l, ins);
  if (s.op == "cvt" && s.mods.back() == "pair") {
    ins.fn = pair_to_float32;
    ins.d = l.slot(s.operands[0].items[0], 4);
    ins.b = l.slot(s.operands[0].items[1], 4);
    ins.a = l.slot(s.operands[1], 4);
    return true;
  }
  std::string key = key_of(s);
  const auto& table = arithmetic_operations();
  auto found = table.find(key);
  if (s.op == "setp" && found == table.end() && s.mods.size() >= 3) {
    // Parses forms such as setp.lt.and.f32 p|q, a, b, c.
    std::string plain = "setp." + s.mods[0] + "." + s.mods.back();
    found = table.find(plain);
    ins.count = s.mods[1] == "and" ? 2 : (s.mods[1] == "or" ? 3 : (s.mods[1] == "xor" ? 4 : 0));
    if (found == table.end() || (ins.count == 0 && s.mods[1] != "ftz")) return false;
  } else if (s.op == "setp") {
    ins.count = 0;
  }
  if (s.op == "cvt" && s.mods.size() == 2) {
    // The table's conversions need registers that are exactly as wide as the types.
    const bool fits = found != table.end() && fits_registers(l, found->second);
    if (!fits && lower_integer_conversion(l, ins)) return true;
  }
  if (found == table.end()) return false;
  const std::string& type = s.mods.back();
  if (has(s, "ftz") && type.rfind("f16", 0) == 0 && s.op != "ex2") return false;  // handled by seldom.cpp
  const bool to_unit = has(s, "sat") && s.op != "cvt";
  if (to_unit && type[0] != 'f') return false;
  const Operation& op = found->second;
  ins.fn = op.fn;
  const bool pair = s.operands[0].kind == OperandKind::Vector;
  if (pair) {
    if (s.op != "setp" || s.operands[0].items.size() != 2) return false;
    if (ins.count == 0) ins.count = 1;
    l.extra(ins).d.push_back(l.slot(s.operands[0].items[1], 0));
    ins.d = l.slot(s.operands[0].items[0], 0);
  } else {
    ins.d = l.slot(s.operands[0], op.bytes[0]);
  }
  uint32_t* const slots[] = {&ins.d, &ins.a, &ins.b, &ins.c};
  if (s.operands.size() < op.operands) return false;
  for (unsigned n = 1; n < op.operands; ++n) *slots[n] = l.slot(s.operands[n], op.bytes[n]);
  if (s.op == "setp" && s.operands.size() == 4) {
    ins.c = l.slot(s.operands[3], 0);
    ins.imm = s.operands[3].negated;
  }
  if (s.op == "lop3") ins.imm = s.operands[4].value;
  if (s.op == "bfi") l.extra(ins).d.push_back(l.slot(s.operands[4], 4));
  if (to_unit) saturate_result(l, ins, type.rfind("f16", 0) == 0 ? 2 : op.bytes[0], type == "f16x2" ? 2 : 1);
  // The processor's mode flushes the results of arithmetic. These four operations only select or change bits, so they
  // flush separately.
  if (has(s, "ftz") && type == "f32" && (s.op == "min" || s.op == "max" || s.op == "neg" || s.op == "abs"))
    flush_result(l, ins);
  return true;
}

}  // namespace flashcore::emu::ptx
