// A launch as its blocks see it, and the output that they print.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "../include/flashcore_emulator/abi.h"

namespace flashcore::emu::ptx {
struct Kernel;
class Profile;
class TraceLog;
}  // namespace flashcore::emu::ptx

namespace flashcore::emu {

/** Selects blocks of a grid (or clusters): `count` of them from `first` in steps of `step`. */
struct TracedBlocks {
  uint64_t first = 0, step = 1, count = 0;
  bool has(uint64_t block) const {
    return block >= first && (block - first) % step == 0 && (block - first) / step < count;
  }
};

/** Everything that the blocks of a launch share. */
struct LaunchPlan {
  const Entry* entry = nullptr;
  const char* packed_arguments = nullptr;
  dim3 grid;
  dim3 block;
  dim3 cluster = dim3(1, 1, 1);  // size of a cluster in blocks
  bool cooperative = false;      // all blocks of the grid must run concurrently
  bool programmatic = false;     // a GPU may start it before the previous launch has ended
  unsigned resident = 1;         // number of blocks that a device with these limits runs at the same time
  uint64_t grid_workspace = 0;  // address of the word in which grid.sync() counts; 0 if the launch is not cooperative
  unsigned dynamic_shared_bytes = 0;
  const Module* module = nullptr;
  void* library = nullptr;  // the module's dlopen handle
  uint64_t module_serial = 0;  // never reused, unlike addresses
  const ptx::Kernel* kernel = nullptr;  // null unless the module is PTX; then the entry is a function of this process
  uint64_t launch = 0;  // the number of this PTX launch, counted from 1
  ptx::Profile* profile = nullptr;  // null unless launches are counted
  ptx::TraceLog* trace = nullptr;  // null unless launches are traced
  TracedBlocks traced;  // if tracing, only these blocks run
};

/** Writes the kernels' collected output to stdout; called after each launch. */
void flush_device_printf();

/** The most output of one launch that a GPU keeps. A single conversion is cut to this size too. */
constexpr size_t PRINTF_BUFFER_BYTES = 1 << 20;

/** Collects a text, which may contain zeros, until the launch has ended. */
void collect_printf(const std::string& text);

}  // namespace flashcore::emu
