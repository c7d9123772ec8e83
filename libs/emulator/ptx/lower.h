// Turns statements into decoded instructions, which have the function that executes an opcode and the slots of its
// operands.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "warp.h"

namespace flashcore::emu::ptx {

/** Addresses of module variables, by name. */
using Addresses = std::map<std::string, uint64_t>;

/** Errors: ProgramError, with the source line of an opcode that the engine does not support. */
std::unique_ptr<Kernel> lower(const Program& program, const Function& function, const Addresses& globals,
                              bool counted = false);
/**
 * The form of the kernel that profiles count, in which each multiply-add is a separate instruction. Made on first use.
 */
const Kernel& counted_form(const Kernel& kernel);

/** The functions that the handlers' files may use while an instruction is decoded. */
class Lowering {
 public:
  virtual ~Lowering() = default;
  /** The slot of a register or constant that has this many bytes per lane. 0 bytes: a predicate. */
  virtual uint32_t slot(const Operand& operand, unsigned bytes) = 0;
  virtual unsigned register_bytes(const Operand& operand) const = 0;
  /** Fills in the base slot, offset and width of an address. */
  virtual void address(const Operand& operand, Ins& ins) = 0;
  virtual Extra& extra(Ins& ins) = 0;
  virtual const Statement& statement() const = 0;
  /** True if the statement is a volatile load that a loop waits on. */
  virtual bool waits() const = 0;
  /** For a load: true if an atomic at its address follows. For an atomic: true if its result is used. */
  virtual bool is_checked() const = 0;
  virtual uint32_t constant(uint64_t bits, unsigned bytes) = 0;
  /** Total size of the kernel's parameters. */
  virtual unsigned parameter_bytes() const = 0;
};

/** An operation on registers: its handler, and the bytes per lane of d, a, b and c (0: a predicate). */
struct Operation {
  Handler fn;
  uint8_t operands;  // destination included
  uint8_t bytes[4];
};

/** The table of operations by name, such as "add.s32". */
const std::map<std::string, Operation>& arithmetic_operations();

// Each of these functions returns true if the statement is one of its own and has been lowered.
bool lower_arithmetic(Lowering& l, Ins& ins);
bool lower_memory(Lowering& l, Ins& ins);
/** "st.async.weak, which the emulator does not carry: why". */
std::string not_carried(const Statement& s, const std::string& why);

bool lower_control(Lowering& l, Ins& ins);
bool lower_warp(Lowering& l, Ins& ins);
bool lower_tensor(Lowering& l, Ins& ins);
bool lower_seldom(Lowering& l, Ins& ins);
bool lower_mbarrier(Lowering& l, Ins& ins);
bool lower_bulk_copy(Lowering& l, Ins& ins);
bool lower_cluster(Lowering& l, Ins& ins);
bool lower_wgmma(Lowering& l, Ins& ins);
bool lower_tensor_map(Lowering& l, Ins& ins);

// These change the result of a handler that has already been chosen.
void saturate_result(Lowering& l, Ins& ins, unsigned bytes, unsigned parts);
void flush_result(Lowering& l, Ins& ins);

inline bool ends_block(const Statement& s) { return s.op == "bra" || s.op == "brx" || s.op == "ret" || s.op == "exit"; }

inline bool has(const Statement& s, const char* mod) {
  for (const std::string& each : s.mods)
    if (each == mod) return true;
  return false;
}

}  // namespace flashcore::emu::ptx
