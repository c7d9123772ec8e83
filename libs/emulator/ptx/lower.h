// From statements to decoded instructions: which function carries an opcode out, and in which slots its operands lie.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "warp.h"

namespace flashcore::emu::ptx {

/** Where module variables lie, by name. */
using Addresses = std::map<std::string, uint64_t>;

/** Errors: ProgramError, with the place of an opcode that is not carried. */
std::unique_ptr<Kernel> lower(const Program& program, const Function& function, const Addresses& globals,
                              bool counted = false);
/** The kernel as profiles count it: a multiply-add is an instruction. Made when it is first asked for. */
const Kernel& counted_form(const Kernel& kernel);

/** What the files of handlers ask while an instruction is decoded. */
class Lowering {
 public:
  virtual ~Lowering() = default;
  /** The slot of a register or a constant of so many bytes a lane; 0 bytes: a predicate. */
  virtual uint32_t slot(const Operand& operand, unsigned bytes) = 0;
  virtual unsigned register_bytes(const Operand& operand) const = 0;
  /** Base slot, offset and width of an address. */
  virtual void address(const Operand& operand, Ins& ins) = 0;
  virtual Extra& extra(Ins& ins) = 0;
  virtual const Statement& statement() const = 0;
  /** The statement is a volatile load with which a loop waits. */
  virtual bool waits() const = 0;
  virtual uint32_t constant(uint64_t bits, unsigned bytes) = 0;
  /** Of the kernel's parameters, all of them. */
  virtual unsigned parameter_bytes() const = 0;
};

/** A function over registers: its handler and the bytes a lane of d, a, b, c (0: a predicate). */
struct Operation {
  Handler fn;
  uint8_t operands;  // destination included
  uint8_t bytes[4];
};

/** By "add.s32" and the like. */
const std::map<std::string, Operation>& arithmetic_operations();

// Each takes the statement if it is one of its own.
bool lower_arithmetic(Lowering& l, Ins& ins);
bool lower_memory(Lowering& l, Ins& ins);
bool lower_control(Lowering& l, Ins& ins);
bool lower_warp(Lowering& l, Ins& ins);
bool lower_tensor(Lowering& l, Ins& ins);
bool lower_seldom(Lowering& l, Ins& ins);
bool lower_mbarrier(Lowering& l, Ins& ins);
bool lower_bulk_copy(Lowering& l, Ins& ins);
bool lower_cluster(Lowering& l, Ins& ins);
bool lower_wgmma(Lowering& l, Ins& ins);

// What is done to the result of a handler that is chosen already.
void saturate_result(Lowering& l, Ins& ins, unsigned bytes, unsigned parts);
void flush_result(Lowering& l, Ins& ins);

inline bool ends_block(const Statement& s) { return s.op == "bra" || s.op == "brx" || s.op == "ret" || s.op == "exit"; }

inline bool has(const Statement& s, const char* mod) {
  for (const std::string& each : s.mods)
    if (each == mod) return true;
  return false;
}

}  // namespace flashcore::emu::ptx
