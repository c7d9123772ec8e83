#include "flow.h"

#include <algorithm>
#include <map>
#include <set>

#include "mentions.h"

namespace flashcore::emu::ptx {

namespace {

constexpr uint8_t ALL_BYTES = 0xff;
constexpr uint32_t NOWHERE = ~0u;

uint8_t low_bytes(unsigned bytes) { return bytes >= 8 ? ALL_BYTES : static_cast<uint8_t>((1u << bytes) - 1); }

/** The width in bytes: 2 for "f16" or "u16"; 0 if the type's name has no width. */
unsigned bytes_of_type(const std::string& type) {
  if (type.empty() || (type[0] != 'f' && type[0] != 'u' && type[0] != 's' && type[0] != 'b')) return 0;
  return static_cast<unsigned>(atoi(type.c_str() + (type.rfind("bf", 0) == 0 ? 2 : 1))) / 8;
}

bool of_pairs(const Statement& s) { return !s.mods.empty() && (s.mods.back() == "f16x2" || s.mods.back() == "bf16x2"); }

FlowKind memory_kind(const Statement& s) {
  static const std::map<std::string, FlowKind> KINDS = {{"ld", FlowKind::Load},
                                                        {"ldu", FlowKind::Load},
                                                        {"st", FlowKind::Store},
                                                        {"atom", FlowKind::Atomic},
                                                        {"red", FlowKind::Atomic},
                                                        {"ldmatrix", FlowKind::MatrixLoad},
                                                        {"stmatrix", FlowKind::MatrixStore}};
  const auto found = KINDS.find(s.op);
  if (found != KINDS.end()) return found->second;
  if (s.op != "wmma" || s.mods.size() < 2) return FlowKind::Clean;
  if (s.mods[0] == "store") return FlowKind::WarpSums;
  if (s.mods[0] == "load") return s.mods[1] == "c" ? FlowKind::WarpSums : FlowKind::WarpLoad;
  return FlowKind::WarpProduct;
}

/** True for a conversion between integers that only cuts or extends: no .sat, and no float type on either side. */
bool resizes(const Statement& s) {
  const auto is_integer = [](const std::string& type) {
    return bytes_of_type(type) && (type[0] == 'u' || type[0] == 's');
  };
  return s.op == "cvt" && s.operands.size() == 2 && s.mods.size() == 2 && is_integer(s.mods[0]) &&
         is_integer(s.mods[1]);
}

bool moves_bytes(const Statement& s) {
  static const std::set<std::string> LOGIC = {"and", "or", "xor", "not"};
  if (LOGIC.count(s.op)) return !has(s, "pred");
  if (s.op == "shl" || s.op == "shr") return s.operands.size() == 3 && s.operands[2].kind == OperandKind::Immediate;
  return resizes(s);
}

FlowKind kind_of(const Statement& s) {
  static const std::set<std::string> MEETINGS = {"vote", "match", "redux"}, CLEAN = {"activemask", "elect", "call"};
  if (CLEAN.count(s.op)) return FlowKind::Clean;
  if (MEETINGS.count(s.op)) return FlowKind::Meeting;
  if (s.op == "shfl") return FlowKind::Shuffle;
  if (s.op == "movmatrix") return FlowKind::MatrixMove;
  if (s.op == "mma") return FlowKind::Product;
  if (s.op == "wgmma") return has(s, "mma_async") ? FlowKind::GroupProduct : FlowKind::Clean;
  if (s.op == "cp") return FlowKind::Copy;
  const FlowKind memory = memory_kind(s);
  if (memory != FlowKind::Clean) return memory;
  if (!has_destination(s)) return FlowKind::Ends;
  if (s.op == "bar" || s.op == "barrier" || s.op == "mbarrier") return FlowKind::Ends;
  if (s.op == "selp") return FlowKind::Select;
  if (s.op == "mov" && s.operands.size() == 2) {
    if (s.operands[0].kind == OperandKind::Vector) return FlowKind::Unpack;
    return s.operands[1].kind == OperandKind::Vector ? FlowKind::Pack : FlowKind::Move;
  }
  if (s.op == "fma" && s.operands.size() == 3 && has(s, "run")) return FlowKind::Run;
  if (s.op == "cvt" && has(s, "pair")) return FlowKind::Widen;
  if (s.op == "setp" ? has(s, "and") : s.op == "and" && has(s, "pred")) return FlowKind::Both;
  if (s.op == "setp" ? has(s, "or") : s.op == "or" && has(s, "pred")) return FlowKind::Either;
  if (s.op == "prmt" && s.operands.size() == 4 && s.operands[3].kind == OperandKind::Immediate && s.mods.size() == 1)
    return FlowKind::Permute;
  if (s.op == "cvt" && s.operands.size() == 3 && (has(s, "f16x2") || has(s, "bf16x2"))) return FlowKind::PackHalves;
  if (of_pairs(s) && s.op != "cvt" && s.op != "set" && s.op != "setp") return FlowKind::Halves;
  return moves_bytes(s) ? FlowKind::Bytes : FlowKind::Any;
}

class Maker {
 public:
  Maker(const Statement& s, const std::vector<uint32_t>& slots, const std::vector<Register>& registers)
      : s_(s), slots_(slots), registers_(registers) {}

  Flow make() {
    if (s_.op.empty()) return {};
    flow_.kind = kind_of(s_);
    if (s_.guard >= 0) flow_.guard = slot_of(s_.guard);
    const bool writes = has_destination(s_);
    for (size_t n = 0; n < s_.operands.size(); ++n) {
      const Operand& o = s_.operands[n];
      if (o.kind == OperandKind::Address)
        visit_registers(o, [&](int reg) { flow_.addresses.push_back(slot_of(reg)); });
      else if (n == 0 && writes)
        add_results(o);
      else
        add_sources(o, n);
    }
    if (flow_.kind == FlowKind::Pack || flow_.kind == FlowKind::Unpack) flow_.selector = bytes_of_part();
    if (flow_.kind == FlowKind::Widen) flow_.selector = 2;
    if (flow_.kind == FlowKind::Run) add_lengths();
    if (flow_.kind == FlowKind::Permute) flow_.selector = static_cast<uint32_t>(s_.operands[3].value);
    if (flow_.kind == FlowKind::Bytes) set_shift();
    if (flow_.kind == FlowKind::Any || flow_.kind == FlowKind::Bytes || flow_.kind == FlowKind::Ends ||
        flow_.kind == FlowKind::Copy)
      drop_constants();
    return std::move(flow_);
  }

 private:
  uint32_t slot_of(int reg) const { return slots_[static_cast<size_t>(reg)]; }

  void add_lengths() {
    uint64_t terms = 0;
    for (const Operand& length : s_.operands[2].items) {
      flow_.lengths.push_back(1 + 2 * static_cast<uint32_t>(length.value));
      terms += flow_.lengths.back();
    }
    // Refuses an fma.run in a form that fuse.cpp does not write, because it must come from the input.
    if (terms + flow_.lengths.size() != flow_.sources.size() || flow_.lengths.size() != flow_.results.size())
      flow_.kind = FlowKind::Any;
  }

  /** Sets how the bytes of an instruction of moves_bytes() flow. */
  void set_shift() {
    const std::string &to = s_.mods[0], &from = s_.mods.back();
    const unsigned kept = std::min(bytes_of_type(to), bytes_of_type(from));
    flow_.bytes = low_bytes(kept);
    if (s_.op == "cvt") flow_.is_signed = (bytes_of_type(to) > kept ? from : to)[0] == 's';
    if (s_.op != "shl" && s_.op != "shr") return;
    const auto bits = static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(s_.operands[2].value), 64));
    flow_.shift = s_.op == "shl" ? bits : -bits;
    flow_.is_signed = s_.op == "shr" && to[0] == 's';
  }

  unsigned bytes_of_part() const {
    const bool packs = flow_.kind == FlowKind::Pack;
    const Operand &whole = s_.operands[packs ? 0 : 1], &parts = s_.operands[packs ? 1 : 0];
    if (whole.reg < 0 || parts.items.empty()) return 1;
    return registers_[static_cast<size_t>(whole.reg)].bytes / static_cast<unsigned>(parts.items.size());
  }

  void add_results(const Operand& o) {
    if (o.kind == OperandKind::Vector)
      for (const Operand& item : o.items) flow_.results.push_back(item.reg >= 0 ? slot_of(item.reg) : NOWHERE);
    else
      flow_.results.push_back(o.reg >= 0 ? slot_of(o.reg) : NOWHERE);
  }

  void add_sources(const Operand& o, size_t n) {
    if (o.kind == OperandKind::Vector)
      for (const Operand& item : o.items) add_source(item, n);
    else
      add_source(o, n);
  }
  /** Adds a source. Constants keep their position, because packing and choosing depend on it. */
  void add_source(const Operand& o, size_t n) {
    const bool is_register = o.kind == OperandKind::Register && o.reg >= 0;
    const bool is_predicate = is_register && registers_[static_cast<size_t>(o.reg)].bytes == 0;
    flow_.sources.push_back(
        {is_register ? slot_of(o.reg) : NOWHERE, bytes_that_count(o, n), is_predicate, is_predicate && o.negated});
  }

  uint8_t bytes_that_count(const Operand& o, size_t n) const {
    if (s_.op == "fma" && has(s_, "run") && o.kind == OperandKind::Register && o.value)
      return o.value == 1 ? 0x03 : 0x0c;  // one half of a pair
    if (s_.op == "cvt" && s_.mods.size() == 2 && (s_.mods[1] == "low" || s_.mods[1] == "high"))
      return s_.mods[1] == "low" ? 0x03 : 0x0c;
    if (s_.op == "cvt" && !s_.mods.empty() && bytes_of_type(s_.mods.back()))
      return low_bytes(bytes_of_type(s_.mods.back()));
    if (s_.op == "and" && s_.operands.size() == 3 && n > 0 && !has(s_, "pred")) {
      const Operand& other = s_.operands[3 - n];
      if (other.kind == OperandKind::Immediate) return bytes_of_mask(static_cast<uint64_t>(other.value));
    }
    return ALL_BYTES;
  }
  static uint8_t bytes_of_mask(uint64_t mask) {
    uint8_t bytes = 0;
    for (unsigned n = 0; n < 8; ++n)
      if (mask >> (8 * n) & 0xff) bytes |= static_cast<uint8_t>(1u << n);
    return bytes;
  }

  void drop_constants() {
    std::vector<Flow::Source> kept;
    for (const Flow::Source& source : flow_.sources)
      if (source.slot != NOWHERE) kept.push_back(source);
    flow_.sources = std::move(kept);
  }

  const Statement& s_;
  const std::vector<uint32_t>& slots_;
  const std::vector<Register>& registers_;
  Flow flow_;
};

}  // namespace

Flow flow_of(const Statement& s, const std::vector<uint32_t>& slots, const std::vector<Register>& registers) {
  return Maker(s, slots, registers).make();
}

}  // namespace flashcore::emu::ptx
