// The checks that every call makes first (the driver is initialized, a context is current, and no fault has ended it),
// and the state that all calls share.
#pragma once
#include <string>
#include <vector>

#include "../exec/launch_plan.h"
#include "cuda_abi.h"
#include "queue.h"

namespace flashcore::emu {

/**
 * Limits of an L4 (compute capability 8.9; CUDA C++ Programming Guide, "Technical Specifications per Compute
 * Capability").
 */
namespace limits {
constexpr int MAX_DEVICES = 8;
constexpr int MULTIPROCESSORS = 58;
constexpr int MAX_THREADS_PER_BLOCK = 1024;
constexpr int THREADS_PER_MULTIPROCESSOR = 1536;
constexpr int BLOCKS_PER_MULTIPROCESSOR = 24;
constexpr int SHARED_PER_BLOCK = 48 * 1024;
constexpr int SHARED_PER_BLOCK_OPTIN = 99 * 1024;
constexpr int HOPPER_SHARED_PER_BLOCK_OPTIN = 227 * 1024;  // compute capability 9.0
constexpr int SHARED_PER_MULTIPROCESSOR = 100 * 1024;
constexpr int SHARED_RESERVED_PER_BLOCK = 1024;
constexpr int L2_BYTES = 48 * 1024 * 1024;
}  // namespace limits

CUresult check_initialised();
/** Checks that the driver is initialized and that the device exists. */
CUresult check_device(CUdevice device);
/** Number of devices: one, or FLASHCORE_EMULATOR_DEVICES (up to MAX_DEVICES). */
int device_count();
/** Checks that the driver is initialized, that a context is current on this thread, and that no fault has ended it. */
CUresult check_context();

/** Sets the fault that flashcore_emulator_last_fault returns: one JSON object, or empty. */
void set_last_fault(std::string json);
std::string last_fault();

/** True while PTX launches are counted; flashcore_emulator_profile returns the counts. */
bool profiling();
void add_profile(const std::string& json);
/** Which blocks of each launch to trace; none if launches are not traced. */
TracedBlocks traced_blocks();
void add_trace(const std::vector<uint32_t>& words);

}  // namespace flashcore::emu

#define FLASHCORE_REQUIRE(check)                     \
  do {                                               \
    const CUresult required_ = (check);              \
    if (required_ != CUDA_SUCCESS) return required_; \
  } while (0)
