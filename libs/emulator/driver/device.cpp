// The devices that the emulator presents: one L4 (sm_89), or FLASHCORE_EMULATOR_DEVICES of them.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../exec/device_memory.h"
#include "state.h"

using namespace flashcore::emu;

namespace {
bool initialised = false;

struct AttributeValue {
  int attribute;  // CUdevice_attribute
  int value;
};
constexpr AttributeValue ATTRIBUTES[] = {
    {1, limits::MAX_THREADS_PER_BLOCK},       // MAX_THREADS_PER_BLOCK
    {2, 1024},                                // MAX_BLOCK_DIM_X
    {3, 1024},                                // MAX_BLOCK_DIM_Y
    {4, 64},                                  // MAX_BLOCK_DIM_Z
    {5, 2147483647},                          // MAX_GRID_DIM_X
    {6, 65535},                               // MAX_GRID_DIM_Y
    {7, 65535},                               // MAX_GRID_DIM_Z
    {8, limits::SHARED_PER_BLOCK},            // MAX_SHARED_MEMORY_PER_BLOCK
    {9, 65536},                               // TOTAL_CONSTANT_MEMORY
    {10, 32},                                 // WARP_SIZE
    {12, 65536},                              // MAX_REGISTERS_PER_BLOCK
    {13, 2040000},                            // CLOCK_RATE, kHz
    {16, limits::MULTIPROCESSORS},            // MULTIPROCESSOR_COUNT
    {17, 0},                                  // KERNEL_EXEC_TIMEOUT
    {18, 0},                                  // INTEGRATED
    {19, 1},                                  // CAN_MAP_HOST_MEMORY
    {31, 0},                                  // CONCURRENT_KERNELS
    {32, 0},                                  // ECC_ENABLED
    {36, 6251000},                            // MEMORY_CLOCK_RATE, kHz
    {37, 192},                                // GLOBAL_MEMORY_BUS_WIDTH, bits
    {38, limits::L2_BYTES},                   // L2_CACHE_SIZE
    {39, limits::THREADS_PER_MULTIPROCESSOR}, // MAX_THREADS_PER_MULTIPROCESSOR
    {40, 1},                                  // ASYNC_ENGINE_COUNT
    {41, 1},                                  // UNIFIED_ADDRESSING
    {75, 8},                                  // COMPUTE_CAPABILITY_MAJOR
    {76, 9},                                  // COMPUTE_CAPABILITY_MINOR
    {81, limits::SHARED_PER_MULTIPROCESSOR},  // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
    {82, 65536},                              // MAX_REGISTERS_PER_MULTIPROCESSOR
    {83, 0},                                  // MANAGED_MEMORY
    {90, 0},                                  // COMPUTE_PREEMPTION_SUPPORTED
    {92, 1},                                  // CAN_USE_STREAM_MEM_OPS_V1
    {95, 0},                                  // COOPERATIVE_LAUNCH
    {97, limits::SHARED_PER_BLOCK_OPTIN},     // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    {106, limits::BLOCKS_PER_MULTIPROCESSOR}, // MAX_BLOCKS_PER_MULTIPROCESSOR
    {108, 0},                                 // MAX_PERSISTING_L2_CACHE_SIZE
    {109, 134213632},                         // MAX_ACCESS_POLICY_WINDOW_SIZE
    {111, limits::SHARED_RESERVED_PER_BLOCK}, // RESERVED_SHARED_MEMORY_PER_BLOCK
    {120, FLASHCORE_PTX_ENGINE},              // CLUSTER_LAUNCH: the PTX engine runs sm_90 code with clusters
    {123, 1},                                 // CAN_USE_STREAM_WAIT_VALUE_NOR
    {127, FLASHCORE_PTX_ENGINE},              // TENSOR_MAP_ACCESS_SUPPORTED
};
}  // namespace

namespace flashcore::emu {
CUresult check_initialised() { return initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED; }

int device_count() {
  const char* wanted = getenv("FLASHCORE_EMULATOR_DEVICES");
  const int count = wanted ? atoi(wanted) : 1;
  return count < 1 ? 1 : count > limits::MAX_DEVICES ? limits::MAX_DEVICES : count;
}

CUresult check_device(CUdevice device) {
  FLASHCORE_REQUIRE(check_initialised());
  return device >= 0 && device < device_count() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
}  // namespace flashcore::emu

FLASHCORE_DRIVER_API CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  initialised = true;
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuDriverGetVersion(int* version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = 13000;
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuDeviceGetCount(int* count) {
  FLASHCORE_REQUIRE(check_initialised());
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = device_count();
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  FLASHCORE_REQUIRE(check_device(ordinal));
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuDeviceGetName(char* name, int capacity, CUdevice device) {
  FLASHCORE_REQUIRE(check_device(device));
  if (!name || capacity <= 0) return CUDA_ERROR_INVALID_VALUE;
  snprintf(name, static_cast<size_t>(capacity), "flashcore CPU emulator (L4 limits)");
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  FLASHCORE_REQUIRE(check_device(device));
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  memcpy(uuid->bytes, "flashcore-cpu-00", 16);
  uuid->bytes[15] = static_cast<char>('1' + device);
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return cuDeviceGetUuid_v2(uuid, device);
}

FLASHCORE_DRIVER_API CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  FLASHCORE_REQUIRE(check_device(device));
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  size_t free_bytes;
  DeviceMemory::instance().total_and_free(bytes, &free_bytes);
  return CUDA_SUCCESS;
}

/** Unknown attributes return 0, as on a device without the feature. */
FLASHCORE_DRIVER_API CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
  FLASHCORE_REQUIRE(check_device(device));
  if (!value || attribute < 1 || attribute > 147) return CUDA_ERROR_INVALID_VALUE;
  *value = 0;
  for (const AttributeValue& known : ATTRIBUTES)
    if (known.attribute == attribute) *value = known.value;
  return CUDA_SUCCESS;
}
