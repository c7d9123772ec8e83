// Functions that the emulator exports in addition to the driver API. Callers detect the emulator by their presence.
#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

#include "../exec/device_memory.h"
#include "../exec/grid.h"
#include "../ptx/races.h"
#include "state.h"

using namespace flashcore::emu;

namespace {
std::atomic<bool> counting{false};
std::mutex profile_mutex;
std::string profiles;  // JSON of each launch since counting was turned on, separated by commas
TracedBlocks traced;
std::vector<uint32_t> traces;  // traces of the same launches, one after another

/** Copies as much of the text as fits, with a terminating 0. Returns the length of the whole text. */
int copy_out(const std::string& text, char* out, size_t capacity) {
  if (out && capacity > 0) {
    const size_t bytes = text.size() < capacity ? text.size() : capacity - 1;
    memcpy(out, text.data(), bytes);
    out[bytes] = 0;
  }
  return static_cast<int>(text.size());
}
}  // namespace

namespace flashcore::emu {

bool profiling() { return counting; }

void add_profile(const std::string& json) {
  const std::lock_guard<std::mutex> lock(profile_mutex);
  profiles += (profiles.empty() ? "" : ",") + json;
}

TracedBlocks traced_blocks() {
  const std::lock_guard<std::mutex> lock(profile_mutex);
  return traced;
}

void add_trace(const std::vector<uint32_t>& words) {
  const std::lock_guard<std::mutex> lock(profile_mutex);
  traces.insert(traces.end(), words.begin(), words.end());
}

}  // namespace flashcore::emu

/** Turns the counting of PTX launches on or off and drops earlier counts. Counted launches are several times slower. */
FLASHCORE_DRIVER_API int flashcore_emulator_set_profiling(int on) {
  const std::lock_guard<std::mutex> lock(profile_mutex);
  counting = on != 0;
  profiles.clear();
  traced = TracedBlocks();
  traces.clear();
  return 0;
}

/**
 * While counting is on, runs and traces only `count` blocks (or clusters) of each launch: every `step`th one, starting
 * with `first`. The next call of flashcore_emulator_set_profiling ends this.
 */
FLASHCORE_DRIVER_API int flashcore_emulator_trace_blocks(uint64_t first, uint64_t step, uint64_t count) {
  if (step == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> lock(profile_mutex);
  traced = {first, step, count};
  return 0;
}

/** Copies as many bytes of the traces (ptx/trace.h) as fit. Returns the number of bytes available, at most INT_MAX. */
FLASHCORE_DRIVER_API int flashcore_emulator_trace(void* out, uint64_t capacity) {
  const std::lock_guard<std::mutex> lock(profile_mutex);
  const size_t bytes = traces.size() * sizeof traces[0];
  if (out) memcpy(out, traces.data(), bytes < capacity ? bytes : capacity);
  return static_cast<int>(std::min<size_t>(bytes, INT_MAX));
}

/** Writes one JSON array with the counts of each launch that has succeeded since counting was turned on, in order. */
FLASHCORE_DRIVER_API int flashcore_emulator_profile(char* json, size_t capacity) {
  const std::lock_guard<std::mutex> lock(profile_mutex);
  return copy_out("[" + profiles + "]", json, capacity);
}

/**
 * Marks a range of device memory for PTX kernels. 1: the guard at the start of an allocation; a kernel that touches it
 * faults. 2: memory that counts as unwritten, whatever its bytes. 3: a workspace, into which a kernel may store unwritten
 * values, such as the padding of a struct, if they reach no branch, address or other memory. Only runs that look for
 * races check 2 and 3.
 */
FLASHCORE_DRIVER_API int flashcore_emulator_mark_memory(CUdeviceptr address, uint64_t bytes, int what) {
  if (what == 1) DeviceMemory::instance().hide_start(address, bytes);
  if (what == 2) ptx::GlobalShadow::instance().mark_unwritten(address, bytes);
  if (what == 3) ptx::GlobalShadow::instance().mark_workspace(address, bytes);
  return what >= 1 && what <= 3 ? 0 : CUDA_ERROR_INVALID_VALUE;
}

/**
 * Writes the latest fault as one JSON object, which flashcore_emulator_clear_fault clears. Returns 0 if there was none.
 */
FLASHCORE_DRIVER_API int flashcore_emulator_last_fault(char* json, size_t capacity) {
  return copy_out(last_fault(), json, capacity);
}

FLASHCORE_DRIVER_API void flashcore_emulator_clear_fault() { set_last_fault(""); }

/**
 * Sets the time limit of later launches. A longer launch ends with CUDA_ERROR_LAUNCH_TIMEOUT and a fault. 0 means no
 * limit.
 */
FLASHCORE_DRIVER_API int flashcore_emulator_time_limit(uint64_t milliseconds) {
  set_time_limit(milliseconds);
  return 0;
}

/** Also limits, in milliseconds, how long a launch of PTX may go on without beginning another block; 0: no limit. */
FLASHCORE_DRIVER_API int flashcore_emulator_stall_limit(uint64_t milliseconds) {
  set_stall_limit(milliseconds);
  return 0;
}

/** Sets the number of blocks that have begun since the library was loaded, also while a launch runs. */
FLASHCORE_DRIVER_API int flashcore_emulator_blocks_begun(uint64_t* count) {
  *count = blocks_begun();
  return 0;
}

/** Writes counts since the library was loaded, as one JSON object. */
FLASHCORE_DRIVER_API int flashcore_emulator_statistics(char* json, size_t capacity) {
  const GridStatistics statistics = grid_statistics();
  char text[512];
  snprintf(
      text, sizeof text,
      "{\"launches\":%llu,\"blocks\":%llu,\"thread_switches\":%llu,\"barriers\":%llu,\"warp_meetings\":%llu,"
      "\"host_seconds\":%.6f,\"workers\":%u}",
      static_cast<unsigned long long>(statistics.launches), static_cast<unsigned long long>(statistics.counters.blocks),
      static_cast<unsigned long long>(statistics.counters.thread_switches),
      static_cast<unsigned long long>(statistics.counters.barriers),
      static_cast<unsigned long long>(statistics.counters.warp_meetings), statistics.host_seconds, statistics.workers);
  return copy_out(text, json, capacity);
}
