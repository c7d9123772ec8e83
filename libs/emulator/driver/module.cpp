// Modules. The bytes of a shared object are loaded through a temporary file that is unlinked at once.
#include "module.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#if defined(__linux__)
#include <link.h>
#endif

#include "../exec/device_memory.h"
#include "../exec/fault.h"
#include "../exec/shared_memory.h"
#include "../ptx/loaded.h"
#include "state.h"

namespace flashcore::emu {

namespace {
Handles<LoadedModule, CUmodule>& modules() {
  // A module releases its variables when it is destroyed, possibly as late as process exit. Both singletons are created
  // before it, so they are destroyed after it.
  DeviceMemory::instance();
  module_files();
  static Handles<LoadedModule, CUmodule> handles;
  return handles;
}
std::mutex functions_mutex;
std::map<CUfunction, std::weak_ptr<LoadedModule>> module_by_function;

/** Kernels call back into this library, so modules that are loaded later must find its symbols. */
void make_own_symbols_global() {
  static std::once_flag once;
  std::call_once(once, [] {
    Dl_info info;
    if (dladdr(reinterpret_cast<const void*>(&make_own_symbols_global), &info) && info.dli_fname)
      dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  });
}

void note_load_failure(const char* kind, const std::string& message, CUresult error = CUDA_ERROR_INVALID_IMAGE,
                       const std::string& place = "") {
  Fault fault;
  fault.kind = kind;
  fault.error = error;
  fault.message = message;
  fault.place = place;
  set_last_fault(to_json(fault));
}

/** Writes the bytes to a fresh file and stores its path in `path`. Returns -1 if that failed. */
int write_temporary(std::string& path, const void* image, size_t bytes) {
  const char* directory = getenv("TMPDIR");
  path = std::string(directory && *directory ? directory : "/tmp") + "/flashcore-module-XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0) return -1;
  fcntl(file, F_SETFD, FD_CLOEXEC);
  const char* from = static_cast<const char*>(image);
  while (bytes > 0) {
    const ssize_t written = write(file, from, bytes);
    if (written <= 0) {
      unlink(path.c_str());
      close(file);
      return -1;
    }
    from += written;
    bytes -= static_cast<size_t>(written);
  }
  return file;
}

CUresult too_much_static_shared(unsigned bytes) {
  note_load_failure("STATIC_SHARED_TOO_LARGE", "uses too much shared data (" + std::to_string(bytes) + " bytes, " +
                                                   std::to_string(limits::SHARED_PER_BLOCK) + " max)");
  return CUDA_ERROR_INVALID_IMAGE;
}

CUresult load(const void* image, size_t bytes, LoadedModule& module) {
  make_own_symbols_global();
  const int file = write_temporary(module.path, image, bytes);
  if (file < 0) {
    note_load_failure("LOAD_FAILED", "cannot write the module to " + module.path + ": " + strerror(errno));
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  module.library = dlopen(module.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* problem = module.library ? nullptr : dlerror();
  unlink(module.path.c_str());
  if (!module.library) {
    close(file);
    note_load_failure("LOAD_FAILED", problem ? problem : "the dynamic linker refused the module");
    return CUDA_ERROR_INVALID_IMAGE;
  }
  module_files().add(module.path, file);
  const auto* info = static_cast<const Module*>(dlsym(module.library, "flashcore_emu_module"));
  if (!info || info->abi != FLASHCORE_EMULATOR_ABI) {
    note_load_failure("LOAD_FAILED", info ? "the module was compiled for another version of the emulator"
                                          : "the shared object is not an emulated module");
    return CUDA_ERROR_INVALID_IMAGE;
  }
  Dl_info where;
  dladdr(info, &where);
  module.info = info;
  module.base = where.dli_fbase;
  module.static_shared = static_cast<unsigned>(static_shared_of(module.library).bytes);
  return module.static_shared > limits::SHARED_PER_BLOCK ? too_much_static_shared(module.static_shared) : CUDA_SUCCESS;
}

CUresult load_ptx(const char* text, size_t bytes, LoadedModule& module) {
  try {
    module.program = std::make_unique<ptx::LoadedProgram>(std::string(text, bytes));
  } catch (const ptx::ProgramError& error) {
    note_load_failure("LOAD_FAILED", error.what(), CUDA_ERROR_INVALID_PTX, error.place);
    return CUDA_ERROR_INVALID_PTX;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_SUCCESS;
}

const Entry* find_entry(const LoadedModule& module, const char* name) {
  if (module.program) return module.program->entry(name);
  for (const Entry* entry = module.info->entries; entry; entry = entry->next)
    if (strcmp(entry->name, name) == 0) return entry;
  return nullptr;
}

/** Lowers an entry of PTX when it is looked up for the first time. */
CUresult lower_entry(LoadedModule& module, Function& function) {
  if (!module.program) return CUDA_SUCCESS;
  try {
    function.kernel = module.program->kernel(function.entry->name);
  } catch (const ptx::ProgramError& error) {
    note_load_failure("LOAD_FAILED", error.what(), CUDA_ERROR_INVALID_PTX, error.place);
    return CUDA_ERROR_INVALID_PTX;
  }
  function.static_shared = function.kernel->static_shared;
  return function.static_shared > limits::SHARED_PER_BLOCK ? too_much_static_shared(function.static_shared)
                                                           : CUDA_SUCCESS;
}

}  // namespace

LoadedModule::LoadedModule() = default;

LoadedModule::~LoadedModule() {
  if (!library) return;
  module_files().remove(path);
  dlclose(library);
}

int shared_limit(const Function& function) {
  const bool hopper = function.kernel && function.kernel->program->architecture() >= 90;
  return hopper ? limits::HOPPER_SHARED_PER_BLOCK_OPTIN : limits::SHARED_PER_BLOCK_OPTIN;
}

int max_threads(const Function& function) {
  const unsigned bound = function.kernel ? function.kernel->function->max_threads : 0;
  return bound ? static_cast<int>(bound) : limits::MAX_THREADS_PER_BLOCK;
}

std::shared_ptr<LoadedModule> module_of(CUfunction handle, Function** function) {
  const std::lock_guard<std::mutex> lock(functions_mutex);
  const auto found = module_by_function.find(handle);
  if (found == module_by_function.end()) return nullptr;
  std::shared_ptr<LoadedModule> module = found->second.lock();
  if (!module) {
    module_by_function.erase(found);
    return nullptr;
  }
  *function = reinterpret_cast<Function*>(handle);
  return module;
}

}  // namespace flashcore::emu

using namespace flashcore::emu;

FLASHCORE_DRIVER_API CUresult cuModuleLoadData(CUmodule* handle, const void* image) {
  FLASHCORE_REQUIRE(check_context());
  if (!handle || !image) return CUDA_ERROR_INVALID_VALUE;
  const Image found = inspect_image(image);
  if (found.kind == ImageKind::Unknown) return CUDA_ERROR_INVALID_IMAGE;
#if !FLASHCORE_PTX_ENGINE
  if (found.kind == ImageKind::Ptx) return CUDA_ERROR_INVALID_IMAGE;
#endif
  if (found.kind == ImageKind::OtherMachine) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  static std::atomic<uint64_t> serial{0};
  auto module = std::make_shared<LoadedModule>();
  module->serial = ++serial;
  FLASHCORE_REQUIRE(found.kind == ImageKind::Ptx ? load_ptx(static_cast<const char*>(image), found.bytes, *module)
                                                 : load(image, found.bytes, *module));
  *handle = modules().add(std::move(module));
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuModuleLoadDataEx(CUmodule* handle, const void* image, unsigned, int*, void**) {
  return cuModuleLoadData(handle, image);
}

/** A launch that is already waiting in a stream keeps the module loaded until it has run. */
FLASHCORE_DRIVER_API CUresult cuModuleUnload(CUmodule handle) {
  FLASHCORE_REQUIRE(check_context());
  return modules().remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

FLASHCORE_DRIVER_API CUresult cuModuleGetFunction(CUfunction* handle, CUmodule module_handle, const char* name) {
  FLASHCORE_REQUIRE(check_context());
  if (!handle || !name) return CUDA_ERROR_INVALID_VALUE;
  const auto module = modules().find(module_handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  const Entry* entry = find_entry(*module, name);
  if (!entry) return CUDA_ERROR_NOT_FOUND;
  const std::lock_guard<std::mutex> lock(functions_mutex);
  auto known = std::find_if(module->functions.begin(), module->functions.end(),
                            [&](const auto& f) { return f->entry == entry; });
  if (known == module->functions.end()) {
    Function function{entry, module.get(), 0, module->static_shared};
    FLASHCORE_REQUIRE(lower_entry(*module, function));
    function.max_dynamic_shared = limits::SHARED_PER_BLOCK - static_cast<int>(function.static_shared);
    known = module->functions.insert(known, std::make_unique<Function>(function));
  }
  *handle = reinterpret_cast<CUfunction>(known->get());
  module_by_function[*handle] = module;
  return CUDA_SUCCESS;
}

/** Finds `__device__` and `__constant__` variables of the global namespace that are not static. */
FLASHCORE_DRIVER_API CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule handle,
                                                   const char* name) {
  FLASHCORE_REQUIRE(check_context());
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  const auto module = modules().find(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (module->program) {
    CUdeviceptr found;
    size_t size;
    if (!module->program->find_variable(name, &found, &size)) return CUDA_ERROR_NOT_FOUND;
    if (address) *address = found;
    if (bytes) *bytes = size;
    return CUDA_SUCCESS;
  }
  void* variable = dlsym(module->library, name);
  if (!variable) return CUDA_ERROR_NOT_FOUND;
  if (address) *address = reinterpret_cast<CUdeviceptr>(variable);
  if (!bytes) return CUDA_SUCCESS;
#if defined(__linux__)
  Dl_info info;
  const ElfW(Sym)* symbol = nullptr;
  if (!dladdr1(variable, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) ||
      !symbol || info.dli_fbase != module->base)
    return CUDA_ERROR_NOT_FOUND;
  *bytes = symbol->st_size;
  return CUDA_SUCCESS;
#else
  return CUDA_ERROR_NOT_SUPPORTED;  // Mach-O keeps no sizes
#endif
}
