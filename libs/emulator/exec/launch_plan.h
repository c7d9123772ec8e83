#pragma once
#include <cstdint>

#include "../include/flashcore_emulator/abi.h"

namespace flashcore::emu::ptx {
struct Kernel;
class Profile;
class TraceLog;
}  // namespace flashcore::emu::ptx

namespace flashcore::emu {

/** Some blocks of a grid, or clusters where it has them: `count` of them from `first`, each `step` further. */
struct TracedBlocks {
  uint64_t first = 0, step = 1, count = 0;
  bool has(uint64_t block) const {
    return block >= first && (block - first) % step == 0 && (block - first) / step < count;
  }
};

/** All that the blocks of one launch have in common. */
struct LaunchPlan {
  const Entry* entry = nullptr;
  const char* packed_arguments = nullptr;
  dim3 grid;
  dim3 block;
  dim3 cluster = dim3(1, 1, 1);  // blocks that run side by side
  bool cooperative = false;      // all blocks of the grid run side by side
  unsigned resident = 1;         // blocks that a device of these limits would run at the same time
  uint64_t grid_workspace = 0;   // where grid.sync() counts; 0: the launch is not cooperative
  unsigned dynamic_shared_bytes = 0;
  const Module* module = nullptr;
  void* library = nullptr;      // the module's dlopen handle
  uint64_t module_serial = 0;         // never used twice, unlike the addresses
  const ptx::Kernel* kernel = nullptr;  // of a module of PTX; null: the entry is a function of this process
  uint64_t launch = 0;                  // counts launches of PTX, from 1
  ptx::Profile* profile = nullptr;      // where its counts go, if a profile is made
  ptx::TraceLog* trace = nullptr;       // where the steps of its blocks go, if they are written down
  TracedBlocks traced;                  // the only ones that run then
};

}  // namespace flashcore::emu
