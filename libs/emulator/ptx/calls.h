// Functions that a kernel calls: their bodies are put where they are called.
#pragma once
#include "program.h"

namespace flashcore::emu::ptx {

/**
 * The entry without calls of the program's own functions. What calls itself, or is called by its address, stays a call:
 * a finding for who comes there.
 */
Function with_calls_inlined(const Program& program, const Function& entry);

}  // namespace flashcore::emu::ptx
