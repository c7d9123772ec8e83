#include "trace.h"

#include <cstring>

namespace flashcore::emu::ptx {

namespace {

// Limit of a trace. A block that does not fit any more is left out.
constexpr size_t MOST_WORDS = 12u << 20;

const char* name_of(OperandKind kind) {
  switch (kind) {
    case OperandKind::Register: return "register";
    case OperandKind::Immediate: return "immediate";
    case OperandKind::Special: return "special";
    case OperandKind::Symbol: return "symbol";
    case OperandKind::Address: return "address";
    case OperandKind::Vector: return "vector";
    case OperandKind::Sink: return "sink";
  }
  return "";
}

void list_registers(const Operand& o, std::string& out) {
  if (o.reg >= 0) out += (out.empty() ? "" : ",") + std::to_string(o.reg);
  for (const Operand& item : o.items) list_registers(item, out);
}

std::string to_json(const Operand& o) {
  std::string registers;
  list_registers(o, registers);
  return std::string("{\"kind\":\"") + name_of(o.kind) + "\",\"value\":\"" + std::to_string(o.value) +
         "\",\"name\":\"" + o.name + "\",\"registers\":[" + registers + "]}";
}

std::string to_json(const Statement& s, const CountedAccess& counted) {
  std::string op = s.op, operands;
  for (const std::string& mod : s.mods) op += "." + mod;
  for (const Operand& o : s.operands) operands += (operands.empty() ? "" : ",") + to_json(o);
  return "{\"op\":\"" + op + "\",\"operands\":[" + operands + "],\"guard\":" + std::to_string(s.guard) +
         ",\"target\":" + std::to_string(s.target) + ",\"isLabel\":" + (s.is_label ? "true" : "false") +
         ",\"isJoined\":" + (counted.joined ? "true" : "false") + ",\"bytes\":" + std::to_string(counted.bytes) + "}";
}

}  // namespace

void TraceLog::add(const Kernel& kernel, const Trace& block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (statements_.empty()) {
    const std::vector<Statement>& statements = kernel.function->statements;
    for (size_t n = 0; n < statements.size(); ++n)
      statements_ += (n ? "," : "[") + to_json(statements[n], kernel.counted[n]);
    statements_ += "]";
  }
  size_t all = steps_.size();
  for (const auto& warp : block.warps()) all += warp.size();
  if (all > MOST_WORDS) return;
  ++blocks_;
  steps_.push_back(static_cast<uint32_t>(block.warps().size()));
  for (const auto& warp : block.warps()) {
    steps_.push_back(static_cast<uint32_t>(warp.size()));
    steps_.insert(steps_.end(), warp.begin(), warp.end());
  }
}

std::vector<uint32_t> TraceLog::words() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string json = statements_;
  json.resize((json.size() + 3) / 4 * 4, ' ');
  std::vector<uint32_t> words(1 + json.size() / 4);
  words[0] = static_cast<uint32_t>(json.size());
  memcpy(words.data() + 1, json.data(), json.size());
  words.push_back(blocks_);
  words.insert(words.end(), steps_.begin(), steps_.end());
  return words;
}

}  // namespace flashcore::emu::ptx
