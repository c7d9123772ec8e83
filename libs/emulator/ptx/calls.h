// Functions that a kernel calls: their bodies are put where they are called.
#pragma once
#include "program.h"

namespace flashcore::emu::ptx {

/** Where the n-th of Program::callable is: an address that no data is at. */
uint64_t function_address(size_t n);

/**
 * The entry without calls of the program's own functions. A call by address becomes a choice among those whose address
 * is taken and that fit it. What calls itself stays a call: a finding for who comes there.
 */
Function with_calls_inlined(const Program& program, const Function& entry);

}  // namespace flashcore::emu::ptx
