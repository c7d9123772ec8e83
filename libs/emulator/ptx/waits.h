// Which volatile loads are looks at a flag.
#pragma once
#include <vector>

#include "program.h"

namespace flashcore::emu::ptx {

/**
 * By statement: a volatile load with which a loop waits. It reads the same address again and again, and what it reads
 * decides whether the loop goes on. Compilers look once before such a loop, so another one of the same line counts too.
 */
std::vector<bool> waiting_loads(const Program& program, const Function& function);

}  // namespace flashcore::emu::ptx
