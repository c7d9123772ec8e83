#include <string>

#include "block.h"
#include "device_memory.h"

using namespace flashcore::emu;

extern "C" __attribute__((visibility("default"))) void flashcore_emu_misaligned(const void* address, unsigned alignment,
                                                                                int is_write) {
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
