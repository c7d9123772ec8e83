// Register allocation and the choice of handlers.
#include "lower.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <queue>
#include <set>

#include "block.h"
#include "mentions.h"
#include "passes.h"

namespace flashcore::emu::ptx {

Handler label_handler();
Handler unsupported_handler();

namespace {

// --- which registers are needed where -------------------------------------------------------------------------------

/**
 * True if the destination may take the slot of a source that is not needed afterwards, because the handler reads each
 * lane's sources before it writes the lane's result.
 */
bool may_share(const Statement& s) {
  static const std::set<std::string> NOT = {"shfl", "match",    "redux", "vote",  "atom", "movmatrix", "mma",
                                            "wmma", "ldmatrix", "mov",   "elect", "ld",   "set"};
  return s.operands.size() > 1 && s.operands[0].kind == OperandKind::Register && NOT.count(s.op) == 0;
}

class Bits {
 public:
  explicit Bits(size_t count = 0) : words_((count + 63) / 64) {}
  bool get(size_t n) const { return words_[n / 64] >> (n % 64) & 1; }
  void set(size_t n) { words_[n / 64] |= 1ull << (n % 64); }
  void clear(size_t n) { words_[n / 64] &= ~(1ull << (n % 64)); }
  /** Adds the members of `other` that are not in `without`. Returns true if the set has grown. */
  bool add(const Bits& other, const Bits* without = nullptr) {
    bool grew = false;
    for (size_t n = 0; n < words_.size(); ++n) {
      const uint64_t more = without ? other.words_[n] & ~without->words_[n] : other.words_[n];
      grew |= (more & ~words_[n]) != 0;
      words_[n] |= more;
    }
    return grew;
  }
  template <class Visit>
  void each(const Visit& visit) const {
    for (size_t n = 0; n < words_.size(); ++n)
      for (uint64_t word = words_[n]; word; word &= word - 1)
        visit(n * 64 + static_cast<size_t>(__builtin_ctzll(word)));
  }

 private:
  std::vector<uint64_t> words_;
};

struct BasicBlock {
  size_t begin, end;
  std::vector<size_t> next;
  Bits reads, writes, live_in, live_out;
};

/** The first and last statement in which each register is needed; -1: never. */
struct Interval {
  int start = -1, end = -1;
  bool read_first = false;
};

std::vector<Interval> live_intervals(const Function& f) {
  std::vector<BasicBlock> blocks;
  std::vector<size_t> block_of(f.statements.size());
  for (size_t n = 0; n < f.statements.size(); ++n) {
    if (n == 0 || f.statements[n].is_label || ends_block(f.statements[n - 1]))
      blocks.push_back({n,
                        n,
                        {},
                        Bits(f.registers.size()),
                        Bits(f.registers.size()),
                        Bits(f.registers.size()),
                        Bits(f.registers.size())});
    blocks.back().end = n + 1;
    block_of[n] = blocks.size() - 1;
  }
  std::vector<RegisterUse> accesses;
  accesses.reserve(f.statements.size());
  for (const Statement& s : f.statements) accesses.push_back(registers_of(s));
  for (size_t b = 0; b < blocks.size(); ++b) {
    BasicBlock& block = blocks[b];
    for (size_t n = block.begin; n < block.end; ++n) {
      for (const int reg : accesses[n].reads)
        if (!block.writes.get(static_cast<size_t>(reg))) block.reads.set(static_cast<size_t>(reg));
      for (const int reg : accesses[n].writes) block.writes.set(static_cast<size_t>(reg));
    }
    const Statement& last = f.statements[block.end - 1];
    if (last.target >= 0) block.next.push_back(block_of[static_cast<size_t>(last.target)]);
    if (last.op == "brx")
      for (const auto& table : f.branch_tables)
        for (const int target : table) block.next.push_back(block_of[static_cast<size_t>(target)]);
    const bool falls = !ends_block(last) || last.guard >= 0 || last.op == "brx";
    if (falls && b + 1 < blocks.size()) block.next.push_back(b + 1);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = blocks.size(); b-- > 0;) {
      BasicBlock& block = blocks[b];
      for (const size_t next : block.next) changed |= block.live_out.add(blocks[next].live_in);
      changed |= block.live_in.add(block.reads);
      changed |= block.live_in.add(block.live_out, &block.writes);
    }
  }
  std::vector<Interval> intervals(f.registers.size());
  const auto touch = [&](size_t reg, size_t at) {
    Interval& interval = intervals[reg];
    const int position = static_cast<int>(at);
    if (interval.start < 0 || position < interval.start) interval.start = position;
    if (position > interval.end) interval.end = position;
  };
  for (const BasicBlock& block : blocks) {
    block.live_in.each([&](size_t reg) { touch(reg, block.begin); });
    block.live_out.each([&](size_t reg) { touch(reg, block.end); });
    for (size_t n = block.begin; n < block.end; ++n) {
      for (const int reg : accesses[n].reads) touch(static_cast<size_t>(reg), n);
      for (const int reg : accesses[n].writes) touch(static_cast<size_t>(reg), n);
    }
  }
  if (!blocks.empty()) blocks[0].live_in.each([&](size_t reg) { intervals[reg].read_first = true; });
  return intervals;
}

// --- the frame ----------------------------------------------------------------------------------------------------

constexpr uint64_t MOST_SHARED_BYTES = 1 << 20;
constexpr uint64_t MOST_LOCAL_BYTES = 512 * 1024;  // CUDA C++ Programming Guide, "Technical Specifications"

/** Infinity, because neither a factor of 0 nor a maximum hides it. */
uint64_t poison_of(const Register& reg) {
  if (!reg.is_float || reg.bytes < 4) return REGISTER_POISON;
  return reg.bytes == 4 ? 0x7f800000 : 0x7ff0000000000000;
}

unsigned slot_bytes(unsigned lane_bytes) { return lane_bytes ? lane_bytes * LANES : 4; }

class Lower final : public Lowering {
 public:
  Lower(const Program& program, const Function& function, const Addresses& globals, bool counted)
      : program_(program),
        simplified_(std::make_unique<Function>(simplified(program, with_calls_inlined(program, function), counted))),
        function_(*simplified_),
        globals_(globals),
        kernel_(std::make_unique<Kernel>()) {
    kernel_->program = &program;
    kernel_->function = simplified_.get();
    kernel_->simplified = std::move(simplified_);
    if (program.races) watch_products(function_, *kernel_);
  }

  std::unique_ptr<Kernel> run() {
    lay_out_variables();
    allocate_registers();
    waiting_ = waiting_loads(program_, function_);
    checked_ = checked_accesses(function_);
    if (program_.races)
      for (const Statement& s : function_.statements) kernel_->flows.push_back(flow_of(s, slots_, function_.registers));
    std::vector<size_t> at(function_.statements.size());
    for (size_t n = 0; n < function_.statements.size(); ++n) {
      current_ = &function_.statements[n];
      if (current_->is_label) emit_label(n);
      at[n] = kernel_->code.size() - (current_->is_label ? 1 : 0);
      if (!current_->op.empty()) emit(n);
    }
    kernel_->counted = counted_accesses(program_, function_);
    const Ins* base = kernel_->code.data();
    for (Ins& ins : kernel_->code) {
      const Statement& s = function_.statements[ins.statement];
      if (ins.fn == label_handler()) continue;
      if (s.target >= 0) ins.target = base + at[static_cast<size_t>(s.target)];
      if (s.op == "brx" && ins.extra) {
        auto& targets = const_cast<Extra*>(ins.extra)->targets;
        const auto table = static_cast<size_t>(s.operands.back().value);
        if (table < function_.branch_tables.size())
          for (const int target : function_.branch_tables[table])
            targets.push_back(base + at[static_cast<size_t>(target)]);
      }
    }
    kernel_->frame_bytes = (frame_ + 63) / 64 * 64;
    return std::move(kernel_);
  }

  // --- Lowering ------------------------------------------------------------------------------------------------------

  const Statement& statement() const override { return *current_; }
  bool waits() const override { return waiting_[static_cast<size_t>(current_ - function_.statements.data())]; }
  bool is_checked() const override { return checked_[static_cast<size_t>(current_ - function_.statements.data())]; }

  unsigned register_bytes(const Operand& o) const override {
    if (o.reg < 0) return 8;
    return function_.registers[static_cast<size_t>(o.reg)].bytes;
  }

  uint32_t slot(const Operand& o, unsigned bytes) override {
    switch (o.kind) {
      case OperandKind::Register: {
        const unsigned own = function_.registers[static_cast<size_t>(o.reg)].bytes;
        if (own != bytes) fail_width(o, own, bytes);
        return slots_[static_cast<size_t>(o.reg)];
      }
      case OperandKind::Immediate: return constant(immediate(o, bytes), bytes);
      case OperandKind::Symbol: return constant(address_of_symbol(o.name) + static_cast<uint64_t>(o.value), bytes);
      case OperandKind::Special: return special(o.name, bytes);
      case OperandKind::Sink: return sink(bytes);
      default: throw ProgramError("an operand of a kind that " + current_->op + " does not take", place());
    }
  }

  void address(const Operand& o, Ins& ins) override {
    ins.imm = o.value;
    ins.cache = kernel_->caches++;
    if (o.reg >= 0) {
      const unsigned bytes = function_.registers[static_cast<size_t>(o.reg)].bytes;
      ins.wide_address = bytes == 8;
      ins.a = slots_[static_cast<size_t>(o.reg)];
      return;
    }
    uint64_t base = 0;
    if (!o.name.empty()) {
      bool known = false;
      for (const Parameter& parameter : function_.parameters)
        if (parameter.name == o.name) {
          base = parameter.offset;
          known = true;
        }
      if (!known) base = address_of_symbol(o.name);
    }
    ins.imm += static_cast<int64_t>(base);
    if (ins.space == PARAMETER_SPACE || locals_.count(o.name)) {
      // A kernel's parameter is read at its offset. The parameter of a call is in local memory.
      if (locals_.count(o.name)) ins.space = LOCAL_SPACE;
    }
    if (ins.space == SHARED_SPACE) {
      ins.a = constant(static_cast<uint64_t>(ins.imm), 4);
      ins.imm = 0;
      return;
    }
    // Here the constant is the whole address. Handlers add the offset to it.
    ins.a = constant(static_cast<uint64_t>(ins.imm), 8);
    ins.wide_address = 1;
    if (ins.space != PARAMETER_SPACE && current_->op != "call") ins.imm = 0;
  }

  Extra& extra(Ins& ins) override {
    if (!ins.extra) {
      kernel_->extras.push_back(std::make_unique<Extra>());
      ins.extra = kernel_->extras.back().get();
    }
    return *const_cast<Extra*>(ins.extra);
  }

  uint32_t constant(uint64_t bits, unsigned bytes) override {
    if (bytes == 2) bits &= 0xffff;
    if (bytes == 4) bits &= 0xffffffff;
    const auto [found, added] = constants_.try_emplace({bits, bytes}, 0);
    if (added) {
      found->second = new_slot(bytes);
      kernel_->constants.push_back({found->second, bits, bytes});
    }
    return found->second;
  }

  unsigned parameter_bytes() const override { return function_.parameter_bytes; }

 private:
  std::string place() const { return program_.describe(current_ ? current_->place : function_.place); }

  [[noreturn]] void fail_width(const Operand& o, unsigned own, unsigned bytes) const {
    throw ProgramError(current_->op + " of " + std::to_string(8 * bytes) + " bits with register " + o.name + " of " +
                           std::to_string(8 * own) + " bits",
                       place());
  }

  uint64_t immediate(const Operand& o, unsigned bytes) const {
    if (o.literal == 'd' && bytes == 4) {
      double value;
      memcpy(&value, &o.value, 8);
      const auto single = static_cast<float>(value);
      uint32_t bits;
      memcpy(&bits, &single, 4);
      return bits;
    }
    if (o.literal == 'f' && bytes == 8) {
      float value;
      const auto bits = static_cast<uint32_t>(o.value);
      memcpy(&value, &bits, 4);
      const double wide = value;
      uint64_t out;
      memcpy(&out, &wide, 8);
      return out;
    }
    return static_cast<uint64_t>(o.value);
  }

  uint32_t new_slot(unsigned bytes) {
    frame_ = bytes ? (frame_ + 63) / 64 * 64 : frame_;
    const uint32_t slot = frame_;
    frame_ += slot_bytes(bytes);
    return slot;
  }
  uint32_t sink(unsigned bytes) {
    const auto [found, added] = sinks_.try_emplace(bytes, 0);
    if (added) found->second = new_slot(bytes);
    return found->second;
  }
  uint32_t special(const std::string& name, unsigned bytes) {
    // Special registers of 64 bits, and predicates. Launches have no numbers here, and clusters depend on the launch.
    if (bytes == 8 && (name == "%gridid" || name == "%current_graph_exec")) return constant(0, 8);
    const bool is_predicate = bytes == 0 && name == "%is_explicit_cluster";
    if (bytes != 4 && !is_predicate)
      throw ProgramError("the emulator does not carry " + name + " of this width", place());
    const auto [found, added] = specials_.try_emplace(name, 0);
    if (added) {
      found->second = new_slot(bytes);
      kernel_->specials.push_back(
          {found->second, name, name.compare(0, 6, "%ctaid") == 0 || name.find("cluster") != std::string::npos});
    }
    return found->second;
  }

  uint64_t address_of_symbol(const std::string& name) const {
    const auto shared = shared_.find(name);
    if (shared != shared_.end()) return shared->second;
    const auto local = locals_.find(name);
    if (local != locals_.end()) return local->second;
    const auto global = globals_.find(name);
    if (global != globals_.end()) return global->second;
    for (const Parameter& parameter : function_.parameters)
      if (parameter.name == name) return parameter.offset;
    if (name == "WARP_SZ") return LANES;
    throw ProgramError("there is no " + name, place());
  }

  void lay_out_variables() {
    std::set<std::string> used;
    for (const Statement& s : function_.statements)
      for (const Operand& o : s.operands) note_symbols(o, used);
    uint64_t at = 0, local = 0;
    unsigned align = 16;
    std::vector<std::string> dynamic;
    std::map<std::string, Home> arrays;
    const auto place_shared = [&](const Variable& v) {
      if (v.external || v.bytes == 0) {
        dynamic.push_back(v.name);
        align = std::max(align, v.align);
        return;
      }
      // Like ptxas, align a variable of 16 bytes or more so that 16 bytes can be read at once.
      const uint64_t aligned = std::max<uint64_t>(v.align, v.bytes >= 16 ? 16 : 1);
      at = (at + aligned - 1) / aligned * aligned;
      shared_[v.name] = at;
      arrays[v.name] = {static_cast<uint32_t>(at), static_cast<uint32_t>(at + v.bytes), source_name(v.name)};
      at += v.bytes;
    };
    for (const Variable& v : program_.shared)
      if (used.count(v.name)) place_shared(v);
    std::map<std::string, uint64_t> sizes;
    for (const Variable& v : function_.variables) {
      if (v.space == Space::Shared) place_shared(v);
      if (v.space == Space::Local) sizes[v.name] = std::max(sizes[v.name], v.bytes);
    }
    for (const auto& [name, bytes] : sizes) {
      local = (local + 15) / 16 * 16;
      locals_[name] = local;
      local += bytes;
    }
    if (at > MOST_SHARED_BYTES || local > MOST_LOCAL_BYTES)
      throw ProgramError(function_.name + " has " + std::to_string(at) + " bytes of shared and " +
                             std::to_string(local) + " of local memory: more than any GPU",
                         place());
    kernel_->static_shared = static_cast<unsigned>(at);
    kernel_->dynamic_offset = static_cast<unsigned>((at + align - 1) / align * align);
    if (at == 0) kernel_->dynamic_offset = 0;
    for (const std::string& name : dynamic) {
      shared_[name] = kernel_->dynamic_offset;
      arrays[name] = {kernel_->dynamic_offset, ~0u, "dynamic shared memory"};
    }
    if (program_.races) {
      for (const auto& [name, array] : arrays)
        if (array.to != ~0u) kernel_->arrays.push_back(array);
      kernel_->homes = homes_of(function_, arrays);
    }
    kernel_->local_bytes = static_cast<unsigned>(local);
  }
  /** The variable's own part of a mangled name (`tile` in _ZZ6kernelPfE4tile), or else the whole name. */
  static std::string source_name(const std::string& name) {
    for (size_t at = name.size(); at-- > 2;) {
      if (!isdigit(static_cast<unsigned char>(name[at - 1])) || isdigit(static_cast<unsigned char>(name[at]))) continue;
      size_t digits = at;
      while (digits > 0 && isdigit(static_cast<unsigned char>(name[digits - 1]))) --digits;
      if (strtoul(name.c_str() + digits, nullptr, 10) == name.size() - at) return name.substr(at);
    }
    return name;
  }
  static void note_symbols(const Operand& o, std::set<std::string>& used) {
    if (!o.name.empty() && o.reg < 0) used.insert(o.name);
    for (const Operand& item : o.items) note_symbols(item, used);
  }

  void allocate_registers() {
    const std::vector<Interval> intervals = live_intervals(function_);
    slots_.assign(function_.registers.size(), NO_SLOT);
    std::vector<size_t> order;
    for (size_t n = 0; n < intervals.size(); ++n)
      if (intervals[n].start >= 0) order.push_back(n);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return intervals[a].start < intervals[b].start; });
    struct Busy {
      int end;
      uint32_t slot;
      unsigned bytes;
      bool operator<(const Busy& o) const { return end > o.end; }
    };
    std::priority_queue<Busy> busy;
    std::map<unsigned, std::vector<uint32_t>> free_slots;
    for (const size_t reg : order) {
      const int start = intervals[reg].start;
      while (!busy.empty()) {
        const Busy& first = busy.top();
        const bool over =
            first.end < start || (first.end == start && static_cast<size_t>(start) < function_.statements.size() &&
                                  may_share(function_.statements[static_cast<size_t>(start)]) &&
                                  !function_.statements[static_cast<size_t>(start)].is_label);
        if (!over) break;
        free_slots[first.bytes].push_back(first.slot);
        busy.pop();
      }
      const unsigned bytes = function_.registers[reg].bytes;
      auto& unused = free_slots[bytes];
      uint32_t slot;
      if (unused.empty()) {
        slot = new_slot(bytes);
      } else {
        slot = unused.back();
        unused.pop_back();
      }
      slots_[reg] = slot;
      busy.push({intervals[reg].end, slot, bytes});
      if (intervals[reg].read_first)
        kernel_->read_before_written.push_back({slot, poison_of(function_.registers[reg]), bytes});
    }
    // A register that is written but never read also needs a slot, for the writes.
    for (size_t n = 0; n < slots_.size(); ++n)
      if (slots_[n] == NO_SLOT) slots_[n] = sink(function_.registers[n].bytes);
  }

  void emit_label(size_t n) {
    Ins ins;
    ins.fn = label_handler();
    ins.statement = static_cast<uint32_t>(n);
    ins.place = static_cast<uint32_t>(current_->place);
    kernel_->code.push_back(ins);
  }

  void emit(size_t n) {
    const Statement& s = *current_;
    Ins ins;
    ins.statement = static_cast<uint32_t>(n);
    ins.place = static_cast<uint32_t>(s.place);
    if (s.guard >= 0) {
      ins.guard = slots_[static_cast<size_t>(s.guard)];
      ins.guard_flip = s.guard_negated ? ALL : 0;
    }
    const Ins plain = ins;
    const auto caught = [&](bool (*lower)(Lowering&, Ins&)) {
      ins = plain;
      return lower(*this, ins);
    };
    bool carried = false;
    try {
      carried = caught(lower_control) || caught(lower_memory) || caught(lower_warp) || caught(lower_tensor) ||
                caught(lower_arithmetic) || caught(lower_seldom) || caught(lower_mbarrier) || caught(lower_bulk_copy) ||
                caught(lower_cluster) || caught(lower_wgmma) || caught(lower_tensor_map);
    } catch (const ProgramError& error) {
      why_ = error.what();
    }
    if (!carried || !ins.fn) {  // reported only if a thread reaches the instruction
      if (program_.complete) throw ProgramError("it uses " + not_carried(s, why_), place());
      ins = plain;
      ins.fn = unsupported_handler();
      if (!why_.empty()) kernel_->reasons[n] = why_;
    }
    why_.clear();
    if (has(s, "ftz")) kernel_->flush_subnormals = true;
    kernel_->code.push_back(ins);
  }

  const Program& program_;
  std::unique_ptr<Function> simplified_;  // moved into the kernel when lowering ends
  const Function& function_;
  const Addresses& globals_;
  std::unique_ptr<Kernel> kernel_;
  const Statement* current_ = nullptr;
  std::map<std::pair<uint64_t, unsigned>, uint32_t> constants_;
  std::map<std::string, uint32_t> specials_;
  std::map<unsigned, uint32_t> sinks_;
  std::map<std::string, uint64_t> shared_, locals_;
  std::vector<uint32_t> slots_;
  std::vector<bool> waiting_, checked_;
  uint32_t frame_ = 0;
  std::string why_;  // why the current statement is not supported
};

}  // namespace

std::string not_carried(const Statement& s, const std::string& why) {
  std::string name = s.op;
  for (const std::string& mod : s.mods) name += "." + mod;
  if (s.op == "call" && s.operands.size() > 1) name += " of " + s.operands[1].name;
  return name + ", which the emulator does not carry" + (why.empty() ? "" : ": " + why);
}

std::unique_ptr<Kernel> lower(const Program& program, const Function& function, const Addresses& globals,
                              bool counted) {
  static std::atomic<uint64_t> latest{0};
  std::unique_ptr<Kernel> kernel = Lower(program, function, globals, counted).run();
  kernel->serial = ++latest;
  kernel->source = &function;
  kernel->globals = &globals;
  return kernel;
}

const Kernel& counted_form(const Kernel& kernel) {
  std::call_once(kernel.counted_once,
                 [&] { kernel.counted_form = lower(*kernel.program, *kernel.source, *kernel.globals, true); });
  return *kernel.counted_form;
}

}  // namespace flashcore::emu::ptx
