// Rewrites a function before it is lowered: fewer and wider instructions that do the same.
#pragma once
#include "program.h"

namespace flashcore::emu::ptx {

/**
 * Halves are widened straight from the pair that they come in, as SASS does it, and neighbouring loads of shared memory
 * become one; so do sums of products. A statement that nothing is left of has no opcode; indices stay. While races are
 * looked for, only loads of one source line become one. `counted`: sums of products stay as they are.
 */
Function simplified(const Program& program, const Function& function, bool counted);

/** Whether there is a wgmma, whose accumulators are not to be read before a wait. */
bool has_asynchronous_products(const Function& function);

}  // namespace flashcore::emu::ptx
