// Which shared array an address is made from: an index that leaves it for another one is a mistake that no limit shows.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "program.h"
#include "warp.h"

namespace flashcore::emu::ptx {

/** Of each statement that touches shared memory by an address made from one array alone, where that lies; else 0 to 0. */
std::vector<Home> homes_of(const Function& f, const std::map<std::string, Home>& arrays);

}  // namespace flashcore::emu::ptx
