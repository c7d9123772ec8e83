// Kernel launches: checks the arguments as the real driver does, then runs the grid.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "../exec/device_memory.h"
#include "../exec/grid.h"
#include "../ptx/counters.h"
#include "../ptx/lower.h"
#include "../ptx/program.h"
#include "../ptx/races.h"
#include "../ptx/trace.h"
#include "../ptx/warp.h"
#include "module.h"
#include "state.h"

using namespace flashcore::emu;

namespace {

/** A launch that waits in its stream. It has copies of everything it needs and keeps its module loaded. */
struct Launch {
  LaunchPlan plan;
  std::vector<char> arguments;
  std::shared_ptr<LoadedModule> module;
};

bool is_valid_grid(const CUlaunchConfig& c) {
  return c.gridDimX >= 1 && c.gridDimX <= 2147483647u && c.gridDimY >= 1 && c.gridDimY <= 65535 && c.gridDimZ >= 1 &&
         c.gridDimZ <= 65535;
}

bool is_valid_block(const CUlaunchConfig& c) {
  return c.blockDimX >= 1 && c.blockDimX <= 1024 && c.blockDimY >= 1 && c.blockDimY <= 1024 && c.blockDimZ >= 1 &&
         c.blockDimZ <= 64 &&
         uint64_t(c.blockDimX) * c.blockDimY * c.blockDimZ <= uint64_t(limits::MAX_THREADS_PER_BLOCK);
}

constexpr int ATTRIBUTE_COOPERATIVE = 2;
constexpr int ATTRIBUTE_CLUSTER_DIMENSION = 4;
constexpr int ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6;

constexpr unsigned MOST_BLOCKS_OF_A_CLUSTER = 16;

/**
 * Clusters need code for sm_90 or later. If the launch names no cluster size, the size that the code requires applies.
 */
CUresult check_cluster(const CUlaunchConfig& config, const ptx::Kernel* kernel, dim3& cluster) {
  if (kernel && kernel->function->cluster[0]) {
    const unsigned* required = kernel->function->cluster;
    const dim3 own(required[0], required[1], required[2]);
    const bool other =
        cluster.x * cluster.y * cluster.z != 1 && (cluster.x != own.x || cluster.y != own.y || cluster.z != own.z);
    if (other) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    cluster = own;
  }
  const uint64_t blocks = uint64_t(cluster.x) * cluster.y * cluster.z;
  if (blocks == 1) return CUDA_SUCCESS;
  if (!kernel || kernel->program->architecture() < 90) return CUDA_ERROR_NOT_SUPPORTED;
  const bool fits = blocks >= 1 && blocks <= MOST_BLOCKS_OF_A_CLUSTER && config.gridDimX % cluster.x == 0 &&
                    config.gridDimY % cluster.y == 0 && config.gridDimZ % cluster.z == 0;
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

CUresult check_attributes(const CUlaunchConfig& config, const Function& function, LaunchPlan& plan) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == ATTRIBUTE_COOPERATIVE) plan.cooperative = attribute.value.cooperative != 0;
    if (attribute.id == ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      plan.programmatic = attribute.value.programmaticStreamSerializationAllowed != 0;
    if (attribute.id != ATTRIBUTE_CLUSTER_DIMENSION) continue;
    const auto& asked = attribute.value.clusterDim;
    plan.cluster = dim3(asked.x, asked.y, asked.z);
  }
  // The fibre engine runs one block at a time on each thread, so it cannot run a cooperative grid.
  if (plan.cooperative && !function.kernel) return CUDA_ERROR_NOT_SUPPORTED;
  // A block of sm_90 code may use more shared memory than an SM of this device has. One such block per SM is allowed.
  const int threads = static_cast<int>(config.blockDimX * config.blockDimY * config.blockDimZ);
  const int of_multiprocessor = std::max(1, resident_blocks(function, threads, config.sharedMemBytes));
  plan.resident = static_cast<unsigned>(of_multiprocessor * limits::MULTIPROCESSORS);
  const uint64_t blocks = uint64_t(config.gridDimX) * config.gridDimY * config.gridDimZ;
  if (plan.cooperative && blocks > plan.resident) return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  return check_cluster(config, function.kernel, plan.cluster);
}

/** The workspace that the driver gives to a cooperative launch: its size, and the word in which grid.sync() counts. */
struct GridWorkspace {
  uint32_t bytes = sizeof(GridWorkspace);
  uint32_t barrier = 0;
};

/** Allocates the workspace in device memory, because kernels access it like any other, and frees it with the launch. */
class WorkspaceMemory {
 public:
  CUresult allocate() {
    FLASHCORE_REQUIRE(DeviceMemory::instance().allocate(&address_, sizeof(GridWorkspace)));
    DeviceMemory::instance().name(address_, "the workspace of a cooperative launch");
    const GridWorkspace empty;
    memcpy(reinterpret_cast<void*>(address_), &empty, sizeof empty);
    return CUDA_SUCCESS;
  }
  ~WorkspaceMemory() {
    if (address_) DeviceMemory::instance().release(address_);
  }
  CUdeviceptr address() const { return address_; }

 private:
  CUdeviceptr address_ = 0;
};

/** Packs the arguments in the entry's layout. Refuses null pointers in `parameters`. */
CUresult pack_arguments(const Entry& entry, void** parameters, void** extra, std::vector<char>& packed) {
  packed.assign(entry.packed_bytes + 1, 0);
  if (entry.parameter_count == 0) return CUDA_SUCCESS;
  if (parameters) {
    for (unsigned i = 0; i < entry.parameter_count; ++i) {
      if (!parameters[i]) return CUDA_ERROR_INVALID_VALUE;
      memcpy(packed.data() + entry.parameter_offsets[i], parameters[i], entry.parameter_sizes[i]);
    }
    return CUDA_SUCCESS;
  }
  // CU_LAUNCH_PARAM_BUFFER_POINTER 1, CU_LAUNCH_PARAM_BUFFER_SIZE 2, CU_LAUNCH_PARAM_END 0
  const void* buffer = nullptr;
  size_t bytes = 0;
  for (void** option = extra; option && *option; option += 2) {
    if (reinterpret_cast<uintptr_t>(*option) == 1) buffer = option[1];
    if (reinterpret_cast<uintptr_t>(*option) == 2) bytes = *static_cast<size_t*>(option[1]);
  }
  if (!buffer || bytes < entry.packed_bytes) return CUDA_ERROR_INVALID_VALUE;
  memcpy(packed.data(), buffer, entry.packed_bytes);
  return CUDA_SUCCESS;
}

}  // namespace

FLASHCORE_DRIVER_API CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction handle, void** parameters,
                                               void** extra) {
  FLASHCORE_REQUIRE(check_context());
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  Function* function;
  auto module = module_of(handle, &function);
  const auto stream = Queue::instance().stream(config->hStream);
  if (!module || !stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!is_valid_grid(*config) || !is_valid_block(*config)) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t threads = uint64_t(config->blockDimX) * config->blockDimY * config->blockDimZ;
  if (threads > static_cast<uint64_t>(max_threads(*function))) return CUDA_ERROR_INVALID_VALUE;
  if (static_cast<int64_t>(config->sharedMemBytes) > function->max_dynamic_shared) return CUDA_ERROR_INVALID_VALUE;
  auto launch = std::make_shared<Launch>();
  FLASHCORE_REQUIRE(check_attributes(*config, *function, launch->plan));
  FLASHCORE_REQUIRE(pack_arguments(*function->entry, parameters, extra, launch->arguments));
  launch->plan.entry = function->entry;
  launch->plan.packed_arguments = launch->arguments.data();
  launch->plan.grid = dim3(config->gridDimX, config->gridDimY, config->gridDimZ);
  launch->plan.block = dim3(config->blockDimX, config->blockDimY, config->blockDimZ);
  launch->plan.dynamic_shared_bytes = config->sharedMemBytes;
  launch->plan.module = module->info;
  launch->plan.library = module->library;
  launch->plan.module_serial = module->serial;
  launch->plan.kernel = function->kernel;
  static std::atomic<uint64_t> launches{0};
  launch->plan.launch = ++launches;
  launch->module = std::move(module);
  Operation operation;
  operation.run = [launch] {
    if (!launch->plan.kernel || !launch->plan.kernel->program->races) ptx::GlobalShadow::instance().forget_unwritten();
    ptx::Profile profile;
    ptx::TraceLog trace;
    if (launch->plan.kernel && profiling()) {
      launch->plan.profile = &profile;
      launch->plan.kernel = &ptx::counted_form(*launch->plan.kernel);
    }
    WorkspaceMemory workspace;
    if (launch->plan.cooperative) FLASHCORE_REQUIRE(workspace.allocate());
    launch->plan.grid_workspace = workspace.address();
    launch->plan.traced = traced_blocks();
    if (launch->plan.profile && launch->plan.traced.count > 0) launch->plan.trace = &trace;
    const GridResult result = run_grid(launch->plan);
    if (launch->plan.profile && result.ok) add_profile(profile.to_json());
    if (launch->plan.trace && result.ok) add_trace(trace.words());
    if (result.ok) return CUDA_SUCCESS;
    set_last_fault(to_json(result.fault));
    return result.fault.error;
  };
  return Queue::instance().submit(stream, std::move(operation));
}

FLASHCORE_DRIVER_API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                             unsigned block_x, unsigned block_y, unsigned block_z,
                                             unsigned shared_bytes, CUstream stream, void** parameters, void** extra) {
  const CUlaunchConfig config{grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, nullptr, 0};
  return cuLaunchKernelEx(&config, function, parameters, extra);
}
