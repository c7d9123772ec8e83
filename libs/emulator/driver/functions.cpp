// Attributes of functions, and the occupancy that follows from them.
#include <algorithm>

#include "module.h"
#include "state.h"

using namespace flashcore::emu;

namespace {
// Values of CUfunction_attribute
constexpr int MAX_THREADS_PER_BLOCK = 0;
constexpr int SHARED_SIZE_BYTES = 1;
constexpr int BINARY_VERSION = 6;
constexpr int MAX_DYNAMIC_SHARED_SIZE_BYTES = 8;
constexpr int LAST_ATTRIBUTE = 15;
}  // namespace

/** Registers and local memory depend on a GPU's compiler, so the emulator reports 0 for both. */
FLASHCORE_DRIVER_API CUresult cuFuncGetAttribute(int* value, int attribute, CUfunction handle) {
  FLASHCORE_REQUIRE(check_context());
  if (!value || attribute < 0 || attribute > LAST_ATTRIBUTE) return CUDA_ERROR_INVALID_VALUE;
  Function* function;
  const auto module = module_of(handle, &function);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  switch (attribute) {
    case MAX_THREADS_PER_BLOCK: *value = max_threads(*function); break;
    case SHARED_SIZE_BYTES: *value = static_cast<int>(function->static_shared); break;
    case BINARY_VERSION: *value = 89; break;
    case MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = function->max_dynamic_shared; break;
    default: *value = 0;
  }
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuFuncSetAttribute(CUfunction handle, int attribute, int value) {
  FLASHCORE_REQUIRE(check_context());
  Function* function;
  const auto module = module_of(handle, &function);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute < MAX_DYNAMIC_SHARED_SIZE_BYTES || attribute > LAST_ATTRIBUTE) return CUDA_ERROR_INVALID_VALUE;
  if (attribute != MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;  // carve-out and the like have no effect
  if (value < 0 || value + static_cast<int>(function->static_shared) > shared_limit(*function))
    return CUDA_ERROR_INVALID_VALUE;
  function->max_dynamic_shared = value;
  return CUDA_SUCCESS;
}

int flashcore::emu::resident_blocks(const Function& function, int block_size, size_t dynamic_bytes) {
  const int threads = (block_size + 31) / 32 * 32;
  const size_t shared = (function.static_shared + dynamic_bytes + 127) / 128 * 128 + limits::SHARED_RESERVED_PER_BLOCK;
  const int by_shared = static_cast<int>(limits::SHARED_PER_MULTIPROCESSOR / shared);
  return std::min({limits::BLOCKS_PER_MULTIPROCESSOR, limits::THREADS_PER_MULTIPROCESSOR / threads, by_shared});
}

FLASHCORE_DRIVER_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction handle,
                                                                          int block_size, size_t dynamic_bytes) {
  FLASHCORE_REQUIRE(check_context());
  Function* function;
  const auto module = module_of(handle, &function);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (!blocks || block_size < 1 || block_size > limits::MAX_THREADS_PER_BLOCK) return CUDA_ERROR_INVALID_VALUE;
  const bool fits = static_cast<int64_t>(dynamic_bytes) <= function->max_dynamic_shared;
  *blocks = fits ? resident_blocks(*function, block_size, dynamic_bytes) : 0;
  return CUDA_SUCCESS;
}
