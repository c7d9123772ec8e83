// Finds the shared array that an address is computed from. An index that leaves this array for another stays within
// shared memory, so no limit check catches it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "program.h"
#include "warp.h"

namespace flashcore::emu::ptx {

/**
 * For each statement whose shared-memory address is computed from exactly one array: the range of that array. For all
 * other statements 0 to 0.
 */
std::vector<Home> homes_of(const Function& f, const std::map<std::string, Home>& arrays);

}  // namespace flashcore::emu::ptx
