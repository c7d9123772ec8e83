// Checks statements by the rules of ptxas of CUDA 13.0. Each rule was tried with that ptxas.
#include "program.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>
#include <unordered_map>

#include "mentions.h"

namespace flashcore::emu::ptx {

namespace {

using Mods = std::set<std::string>;

/** How many operands an instruction has, and whether all of them have the type that its name ends with. */
struct Form {
  size_t least, most;
  bool typed;
};

const std::unordered_map<std::string, Form>& forms() {
  static const std::unordered_map<std::string, Form> FORMS = {
      {"mov", {2, 2, true}},   {"add", {3, 3, true}},   {"sub", {3, 3, true}},    {"mul", {3, 3, true}},
      {"mad", {4, 4, true}},   {"fma", {4, 4, true}},   {"div", {3, 3, true}},    {"rem", {3, 3, true}},
      {"min", {3, 4, true}},   {"max", {3, 4, true}},   {"abs", {2, 2, true}},    {"neg", {2, 2, true}},
      {"sqrt", {2, 2, true}},  {"rcp", {2, 2, true}},   {"rsqrt", {2, 2, true}},  {"ex2", {2, 2, true}},
      {"lg2", {2, 2, true}},   {"sin", {2, 2, true}},   {"cos", {2, 2, true}},    {"tanh", {2, 2, true}},
      {"selp", {4, 4, true}},  {"setp", {3, 4, true}},  {"ld", {2, 3, true}},     {"st", {2, 3, true}},
      {"and", {3, 3, false}},  {"or", {3, 3, false}},   {"xor", {3, 3, false}},   {"not", {2, 2, false}},
      {"shl", {3, 3, false}},  {"shr", {3, 3, false}},  {"shf", {4, 4, false}},   {"lop3", {5, 6, false}},
      {"prmt", {4, 4, false}}, {"bfe", {4, 4, false}},  {"bfi", {5, 5, false}},   {"popc", {2, 2, false}},
      {"clz", {2, 2, false}},  {"brev", {2, 2, false}}, {"cvta", {2, 2, false}},  {"ret", {0, 0, false}},
      {"exit", {0, 0, false}}, {"trap", {0, 0, false}}, {"membar", {0, 0, false}}};
  return FORMS;
}

enum class Kind { Integer, Float, Bits, Other };

Kind kind_of(const std::string& type) {
  if (type.empty()) return Kind::Other;
  if (type[0] == 's' || type[0] == 'u') return Kind::Integer;
  if (type[0] == 'f' || type.rfind("bf", 0) == 0) return Kind::Float;
  return type[0] == 'b' ? Kind::Bits : Kind::Other;
}

bool is_type(const std::string& mod) {
  return mod.size() >= 2 && isdigit(static_cast<unsigned char>(mod.back())) && kind_of(mod) != Kind::Other &&
         mod.find("::") == std::string::npos;
}

unsigned bits_of(const std::string& type) {
  const size_t digits = type.find_first_of("0123456789");
  return digits == std::string::npos ? 0 : static_cast<unsigned>(atoi(type.c_str() + digits));
}

bool any_of(const Statement& s, const Mods& mods) {
  return std::any_of(s.mods.begin(), s.mods.end(), [&](const std::string& mod) { return mods.count(mod) > 0; });
}

/** The error if an operand's type differs from the instruction's type; empty if it does not. */
std::string type_fault(const Operand& o, const std::string& type, const Function& f) {
  for (const Operand& item : o.items) {
    const std::string fault = type_fault(item, type, f);
    if (!fault.empty()) return fault;
  }
  const Kind wanted = kind_of(type);
  if (o.kind == OperandKind::Register) {
    const Register& reg = f.registers[static_cast<size_t>(o.reg)];
    const Kind found = reg.is_float ? Kind::Float : (reg.is_integer ? Kind::Integer : Kind::Bits);
    const bool differs =
        wanted == Kind::Float ? found == Kind::Integer : wanted == Kind::Integer && found == Kind::Float;
    if (differs) return "register " + o.name + " is of another type than ." + type;
  }
  if (o.kind == OperandKind::Immediate) {
    if (wanted == Kind::Integer && o.literal) return "." + type + " with a number that is not an integer";
    if (wanted == Kind::Float && (!o.literal || bits_of(type) == 16))
      return "." + type + " with a number that is no such float: write 0f… or 0d…, or move it to a register";
  }
  return "";
}

std::string types_fault(const Statement& s, const Function& f) {
  if (s.mods.empty() || !is_type(s.mods.back())) return "";
  // If the name ends with two types, operands have different types, which are not checked here.
  if (s.mods.size() > 1 && is_type(s.mods[s.mods.size() - 2])) return "";
  const size_t first = s.op == "setp" ? 1 : 0;
  const size_t end = s.op == "selp" || s.op == "setp" ? 3 : s.operands.size();
  for (size_t n = first; n < std::min(end, s.operands.size()); ++n) {
    if (s.operands[n].kind == OperandKind::Address) continue;
    if ((s.op == "ld" || s.op == "st") && n > 1) continue;  // the last operand is a cache policy
    const std::string fault = type_fault(s.operands[n], s.mods.back(), f);
    if (!fault.empty()) return fault;
  }
  return "";
}

bool can_be_written(const Operand& o) {
  if (o.kind == OperandKind::Vector) return std::all_of(o.items.begin(), o.items.end(), can_be_written);
  return o.kind == OperandKind::Register || o.kind == OperandKind::Sink || o.kind == OperandKind::Address;
}

/** An error if a statement lacks a rounding mode for which PTX has no default. */
std::string rounding_fault(const Statement& s) {
  static const Mods ROUNDS = {"rn", "rz", "rm", "rp", "rna", "rs", "rni", "rzi", "rmi", "rpi", "approx", "full"};
  static const Mods APPROXIMATES = {"rsqrt", "ex2", "lg2", "sin", "cos", "tanh"};
  if (s.mods.empty() || any_of(s, ROUNDS)) return "";
  const std::string& type = s.mods.back();
  if (APPROXIMATES.count(s.op)) return "it needs .approx";
  const bool rounds = s.op == "fma" || s.op == "mad" || s.op == "div" || s.op == "sqrt" || s.op == "rcp";
  if (rounds && kind_of(type) == Kind::Float) return "it needs a rounding modifier";
  if (s.op != "cvt" || s.mods.size() < 2) return "";
  const std::string& to = s.mods[s.mods.size() - 2];
  const Kind into = kind_of(to), from = kind_of(type);
  const bool crosses = (into == Kind::Float && from == Kind::Integer) || (into == Kind::Integer && from == Kind::Float);
  const bool narrows = into == Kind::Float && from == Kind::Float && bits_of(to) < bits_of(type);
  return crosses || narrows ? "it needs a rounding modifier" : "";
}

/** Errors in the memory order, scope, space or cache hint of loads and stores. */
std::string access_fault(const Statement& s) {
  static const Mods BOTH = {
      "volatile",    "relaxed",         "weak",         "mmio",       "cta", "cluster", "gpu", "sys", "global",
      "shared",      "local",           "param",        "cg",         "cs",  "v2",      "v4",  "v8",  "unified",
      "shared::cta", "shared::cluster", "param::entry", "param::func"};
  static const Mods LOADS = {"acquire", "const", "nc", "ca", "lu", "cv"}, STORES = {"release", "wb", "wt"};
  static const Mods SCOPES = {"cta", "cluster", "gpu", "sys"}, ORDERS = {"relaxed", "acquire", "release"};
  const size_t place = s.op == "ld" ? 1 : 0;
  if (s.operands[place].kind != OperandKind::Address) return "it needs an address in brackets";
  for (const std::string& mod : s.mods) {
    const bool known = BOTH.count(mod) || (s.op == "ld" ? LOADS : STORES).count(mod) || is_type(mod) ||
                       mod.rfind("L1::", 0) == 0 || mod.rfind("L2::", 0) == 0;
    if (!known) return "it has no ." + mod;
  }
  if (any_of(s, SCOPES) != any_of(s, ORDERS)) return "an order needs a scope, and a scope an order";
  return "";
}

bool is_immediate(const Statement& s, size_t n) {
  return s.operands.size() > n && s.operands[n].kind == OperandKind::Immediate;
}

std::string barrier_fault(const Statement& s) {
  if (has(s, "red") || has(s, "cluster") || (s.op == "bar" && has(s, "warp"))) return "";
  const size_t least = has(s, "arrive") ? 2 : 1;
  return s.operands.size() < least || s.operands.size() > 2 ? "another number of operands than it has" : "";
}

/** Errors of instructions that need a number which is known at compile time. */
std::string number_fault(const Statement& s) {
  if ((s.op == "cp" || s.op == "wgmma") && has(s, "wait_group") && !is_immediate(s, 0)) return "it needs a number";
  if (s.op == "lop3" && !is_immediate(s, 4)) return "its table must be a number";
  if (s.op == "setmaxnreg") {
    const int64_t registers = is_immediate(s, 0) ? s.operands[0].value : 0;
    if (registers < 24 || registers > 256 || registers % 8) return "it needs a multiple of 8 from 24 to 256";
  }
  const bool copies = s.op == "cp" && !s.mods.empty() && s.mods[0] == "async" && (has(s, "ca") || has(s, "cg"));
  if (copies && is_immediate(s, 2)) {
    const int64_t bytes = s.operands[2].value;
    const bool allowed = bytes == 16 || (has(s, "ca") && (bytes == 4 || bytes == 8));
    if (!allowed) return "it copies 16 bytes, or with .ca also 4 or 8";
    if (is_immediate(s, 3) && (s.operands[3].value < 0 || s.operands[3].value > bytes))
      return "it reads more than it writes";
  }
  return "";
}

std::string operands_fault(const Statement& s) {
  const auto form = forms().find(s.op);
  if (form != forms().end()) {
    const size_t count = s.operands.size();
    if (count < form->second.least || count > form->second.most) return "another number of operands than it has";
    if (count > 0 && has_destination(s) && s.operands[0].kind == OperandKind::Sink)
      return "its result can't be discarded";
  }
  if (s.op == "setp" && s.operands.size() == 4 && !any_of(s, {"and", "or", "xor"}))
    return "a third source needs .and, .or or .xor";
  if (!s.operands.empty() && s.op != "pmevent" && has_destination(s) && !can_be_written(s.operands[0]))
    return "its result needs a register";
  return "";
}

/** Errors in modifiers for which a handler would otherwise assume a default. */
std::string mode_fault(const Statement& s) {
  if (s.op == "shfl" && !any_of(s, {"up", "down", "bfly", "idx"})) return "it needs .up, .down, .bfly or .idx";
  if (s.op == "membar" && s.mods.empty()) return "it needs a level";
  if (s.op == "red" && any_of(s, {"exch", "cas"})) return "it has no .exch and no .cas";
  if ((s.op == "st" || s.op == "atom" || s.op == "red") && has(s, "const")) return "it can't write to .const";
  return "";
}

}  // namespace

std::string fault_of(const Statement& s, const Function& f) {
  if (s.guard >= 0 && f.registers[static_cast<size_t>(s.guard)].bytes != 0) return "its guard is not a predicate";
  for (const std::string& fault : {operands_fault(s), rounding_fault(s), number_fault(s), mode_fault(s)})
    if (!fault.empty()) return fault;
  if (s.op == "bar" || s.op == "barrier") return barrier_fault(s);
  if (s.op == "ld" || (s.op == "st" && !has(s, "async") && !has(s, "bulk"))) {
    const std::string fault = access_fault(s);
    if (!fault.empty()) return fault;
  }
  const auto form = forms().find(s.op);
  return form != forms().end() && form->second.typed ? types_fault(s, f) : "";
}

bool is_special_register(const std::string& name) {
  static const std::set<std::string> OF_THREE = {"%tid",       "%ntid",       "%ctaid",         "%nctaid",
                                                 "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid"};
  static const std::set<std::string> PLAIN = {"%laneid",
                                              "%warpid",
                                              "%nwarpid",
                                              "%smid",
                                              "%nsmid",
                                              "%gridid",
                                              "%clock",
                                              "%clock_hi",
                                              "%clock64",
                                              "%globaltimer",
                                              "%globaltimer_lo",
                                              "%globaltimer_hi",
                                              "%cluster_ctarank",
                                              "%cluster_nctarank",
                                              "%is_explicit_cluster",
                                              "%lanemask_eq",
                                              "%lanemask_le",
                                              "%lanemask_lt",
                                              "%lanemask_ge",
                                              "%lanemask_gt",
                                              "%total_smem_size",
                                              "%aggr_smem_size",
                                              "%dynamic_smem_size",
                                              "%current_graph_exec"};
  const size_t dot = name.rfind('.');
  if (dot != std::string::npos)
    return dot + 2 == name.size() && strchr("xyz", name[dot + 1]) && OF_THREE.count(name.substr(0, dot));
  const auto numbered = [&](const char* prefix) { return name.rfind(prefix, 0) == 0; };
  return PLAIN.count(name) || numbered("%pm") || numbered("%envreg") || numbered("%reserved_smem_offset_");
}

}  // namespace flashcore::emu::ptx
