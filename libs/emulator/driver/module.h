// Loaded modules and their functions.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "../exec/launch_plan.h"
#include "cuda_abi.h"

namespace flashcore::emu {

namespace ptx {
class LoadedProgram;
}

struct LoadedModule;

struct Function {
  const Entry* entry;
  LoadedModule* module;
  int max_dynamic_shared;  // bytes; raised by CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  unsigned static_shared;  // bytes
  const ptx::Kernel* kernel = nullptr;  // of a module of PTX
};

struct LoadedModule {
  void* library = nullptr;
  std::string path;   // as the dynamic linker knows it; already unlinked
  const Module* info = nullptr;
  const void* base = nullptr;
  uint64_t serial = 0;
  unsigned static_shared = 0;  // bytes, all entries of the module together
  std::unique_ptr<ptx::LoadedProgram> program;  // of a module of PTX
  std::vector<std::unique_ptr<Function>> functions;
  LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  ~LoadedModule();
};

/** The most shared memory of a block, in bytes: that of an L4, and of an H100 for code of sm_90 and later. */
int shared_limit(const Function& function);

/** Threads of a block: __launch_bounds__ of PTX, else the device's limit. */
int max_threads(const Function& function);

/** Blocks that an SM has room for, by threads, shared memory and their number; registers are not known here. */
int resident_blocks(const Function& function, int block_size, size_t dynamic_bytes);

/** The function behind a handle and a reference that keeps its module loaded; null if there is none. */
std::shared_ptr<LoadedModule> module_of(CUfunction handle, Function** function);

}  // namespace flashcore::emu
