// What every call checks first: initialised, a current context, and that no fault has ended it.
#pragma once
#include <string>
#include <vector>

#include "../exec/launch_plan.h"
#include "cuda_abi.h"
#include "queue.h"

namespace flashcore::emu {

CUresult check_initialised();
/** As above, and there is such a device. */
CUresult check_device(CUdevice device);
/** One, or FLASHCORE_EMULATOR_DEVICES (up to MAX_DEVICES). */
int device_count();
/** As above, and a context is current to this thread, and it has not ended by a fault. */
CUresult check_context();

/** What flashcore_emulator_last_fault answers: one JSON object, or empty. */
void set_last_fault(std::string json);
std::string last_fault();

/** Whether launches of PTX are counted, and what flashcore_emulator_profile answers of those that were. */
bool profiling();
void add_profile(const std::string& json);
/** The blocks that launches are traced of; none: launches are not traced. */
TracedBlocks traced_blocks();
void add_trace(const std::vector<uint32_t>& words);

}  // namespace flashcore::emu

#define FLASHCORE_REQUIRE(check)                     \
  do {                                               \
    const CUresult required_ = (check);              \
    if (required_ != CUDA_SUCCESS) return required_; \
  } while (0)
