// Finds the volatile loads that poll a flag.
#pragma once
#include <vector>

#include "program.h"

namespace flashcore::emu::ptx {

/**
 * Indexed by statement: true for a volatile load on which a loop waits. It reads the same address repeatedly, and the
 * value decides whether the loop continues. Compilers load once before such a loop, so another load of the same line
 * counts too.
 */
std::vector<bool> waiting_loads(const Program& program, const Function& function);

}  // namespace flashcore::emu::ptx
