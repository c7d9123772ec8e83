// A fault of a launch: the CUDA error that a GPU would return, with details that a GPU would not give.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "../driver/cuda_abi.h"
#include "../include/flashcore_emulator/abi.h"

namespace flashcore::emu {

struct WaitingThread {
  uint3 thread;
  std::string waits_at;
};

struct Fault {
  CUresult error = CUDA_ERROR_LAUNCH_FAILED;
  std::string kind;     // OUT_OF_BOUNDS, MISALIGNED_ADDRESS, DEADLOCK, RACE, TRAP, ASSERT, STACK_OVERFLOW …
  std::string message;  // one sentence with all details
  std::string entry;    // name of the kernel
  std::string place;    // file:line, or symbol+offset, of the faulting instruction
  uint3 block{};
  bool has_thread = false;
  uint3 thread{};
  int warp = -1;        // index within the block; -1 if unknown
  uint32_t lanes = 0;   // the lanes of this warp that are at fault
  bool has_address = false;
  uint64_t address = 0;
  std::string access;   // "read" or "write"
  unsigned bytes = 0;
  std::string buffer;
  const void* program_counter = nullptr;        // resolved to `place` when the fault is published
  const void* other_program_counter = nullptr;  // of a race's other thread; its place replaces "{other}"
  std::vector<WaitingThread> threads;           // waiting threads of the block (DEADLOCK), or both sides of a RACE
  size_t threads_total = 0;
};

std::string to_json(const Fault& fault);
std::string describe(const uint3& index);
/** Resolves a code address to file:line with addr2line if that is installed, else to symbol+offset. */
std::string describe_code_address(const void* program_counter);

/**
 * The files of loaded modules. They are unlinked right after loading, but stay open so that addr2line can read them.
 */
class ModuleFiles {
 public:
  void add(const std::string& path, int descriptor);
  void remove(const std::string& path);
  /** A path under which another process can read the module that was loaded from `path`. */
  std::string readable_path(const std::string& path);

 private:
  std::mutex mutex_;
  std::map<std::string, int> descriptors_;
};

ModuleFiles& module_files();

}  // namespace flashcore::emu
