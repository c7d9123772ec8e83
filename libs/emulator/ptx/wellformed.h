// Finds instructions that ptxas would refuse, so that a kernel that runs here also compiles for a GPU.
#pragma once
#include <string>

#include "program.h"

namespace flashcore::emu::ptx {

/** The error in a statement of the input; empty if no rule finds one. */
std::string fault_of(const Statement& statement, const Function& function);

/** True if there is a special register of this name. */
bool is_special_register(const std::string& name);

}  // namespace flashcore::emu::ptx
