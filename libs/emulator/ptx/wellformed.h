// What ptxas would refuse in an instruction: a kernel that is carried here must not fail to compile for a GPU.
#pragma once
#include <string>

#include "program.h"

namespace flashcore::emu::ptx {

/** What is wrong with a statement as it was written; empty: nothing that is looked for. */
std::string fault_of(const Statement& statement, const Function& function);

/** Whether there is a special register of this name. */
bool is_special_register(const std::string& name);

}  // namespace flashcore::emu::ptx
