// Loaded modules and their functions.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "../exec/launch_plan.h"
#include "cuda_abi.h"

namespace flashcore::emu {

namespace ptx {
class LoadedProgram;
}

/** The kind of image that cuModuleLoadData received. The call does not pass the image's size. */
enum class ImageKind { Loadable, OtherMachine, Ptx, Unknown };

struct Image {
  ImageKind kind;
  size_t bytes;
};

/**
 * Tells whether `image` is an ELF or Mach-O shared object for this machine, PTX (text that ends with a 0), or something
 * else.
 */
Image inspect_image(const void* image);

struct LoadedModule;

struct Function {
  const Entry* entry;
  LoadedModule* module;
  int max_dynamic_shared;  // bytes; raised by CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  unsigned static_shared;  // bytes
  const ptx::Kernel* kernel = nullptr;  // null unless the module is PTX
};

struct LoadedModule {
  void* library = nullptr;
  std::string path;   // as the dynamic linker knows it; the file is already unlinked
  const Module* info = nullptr;
  const void* base = nullptr;
  uint64_t serial = 0;
  unsigned static_shared = 0;  // bytes, for all entries of the module together
  std::unique_ptr<ptx::LoadedProgram> program;  // null unless the module is PTX
  std::vector<std::unique_ptr<Function>> functions;
  LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  ~LoadedModule();
};

/** Maximum shared memory of a block in bytes: an L4's, or an H100's for code for sm_90 or later. */
int shared_limit(const Function& function);

/** Maximum threads of a block: __launch_bounds__ if the PTX has it, else the device's limit. */
int max_threads(const Function& function);

/** Number of blocks that fit on an SM by threads, shared memory and block count; registers are unknown here. */
int resident_blocks(const Function& function, int block_size, size_t dynamic_bytes);

/** Finds the function behind a handle. Returns a reference that keeps its module loaded, or null if there is none. */
std::shared_ptr<LoadedModule> module_of(CUfunction handle, Function** function);

}  // namespace flashcore::emu
