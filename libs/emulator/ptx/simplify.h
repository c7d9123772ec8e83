// Rewrites a function before it is lowered: fewer and wider instructions with the same effect.
#pragma once
#include "program.h"

namespace flashcore::emu::ptx {

/**
 * Widens halves directly from their pair, as SASS does, and joins neighboring loads of shared memory and sums of
 * products. A removed statement has no opcode but keeps its index. While looking for races, only loads of one source
 * line are joined. `counted`: sums of products stay separate.
 */
Function simplified(const Program& program, const Function& function, bool counted);

/** True if there is a wgmma; its accumulators must not be read before a wait. */
bool has_asynchronous_products(const Function& function);

}  // namespace flashcore::emu::ptx
