// Rewrites a function before it is lowered: fewer and wider instructions that do the same.
#pragma once
#include "program.h"

namespace flashcore::emu::ptx {

/**
 * Halves are widened straight from the pair that they come in, as SASS does it, and neighbouring loads of shared memory
 * become one. A statement that nothing is left of has no opcode; indices stay. While races are looked for, only loads of
 * one source line become one.
 */
Function simplified(const Program& program, const Function& function);

}  // namespace flashcore::emu::ptx
