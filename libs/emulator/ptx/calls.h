// Inlines the functions that a kernel calls.
#pragma once
#include "program.h"

namespace flashcore::emu::ptx {

/** The address of the n-th function of Program::callable. No data is at this address. */
uint64_t function_address(size_t n);

/**
 * Returns the entry with all calls to the program's own functions inlined. A call by address becomes a choice among the
 * matching functions whose address is taken. A recursive call stays a call; a thread that reaches it gets a finding.
 */
Function with_calls_inlined(const Program& program, const Function& entry);

}  // namespace flashcore::emu::ptx
