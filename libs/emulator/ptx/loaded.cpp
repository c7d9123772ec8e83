#include "loaded.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "../exec/device_memory.h"
#include "passes.h"

namespace flashcore::emu::ptx {

LoadedProgram::LoadedProgram(const std::string& text) : program_(parse(text)) {
  for (const Variable& variable : program_.globals) {
    if (variable.bytes == 0) continue;
    CUdeviceptr address;
    if (DeviceMemory::instance().allocate(&address, variable.bytes) != CUDA_SUCCESS) throw std::bad_alloc();
    allocations_.push_back(address);
    DeviceMemory::instance().name(address, "__device__ " + variable.name);
    char* bytes = reinterpret_cast<char*>(address);
    memset(bytes, 0, variable.bytes);
    memcpy(bytes, variable.initial.data(), std::min<size_t>(variable.initial.size(), variable.bytes));
    addresses_[variable.name] = address;
  }
  for (size_t n = 0; n < program_.callable.size(); ++n) addresses_[program_.callable[n].name] = function_address(n);
  for (const Variable& variable : program_.globals) relocate(variable);
  for (const Function& function : program_.functions) {
    auto data = std::make_unique<EntryData>();
    for (const Parameter& parameter : function.parameters) {
      data->sizes.push_back(parameter.bytes);
      data->offsets.push_back(parameter.offset);
    }
    data->entry.name = function.name.c_str();
    data->entry.parameter_count = static_cast<unsigned>(function.parameters.size());
    data->entry.parameter_sizes = data->sizes.data();
    data->entry.parameter_offsets = data->offsets.data();
    data->entry.packed_bytes = function.parameter_bytes;
    entries_.push_back(std::move(data));
  }
}

/**
 * Writes the addresses in a variable's initial value. A symbol that the module lacks gets address 0, so a kernel that
 * uses it gets a finding.
 */
void LoadedProgram::relocate(const Variable& variable) {
  for (const Relocation& relocation : variable.relocations) {
    const auto found = addresses_.find(relocation.name);
    const unsigned bytes = std::min(relocation.bytes, 8u);
    if (found == addresses_.end() || relocation.at + bytes > variable.bytes) continue;
    const uint64_t value = (found->second + static_cast<uint64_t>(relocation.offset)) >> relocation.shift;
    memcpy(reinterpret_cast<char*>(addresses_.at(variable.name)) + relocation.at, &value, bytes);
  }
}

LoadedProgram::~LoadedProgram() {
  for (const CUdeviceptr address : allocations_) DeviceMemory::instance().release(address);
}

const Function* LoadedProgram::function(const std::string& name) const {
  for (const Function& each : program_.functions)
    if (each.name == name) return &each;
  return nullptr;
}

const Kernel* LoadedProgram::kernel(const std::string& name) {
  const Function* found = function(name);
  if (!found) return nullptr;
  std::unique_ptr<Kernel>& kernel = kernels_[name];
  if (!kernel) kernel = lower(program_, *found, addresses_);
  return kernel.get();
}

const Entry* LoadedProgram::entry(const std::string& name) const {
  for (const auto& each : entries_)
    if (name == each->entry.name) return &each->entry;
  return nullptr;
}

bool LoadedProgram::find_variable(const std::string& name, CUdeviceptr* address, size_t* bytes) const {
  for (const Variable& variable : program_.globals) {
    if (variable.name != name) continue;
    const auto found = addresses_.find(name);
    if (found == addresses_.end()) return false;
    *address = found->second;
    *bytes = variable.bytes;
    return true;
  }
  return false;
}

}  // namespace flashcore::emu::ptx
