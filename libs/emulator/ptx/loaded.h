// A module of PTX: its program, its variables in device memory, and the entries that can be launched.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "../driver/cuda_abi.h"
#include "../include/flashcore_emulator/abi.h"
#include "lower.h"

namespace flashcore::emu::ptx {

class LoadedProgram {
 public:
  /** Errors: ProgramError; std::bad_alloc if the module's variables do not fit into device memory. */
  explicit LoadedProgram(const std::string& text);
  ~LoadedProgram();
  LoadedProgram(const LoadedProgram&) = delete;

  /** The entry with this name; null if the module has no such entry. Errors: ProgramError. */
  const Kernel* kernel(const std::string& name);
  const Entry* entry(const std::string& name) const;
  /** False if the module has no such variable. */
  bool find_variable(const std::string& name, CUdeviceptr* address, size_t* bytes) const;

 private:
  struct EntryData {
    Entry entry{};
    std::vector<unsigned> sizes, offsets;
  };
  const Function* function(const std::string& name) const;
  void relocate(const Variable& variable);

  Program program_;
  Addresses addresses_;
  std::vector<CUdeviceptr> allocations_;
  std::vector<std::unique_ptr<EntryData>> entries_;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_;
};

}  // namespace flashcore::emu::ptx
