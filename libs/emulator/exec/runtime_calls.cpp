// The calls that kernels make (include/flashcore_emulator/abi.h). The block of the running fibre handles them.
#include <chrono>
#include <cstring>
#include <string>

#include "block.h"
#include "device_memory.h"

using namespace flashcore::emu;

#define FLASHCORE_EXPORT extern "C" __attribute__((visibility("default")))

FLASHCORE_EXPORT unsigned flashcore_emu_active_mask(void) { return current_block().active_mask(); }

FLASHCORE_EXPORT void flashcore_emu_yield(void) { current_block().yield(); }

FLASHCORE_EXPORT void flashcore_emu_fault(const char* kind, const char* message) {
  const Fibre* fibre = current_fibre();
  Fault fault;
  fault.kind = kind;
  if (fault.kind == "ASSERT") fault.error = CUDA_ERROR_ASSERT;
  fault.program_counter = __builtin_return_address(0);
  fault.message =
      "thread " + describe(fibre->thread_index) + " of block " + describe(fibre->block_index) + ": " + message;
  current_block().fail(std::move(fault));
}

FLASHCORE_EXPORT unsigned flashcore_emu_shared_address(const void* pointer) {
  return current_block().shared().address_of(pointer);
}

FLASHCORE_EXPORT void* flashcore_emu_shared_pointer(unsigned address) {
  return current_block().shared().pointer_to(address);
}

FLASHCORE_EXPORT unsigned long long flashcore_emu_nanoseconds(void) {
  return static_cast<unsigned long long>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

FLASHCORE_EXPORT void flashcore_emu_misaligned(const void* address, unsigned alignment, int is_write) {
  if (!flashcore_emu_thread) __builtin_trap();  // the emulator's host code never gets here
  const Fibre* fibre = current_fibre();
  const SharedMemory& shared = current_block().shared();
  Fault fault;
  fault.error = CUDA_ERROR_MISALIGNED_ADDRESS;
  fault.kind = "MISALIGNED_ADDRESS";
  fault.has_address = true;
  fault.address = reinterpret_cast<uint64_t>(address);
  fault.access = is_write ? "write" : "read";
  fault.bytes = alignment;
  fault.program_counter = __builtin_return_address(0);
  fault.buffer = shared.contains(address) ? "shared memory" : DeviceMemory::instance().describe(fault.address);
  fault.message = "thread " + describe(fibre->thread_index) + " of block " + describe(fibre->block_index) +
                  (is_write ? " wrote " : " read ") + std::to_string(alignment) + " bytes at an address that is " +
                  std::to_string(fault.address % alignment) + " past a multiple of " + std::to_string(alignment) +
                  (fault.buffer.empty() ? "" : ", " + fault.buffer);
  current_block().fail(std::move(fault));
}
