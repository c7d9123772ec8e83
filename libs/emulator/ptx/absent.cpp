// Replaces the PTX engine in a library that is built without it: loading PTX is refused.
#include "cluster.h"
#include "counters.h"
#include "loaded.h"
#include "lower.h"
#include "products.h"
#include "races.h"

namespace flashcore::emu::ptx {

LoadedProgram::LoadedProgram(const std::string&) { throw ProgramError("this build of the emulator has no PTX engine"); }
LoadedProgram::~LoadedProgram() = default;
const Kernel* LoadedProgram::kernel(const std::string&) { return nullptr; }
const Entry* LoadedProgram::entry(const std::string&) const { return nullptr; }
bool LoadedProgram::find_variable(const std::string&, CUdeviceptr*, size_t*) const { return false; }

const Kernel& counted_form(const Kernel& kernel) { return kernel; }

BlockRun::BlockRun() = default;
BlockRun::~BlockRun() = default;

ClusterRun::ClusterRun() = default;
ClusterRun::~ClusterRun() = default;
bool ClusterRun::run(const LaunchPlan&, const NextCluster&, unsigned, unsigned) { return false; }
RunCounters ClusterRun::counters() const { return {}; }

GlobalShadow& GlobalShadow::instance() {
  static GlobalShadow none;
  return none;
}
void GlobalShadow::mark_unwritten(uint64_t, uint64_t) {}
void GlobalShadow::note_written(uint64_t, uint64_t) {}
void GlobalShadow::forget_unwritten() {}
void GlobalShadow::forget(uint64_t) {}

std::string Profile::to_json() const { return ""; }
std::vector<uint32_t> TraceLog::words() const { return {}; }

}  // namespace flashcore::emu::ptx
