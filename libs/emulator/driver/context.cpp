// The process's only context (the primary context of the first device that was retained), and how it ends.
#include <atomic>
#include <mutex>

#include "state.h"

using namespace flashcore::emu;

namespace {
char primary_context;  // only its address matters
std::atomic<int> retained{0};
std::atomic<int> context_device{0};
thread_local bool current = false;
std::mutex fault_mutex;
std::string fault_json;

CUcontext handle() { return reinterpret_cast<CUcontext>(&primary_context); }
}  // namespace

namespace flashcore::emu {

CUresult check_context() {
  FLASHCORE_REQUIRE(check_initialised());
  if (!current || retained.load() == 0) return CUDA_ERROR_INVALID_CONTEXT;
  return Queue::instance().sticky_error();
}

void set_last_fault(std::string json) {
  const std::lock_guard<std::mutex> lock(fault_mutex);
  fault_json = std::move(json);
}

std::string last_fault() {
  const std::lock_guard<std::mutex> lock(fault_mutex);
  return fault_json;
}

}  // namespace flashcore::emu

FLASHCORE_DRIVER_API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  FLASHCORE_REQUIRE(check_device(device));
  if (!context) return CUDA_ERROR_INVALID_VALUE;
    // All devices share this process's memory and its one queue, so using a second device needs a second process.
  if (retained.load() > 0 && context_device.load() != device) return CUDA_ERROR_NOT_SUPPORTED;
  context_device = device;
  ++retained;
  *context = handle();
  return CUDA_SUCCESS;
}

/** The last release ends the context and clears its error. */
FLASHCORE_DRIVER_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  FLASHCORE_REQUIRE(check_device(device));
  if (device != context_device.load()) return CUDA_ERROR_INVALID_CONTEXT;
  if (retained.load() == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--retained == 0) {
    Queue::instance().wait_until_all_idle();
    Queue::instance().clear_sticky_error();
  }
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  FLASHCORE_REQUIRE(check_device(device));
  Queue::instance().wait_until_all_idle();
  Queue::instance().clear_sticky_error();
  set_last_fault("");
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuCtxSetCurrent(CUcontext context) {
  FLASHCORE_REQUIRE(check_initialised());
  if (context && context != handle()) return CUDA_ERROR_INVALID_CONTEXT;
  current = context != nullptr;
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuCtxGetCurrent(CUcontext* context) {
  FLASHCORE_REQUIRE(check_initialised());
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  *context = current ? handle() : nullptr;
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuCtxGetDevice(CUdevice* device) {
  FLASHCORE_REQUIRE(check_context());
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = context_device.load();
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuCtxSynchronize() {
  FLASHCORE_REQUIRE(check_context());
  Queue::instance().wait_until_all_idle();
  return Queue::instance().sticky_error();
}

/** Accepts every limit without effect, because the emulator has its own stack and printf buffer. */
FLASHCORE_DRIVER_API CUresult cuCtxSetLimit(int limit, size_t) {
  FLASHCORE_REQUIRE(check_context());
  return limit >= 0 && limit <= 8 ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}

FLASHCORE_DRIVER_API CUresult cuCtxResetPersistingL2Cache() { return check_context(); }
