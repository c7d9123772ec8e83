// The whole library as one translation unit. It compiles in a third of the time that its parts would take, and the
// compiler can inline calls between the parts.
#if !defined(FLASHCORE_PTX_ENGINE)
#define FLASHCORE_PTX_ENGINE 0
#endif
#include "exec/async_copy.cpp"
#include "exec/block.cpp"
#include "exec/context_switch.cpp"
#include "exec/device_memory.cpp"
#include "exec/device_printf.cpp"
#include "exec/fault.cpp"
#include "exec/grid.cpp"
#include "exec/race.cpp"
#include "exec/runtime_calls.cpp"
#include "exec/shared_memory.cpp"
#include "exec/signals.cpp"
#include "exec/stack_pool.cpp"
#include "driver/context.cpp"
#include "driver/device.cpp"
#include "driver/errors.cpp"
#include "driver/extras.cpp"
#include "driver/functions.cpp"
#include "driver/graphs.cpp"
#include "driver/image.cpp"
#include "driver/launch.cpp"
#include "driver/memory.cpp"
#include "driver/module.cpp"
#include "driver/queue.cpp"
#include "driver/streams.cpp"
#include "driver/tensor_map.cpp"

// Without this switch, ptx/*.cpp are compiled separately, for the processor that they run on.
#if !FLASHCORE_PTX_ENGINE
#include "ptx/cluster.h"
#include "ptx/counters.h"
#include "ptx/loaded.h"
#include "ptx/lower.h"
#include "ptx/products.h"
#include "ptx/races.h"

// Without the PTX engine, the library refuses to load PTX.
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
void GlobalShadow::mark_workspace(uint64_t, uint64_t) {}
void GlobalShadow::note_written(uint64_t, uint64_t) {}
void GlobalShadow::forget_unwritten() {}
void GlobalShadow::forget(uint64_t) {}

std::string Profile::to_json() const { return ""; }
std::vector<uint32_t> TraceLog::words() const { return {}; }

}  // namespace flashcore::emu::ptx
#endif
