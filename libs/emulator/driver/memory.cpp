// Device memory, pinned host memory, copies and fills.
#include <sys/mman.h>

#include <cstring>
#include <map>

#include "../exec/device_memory.h"
#include "../ptx/races.h"
#include "host_memory.h"
#include "state.h"

using namespace flashcore::emu;

namespace {

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

/** True if the device may touch the range: device memory or pinned host memory. */
bool is_accessible(CUdeviceptr address, size_t bytes) {
  return DeviceMemory::instance().covers(address, bytes) || HostMemory::instance().covers(pointer(address), bytes);
}

Operation copy_operation(void* destination, const void* source, size_t bytes) {
  Operation operation;
  operation.run = [=] {
    memmove(destination, source, bytes);
    return CUDA_SUCCESS;
  };
  return operation;
}

enum class Wait { No, Yes };

template <class T>
struct Fill {
  CUdeviceptr address;
  T value;
  size_t count;
};

template <class T>
CUresult fill(const Fill<T>& what, CUstream handle, Wait wait) {
  const CUdeviceptr address = what.address;
  const T value = what.value;
  const size_t count = what.count;
  FLASHCORE_REQUIRE(check_context());
  const auto stream = Queue::instance().stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (count == 0) return CUDA_SUCCESS;
  if (address % sizeof(T) || !is_accessible(address, count * sizeof(T))) return CUDA_ERROR_INVALID_VALUE;
  ptx::GlobalShadow::instance().note_written(address, count * sizeof(T));
  Operation operation;
  operation.run = [=] {
    T* to = static_cast<T*>(pointer(address));
    for (size_t i = 0; i < count; ++i) to[i] = value;
    return CUDA_SUCCESS;
  };
  return wait == Wait::Yes ? Queue::instance().submit_and_wait(stream, std::move(operation))
                           : Queue::instance().submit(stream, std::move(operation));
}

struct Copy {
  void* destination;
  const void* source;
  size_t bytes;
};

CUresult copy(const Copy& what, CUstream handle, Wait wait) {
  const auto stream = Queue::instance().stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  Operation operation = copy_operation(what.destination, what.source, what.bytes);
  return wait == Wait::Yes ? Queue::instance().submit_and_wait(stream, std::move(operation))
                           : Queue::instance().submit(stream, std::move(operation));
}

}  // namespace

FLASHCORE_DRIVER_API CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  FLASHCORE_REQUIRE(check_context());
  return DeviceMemory::instance().allocate(address, bytes);
}

FLASHCORE_DRIVER_API CUresult cuMemFree_v2(CUdeviceptr address) {
  FLASHCORE_REQUIRE(check_context());
  if (!address) return CUDA_SUCCESS;
  Queue::instance().wait_until_all_idle();
  FLASHCORE_REQUIRE(Queue::instance().sticky_error());
  ptx::GlobalShadow::instance().forget(address);
  return DeviceMemory::instance().release(address);
}

FLASHCORE_DRIVER_API CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  FLASHCORE_REQUIRE(check_context());
  if (!free_bytes || !total) return CUDA_ERROR_INVALID_VALUE;
  DeviceMemory::instance().total_and_free(total, free_bytes);
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  FLASHCORE_REQUIRE(check_context());
  CUdeviceptr found;
  size_t size;
  if (!DeviceMemory::instance().find(address, &found, &size)) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = found;
  if (bytes) *bytes = size;
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  FLASHCORE_REQUIRE(check_context());
  if (!address || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  *address = HostMemory::instance().allocate(bytes);
  return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

FLASHCORE_DRIVER_API CUresult cuMemAllocHost_v2(void** address, size_t bytes) {
  return cuMemHostAlloc(address, bytes, 0);
}

FLASHCORE_DRIVER_API CUresult cuMemFreeHost(void* address) {
  FLASHCORE_REQUIRE(check_context());
  Queue::instance().wait_until_all_idle();
  return HostMemory::instance().release(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FLASHCORE_DRIVER_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host, unsigned flags) {
  FLASHCORE_REQUIRE(check_context());
  if (!device || flags != 0 || !HostMemory::instance().covers(host, 1)) return CUDA_ERROR_INVALID_VALUE;
  *device = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

FLASHCORE_DRIVER_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  FLASHCORE_REQUIRE(check_context());
  if (bytes == 0) return CUDA_SUCCESS;
  if (!from || !is_accessible(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  ptx::GlobalShadow::instance().note_written(to, bytes);
  if (HostMemory::instance().covers(from, bytes)) return copy({pointer(to), from, bytes}, stream, Wait::No);
    // The host may free pageable memory before the stream gets to this copy, so stage it now, as the driver does.
  const auto target = Queue::instance().stream(stream);
  if (!target) return CUDA_ERROR_INVALID_HANDLE;
  auto staged =
      std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
  Operation operation;
  operation.run = [=] {
    memcpy(pointer(to), staged->data(), bytes);
    return CUDA_SUCCESS;
  };
  return Queue::instance().submit(target, std::move(operation));
}

FLASHCORE_DRIVER_API CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  FLASHCORE_REQUIRE(check_context());
  if (bytes == 0) return CUDA_SUCCESS;
  if (!to || !is_accessible(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const Wait wait = HostMemory::instance().covers(to, bytes) ? Wait::No : Wait::Yes;
  return copy({to, pointer(from), bytes}, stream, wait);
}

FLASHCORE_DRIVER_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  FLASHCORE_REQUIRE(check_context());
  if (bytes == 0) return CUDA_SUCCESS;
  if (!is_accessible(to, bytes) || !is_accessible(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  ptx::GlobalShadow::instance().note_written(to, bytes);
  return copy({pointer(to), pointer(from), bytes}, stream, Wait::No);
}

FLASHCORE_DRIVER_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  FLASHCORE_REQUIRE(check_context());
  if (bytes == 0) return CUDA_SUCCESS;
  if (!from || !is_accessible(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  ptx::GlobalShadow::instance().note_written(to, bytes);
  return copy({pointer(to), from, bytes}, nullptr, Wait::Yes);
}

FLASHCORE_DRIVER_API CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  FLASHCORE_REQUIRE(check_context());
  if (bytes == 0) return CUDA_SUCCESS;
  if (!to || !is_accessible(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return copy({to, pointer(from), bytes}, nullptr, Wait::Yes);
}

FLASHCORE_DRIVER_API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  FLASHCORE_REQUIRE(check_context());
  if (bytes == 0) return CUDA_SUCCESS;
  if (!is_accessible(to, bytes) || !is_accessible(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  ptx::GlobalShadow::instance().note_written(to, bytes);
  return copy({pointer(to), pointer(from), bytes}, nullptr, Wait::Yes);
}

FLASHCORE_DRIVER_API CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return fill(Fill<decltype(value)>{to, value, count}, nullptr, Wait::Yes);
}
FLASHCORE_DRIVER_API CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return fill(Fill<decltype(value)>{to, value, count}, nullptr, Wait::Yes);
}
FLASHCORE_DRIVER_API CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
  return fill(Fill<decltype(value)>{to, value, count}, nullptr, Wait::Yes);
}
FLASHCORE_DRIVER_API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return fill(Fill<decltype(value)>{to, value, count}, stream, Wait::No);
}
FLASHCORE_DRIVER_API CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return fill(Fill<decltype(value)>{to, value, count}, stream, Wait::No);
}
FLASHCORE_DRIVER_API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return fill(Fill<decltype(value)>{to, value, count}, stream, Wait::No);
}

/**
 * Supports only the attributes memory type (MEMORY_TYPE 2) and bounds of the allocation (RANGE_START_ADDR 11,
 * RANGE_SIZE 12).
 */
FLASHCORE_DRIVER_API CUresult cuPointerGetAttribute(void* data, int attribute, CUdeviceptr address) {
  FLASHCORE_REQUIRE(check_context());
  if (!data) return CUDA_ERROR_INVALID_VALUE;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  const bool on_device = DeviceMemory::instance().find(address, &base, &bytes);
  const bool on_host = !on_device && HostMemory::instance().covers(pointer(address), 1);
  if (!on_device && !on_host) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case 2: *static_cast<unsigned*>(data) = on_device ? 2 : 1; return CUDA_SUCCESS;
    case 3: *static_cast<CUdeviceptr*>(data) = address; return CUDA_SUCCESS;
    case 9: *static_cast<int*>(data) = 0; return CUDA_SUCCESS;
    case 11:
      if (!on_device) break;
      *static_cast<CUdeviceptr*>(data) = base;
      return CUDA_SUCCESS;
    case 12:
      if (!on_device) break;
      *static_cast<size_t*>(data) = bytes;
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

// --- waiting for and writing a 32-bit value in stream order --------------------------------------------------------

FLASHCORE_DRIVER_API CUresult cuStreamWaitValue32_v2(CUstream handle, CUdeviceptr address, uint32_t value,
                                                     unsigned flags) {
  FLASHCORE_REQUIRE(check_context());
  const auto stream = Queue::instance().stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (address % 4 || !is_accessible(address, 4)) return CUDA_ERROR_INVALID_VALUE;
  const unsigned comparison = flags & 3;  // CU_STREAM_WAIT_VALUE_GEQ, EQ, AND, NOR
  Operation operation;
  operation.ready = [=] {
    const uint32_t now = __atomic_load_n(static_cast<const uint32_t*>(pointer(address)), __ATOMIC_ACQUIRE);
    if (comparison == 0) return static_cast<int32_t>(now - value) >= 0;
    if (comparison == 1) return now == value;
    if (comparison == 2) return (now & value) != 0;
    return ~(now | value) != 0;
  };
  operation.run = [] { return CUDA_SUCCESS; };
  return Queue::instance().submit(stream, std::move(operation));
}

FLASHCORE_DRIVER_API CUresult cuStreamWriteValue32_v2(CUstream handle, CUdeviceptr address, uint32_t value, unsigned) {
  FLASHCORE_REQUIRE(check_context());
  const auto stream = Queue::instance().stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (address % 4 || !is_accessible(address, 4)) return CUDA_ERROR_INVALID_VALUE;
  Operation operation;
  operation.run = [=] {
    __atomic_store_n(static_cast<uint32_t*>(pointer(address)), value, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
  };
  return Queue::instance().submit(stream, std::move(operation));
}
