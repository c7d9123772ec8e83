// Stands for the PTX engine in a library that is built without it: PTX is refused when it is loaded.
#include "block.h"
#include "counters.h"
#include "loaded.h"
#include "shadow.h"

namespace flashcore::emu::ptx {

LoadedProgram::LoadedProgram(const std::string&) { throw ProgramError("this build of the emulator has no PTX engine"); }
LoadedProgram::~LoadedProgram() = default;
const Kernel* LoadedProgram::kernel(const std::string&) { return nullptr; }
const Entry* LoadedProgram::entry(const std::string&) const { return nullptr; }
bool LoadedProgram::find_variable(const std::string&, CUdeviceptr*, size_t*) const { return false; }

BlockRun::BlockRun() = default;
BlockRun::~BlockRun() = default;
bool BlockRun::run(const LaunchPlan&, uint3) { return false; }

std::string Profile::to_json() const { return ""; }

}  // namespace flashcore::emu::ptx
