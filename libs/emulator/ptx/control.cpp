// Branches, barriers, exits and the few system functions that kernels call.
#include <algorithm>
#include <chrono>
#include <string>

#include "../exec/launch_plan.h"
#include "block.h"
#include "lower.h"

namespace flashcore::emu::ptx {

namespace {

const Ins* branch(Warp& w, const Ins* i) {
  const uint32_t taken = w.active(i);
  if (taken == 0) return w.goes_on() ? i + 1 : w.go_on_at(i + 1);
  const bool backward = i->target <= i;
  if (taken == w.mask) {
    if (backward && --w.budget <= 0) return w.yield(i->target);
    return w.goes_on() ? i->target : w.go_on_at(i->target);
  }
  if (backward && --w.budget <= 0) {
    w.others.push_back({i + 1, w.mask & ~taken});
    w.mask = taken;
    return w.yield(i->target);
  }
  return w.diverge(i->target, taken, i + 1);
}

const Ins* branch_by_table(Warp& w, const Ins* i) {
  const uint32_t* index = w.reg<uint32_t>(i->a);
  const auto& targets = i->extra->targets;
  for (unsigned k = 0; k < LANES; ++k) {
    if (!(w.mask >> k & 1)) continue;
    w.others.push_back({index[k] < targets.size() ? targets[index[k]] : i + 1, 1u << k});
  }
  return w.pick();
}

/** A jump target. Lanes that already wait here join the split. */
const Ins* label(Warp& w, const Ins* i) {
  if (w.others.empty()) return i + 1;
  bool earlier = false;
  for (size_t n = 0; n < w.others.size();) {
    const Split& split = w.others[n];
    if (split.state == SplitState::Runnable && split.pc == i) {
      w.mask |= split.mask;
      w.others.erase(w.others.begin() + static_cast<std::ptrdiff_t>(n));
      continue;
    }
    earlier |= split.state == SplitState::Runnable && split.pc < i;
    ++n;
  }
  return earlier && !w.ahead ? w.go_on_at(i) : i + 1;
}

const Ins* leave(Warp& w, const Ins* i) {
  const uint32_t lanes = w.active(i);
  return lanes ? w.exit_lanes(lanes, i + 1) : i + 1;
}

unsigned first_lane(uint32_t m) { return static_cast<unsigned>(__builtin_ctz(m)); }

const Ins* trap(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  Fault fault;
  fault.kind = "TRAP";
  fault.message = "reached a trap or code that the compiler took for unreachable";
  w.fail(i, first_lane(m), std::move(fault));
}

const Ins* unsupported(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  Fault fault;
  fault.error = CUDA_ERROR_ILLEGAL_INSTRUCTION;
  fault.kind = "UNSUPPORTED_INSTRUCTION";
  const Statement& s = w.block->kernel().function->statements[i->statement];
  const auto& reasons = w.block->kernel().reasons;
  const auto reason = reasons.find(i->statement);
  fault.message = "reached " + not_carried(s, reason == reasons.end() ? "" : reason->second);
  w.fail(i, first_lane(m), std::move(fault));
}

// --- barriers -------------------------------------------------------------------------------------------------------

/**
 * Operands: a is a predicate, b the barrier's number, c the number of threads or NO_SLOT. options[0] is the reduction,
 * options[1] is true if the instruction waits.
 */
const Ins* barrier(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  const unsigned first = first_lane(m);
  const uint32_t id = w.reg<uint32_t>(i->b)[first];
  const uint32_t count = i->c == NO_SLOT ? 0 : w.reg<uint32_t>(i->c)[first];
  if (id >= 16 || count % LANES) {
    Fault fault;
    fault.kind = "TRAP";
    fault.message = id >= 16 ? "used barrier " + std::to_string(id) + ": a block has 16, from 0"
                             : "used a barrier of " + std::to_string(count) + " threads: must be whole warps";
    w.fail(i, first, std::move(fault));
  }
  ++w.epoch;
  const bool waits = i->extra->options[1] != 0;
  const uint32_t truths = i->a == NO_SLOT ? 0 : w.pred(i->a) ^ (i->imm ? ALL : 0);
  if (!waits) {
    w.block->arrive(w, i, {id, count, m, truths, false});
    return i + 1;
  }
  if (m != w.mask) w.others.push_back({i + 1, w.mask & ~m});
  w.block->arrive(w, i, {id, count, m, truths, true});
  return w.pick();
}

bool lower_barrier(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (has(s, "cluster")) return false;
  Extra& extra = l.extra(ins);
  extra.options[1] = !has(s, "arrive");
  ins.fn = barrier;
  size_t n = 0;
  if (has(s, "red")) {
    const bool popc = has(s, "popc");
    extra.options[0] = popc ? 1 : (has(s, "and") ? 2 : 3);
    extra.what = popc ? "__syncthreads_count()" : has(s, "and") ? "__syncthreads_and()" : "__syncthreads_or()";
    ins.d = l.slot(s.operands[n++], popc ? 4 : 0);
    ins.b = l.slot(s.operands[n++], 4);
    const Operand& truth = s.operands.back();
    if (s.operands.size() == n + 2) ins.c = l.slot(s.operands[n], 4);
    ins.a = l.slot(truth, 0);
    ins.imm = truth.negated;
    return true;
  }
  if (!has(s, "sync") && !has(s, "arrive")) return false;
  ins.b = l.slot(s.operands[n++], 4);
  const bool counted = n < s.operands.size();
  if (counted) ins.c = l.slot(s.operands[n], 4);
  extra.what = counted ? (has(s, "arrive") ? "bar.arrive" : "bar.sync") : "__syncthreads()";
  return true;
}

// --- clocks and calls -------------------------------------------------------------------------------------------------

template <class T>
const Ins* clock_register(Warp& w, const Ins* i) {
  const auto now = static_cast<T>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
  write_lanes<T>(w, i->d, w.active(i), [=](int) { return now; });
  return i + 1;
}

/** The text at a generic address, up to the end of device memory there. */
std::string text_at(Warp& w, const Ins* i, unsigned lane, uint64_t address) {
  Ins generic = *i;
  generic.space = GENERIC_SPACE;
  std::string text;
  while (text.size() < 4096) {
    const char c = *resolve_one({{w, &generic, lane}, 1, Access::Read}, address + text.size(), 1);
    if (!c) break;
    text += c;
  }
  return text;
}

template <class T>
T argument(Warp& w, const Ins* i, unsigned lane, uint64_t& at) {
  Ins generic = *i;
  generic.space = GENERIC_SPACE;
  at = (at + sizeof(T) - 1) / sizeof(T) * sizeof(T);
  T value;
  memcpy(&value, resolve_one({{w, &generic, lane}, sizeof(T), Access::Read}, at, sizeof(T)), sizeof(T));
  at += sizeof(T);
  return value;
}

/** Formats one conversion. `%c` with the value 0 writes a character too. */
template <class T>
std::string converted(const std::string& conversion, T value) {
  char few[512];
  const int length = snprintf(few, sizeof few, conversion.c_str(), value);
  if (length < 0) return "";
  if (static_cast<size_t>(length) < sizeof few) return {few, static_cast<size_t>(length)};
  std::string text(std::min(static_cast<size_t>(length), PRINTF_BUFFER_BYTES) + 1, 0);
  snprintf(text.data(), text.size(), conversion.c_str(), value);
  text.pop_back();
  return text;
}

/** Formats printf's text with the arguments, which are packed in local memory. */
std::string formatted(const LaneAt& by, const std::string& format, uint64_t at) {
  const auto& [w, i, lane] = by;
  std::string out;
  for (size_t n = 0; n < format.size(); ++n) {
    if (format[n] != '%') {
      out += format[n];
      continue;
    }
    std::string one = "%";
    int longs = 0;
    for (++n; n < format.size() && !isalpha(static_cast<unsigned char>(format[n])) && format[n] != '%'; ++n) {
      if (format[n] == '*')
        one += std::to_string(argument<int32_t>(w, i, lane, at));
      else
        one += format[n];
    }
    for (; n < format.size() && strchr("lhzjt", format[n]); ++n) longs += format[n] == 'l' || format[n] == 'z';
    if (n >= format.size()) break;
    const char kind = format[n];
    if (kind == '%') {
      out += '%';
    } else if (strchr("fFeEgGaA", kind)) {
      out += converted(one + kind, argument<double>(w, i, lane, at));
    } else if (kind == 's') {
      out += converted(one + 's', text_at(w, i, lane, argument<uint64_t>(w, i, lane, at)).c_str());
    } else if (kind == 'p' || longs) {
      const auto value = argument<int64_t>(w, i, lane, at);
      out += converted(one + "ll" + (kind == 'p' ? 'x' : kind), static_cast<long long>(value));
    } else if (strchr("diouxXc", kind)) {
      out += converted(one + kind, argument<int32_t>(w, i, lane, at));
    }
  }
  return out;
}

uint64_t passed(Warp& w, unsigned lane, int offset) {
  uint64_t value;
  memcpy(&value, w.block->local + w.linear(lane) * w.block->local_stride + offset, sizeof value);
  return value;
}

/** Operands: options[0] and [1] are the offsets of the two arguments in local memory, [2] that of the result or -1. */
const Ins* call_printf(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  for (unsigned lane = 0; lane < LANES; ++lane) {
    if (!(m >> lane & 1)) continue;
    const std::string format = text_at(w, i, lane, passed(w, lane, i->extra->options[0]));
    const std::string text = formatted({w, i, lane}, format, passed(w, lane, i->extra->options[1]));
    collect_printf(text);
    const int length = static_cast<int>(text.size());
    if (i->extra->options[2] >= 0)
      memcpy(w.block->local + w.linear(lane) * w.block->local_stride + i->extra->options[2], &length, sizeof length);
  }
  return i + 1;
}

const Ins* call_assertion(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  const unsigned lane = first_lane(m);
  Fault fault;
  fault.kind = "ASSERT";
  fault.error = CUDA_ERROR_ASSERT;
  fault.message = "failed assert(" + text_at(w, i, lane, passed(w, lane, i->extra->options[0])) + ")";
  w.fail(i, lane, std::move(fault));
}

bool lower_call(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const std::string& name = s.operands[1].name;
  Extra& extra = l.extra(ins);
  const auto& passed_ones = s.operands[2].items;
  const auto offset = [&](const Operand& o) {
    Ins at;
    Operand address = o;
    address.kind = OperandKind::Address;
    l.address(address, at);
    return static_cast<int>(at.imm);
  };
  if (name == "vprintf" && passed_ones.size() == 2) {
    extra.options[0] = offset(passed_ones[0]);
    extra.options[1] = offset(passed_ones[1]);
    extra.options[2] = s.operands[0].items.empty() ? -1 : offset(s.operands[0].items[0]);
    ins.fn = call_printf;
  } else if (name == "__assertfail" && !passed_ones.empty()) {
    extra.options[0] = offset(passed_ones[0]);
    ins.fn = call_assertion;
  }
  if (!ins.fn)
    throw ProgramError(s.operands[1].kind == OperandKind::Register
                           ? "no function of the module with these parameters has this address, but for one that is "
                             "being called"
                           : "functions that call themselves are not supported, nor those of other modules");
  return true;
}

const Ins* nothing(Warp&, const Ins* i) { return i + 1; }

/** griddepcontrol.wait. The previous launch has ended, because this engine runs launches one after another. */
const Ins* wait_for_launch(Warp& w, const Ins* i) {
  if (w.active(i)) w.block->waited_for_launch = true;
  return i + 1;
}

}  // namespace

Handler label_handler() { return label; }
Handler unsupported_handler() { return unsupported; }

bool lower_control(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.op == "bra")
    ins.fn = branch;
  else if (s.op == "ret" || s.op == "exit")
    ins.fn = leave;
  else if (s.op == "trap" || s.op == "brkpt")
    ins.fn = trap;
  else if (s.op == "griddepcontrol" && has(s, "wait"))
    ins.fn = wait_for_launch;
  else if (s.op == "nanosleep" || s.op == "setmaxnreg" || s.op == "pmevent" || s.op == "griddepcontrol")
    ins.fn = nothing;
  else if (s.op == "brx") {
    ins.fn = branch_by_table;
    ins.a = l.slot(s.operands[0], 4);
    l.extra(ins);
  } else if ((s.op == "bar" && !has(s, "warp")) || s.op == "barrier")
    return lower_barrier(l, ins);
  else if (s.op == "call")
    return lower_call(l, ins);
  else if (s.op == "mov" && s.operands.size() == 2 && s.operands[1].kind == OperandKind::Special) {
    const std::string& name = s.operands[1].name;
    if (name == "%clock64" || name == "%globaltimer") {
      ins.fn = clock_register<uint64_t>;
      ins.d = l.slot(s.operands[0], 8);
    } else if (name == "%clock" || name == "%clock_hi" || name == "%globaltimer_lo" || name == "%globaltimer_hi") {
      ins.fn = clock_register<uint32_t>;
      ins.d = l.slot(s.operands[0], 4);
    }
  }
  return ins.fn != nullptr;
}

}  // namespace flashcore::emu::ptx
