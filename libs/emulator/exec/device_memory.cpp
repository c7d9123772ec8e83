#include "device_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "fibre.h"

namespace flashcore::emu {

namespace {
constexpr size_t L4_MEMORY_BYTES = 23034ull << 20;  // what an L4 reports
constexpr size_t ALIGNMENT = 16;                    // cudaMalloc aligns to 256; 16 is the widest access
constexpr size_t FREED_KEPT = 64;
size_t guard_bytes() { return 16 * page_bytes(); }  // also catches strided overruns of a row or two
size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }
}  // namespace

DeviceMemory& DeviceMemory::instance() {
  static DeviceMemory memory;
  return memory;
}

DeviceMemory::DeviceMemory() {
  const size_t host = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * page_bytes();
  total_ = std::min(L4_MEMORY_BYTES, host / 2);
}

CUresult DeviceMemory::allocate(CUdeviceptr* pointer, size_t bytes) {
  if (!pointer || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (bytes > total_ - used_) return CUDA_ERROR_OUT_OF_MEMORY;
  const size_t rounded = round_up(bytes, ALIGNMENT);
  const size_t usable = round_up(rounded, page_bytes());
  const size_t mapping_bytes = usable + 2 * guard_bytes();
  void* mapping = mmap(nullptr, mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  char* start = static_cast<char*>(mapping) + guard_bytes();
  if (mprotect(start, usable, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping, mapping_bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  memset(start, DEVICE_POISON, usable);
  char* base = start + usable - rounded;
  const auto key = reinterpret_cast<uint64_t>(mapping);
  by_mapping_[key] = {static_cast<char*>(mapping), mapping_bytes, base, bytes, ++count_, false, 0, ""};
  by_base_[reinterpret_cast<CUdeviceptr>(base)] = key;
  used_ += bytes;
  *pointer = reinterpret_cast<CUdeviceptr>(base);
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::release(CUdeviceptr pointer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = by_base_.find(pointer);
  if (found == by_base_.end()) return CUDA_ERROR_INVALID_VALUE;
  Allocation& allocation = by_mapping_.at(found->second);
  allocation.freed = true;
  used_ -= allocation.bytes;
  freed_.push_back(found->second);
  by_base_.erase(found);
    // Mapping PROT_NONE over the allocation frees its memory but keeps its addresses reserved.
  mmap(allocation.mapping, allocation.mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
       -1, 0);
  if (freed_.size() > FREED_KEPT) {
    const Allocation& oldest = by_mapping_.at(freed_.front());
    munmap(oldest.mapping, oldest.mapping_bytes);
    by_mapping_.erase(freed_.front());
    freed_.erase(freed_.begin());
  }
  return CUDA_SUCCESS;
}

bool DeviceMemory::covers(CUdeviceptr pointer, size_t bytes) {
  CUdeviceptr base;
  size_t size;
  return find(pointer, &base, &size) && bytes <= size - (pointer - base);
}

bool DeviceMemory::find(CUdeviceptr pointer, CUdeviceptr* base, size_t* bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto after = by_base_.upper_bound(pointer);
  if (after == by_base_.begin()) return false;
  --after;
  const Allocation& allocation = by_mapping_.at(after->second);
  if (pointer - after->first >= allocation.bytes) return false;
  *base = after->first;
  *bytes = allocation.bytes;
  return true;
}

bool DeviceMemory::find_visible(CUdeviceptr pointer, CUdeviceptr* base, size_t* bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto after = by_base_.upper_bound(pointer);
  if (after == by_base_.begin()) return false;
  --after;
  const Allocation& allocation = by_mapping_.at(after->second);
  const uint64_t offset = pointer - after->first;
  if (offset >= allocation.bytes || offset < allocation.hidden) return false;
  *base = after->first + allocation.hidden;
  *bytes = allocation.bytes - allocation.hidden;
  return true;
}

void DeviceMemory::name(CUdeviceptr base, const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = by_base_.find(base);
  if (found != by_base_.end()) by_mapping_.at(found->second).name = name;
}

void DeviceMemory::hide_start(CUdeviceptr base, size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = by_base_.find(base);
  if (found == by_base_.end()) return;
  Allocation& allocation = by_mapping_.at(found->second);
  allocation.hidden = std::min(bytes, allocation.bytes);
}

const DeviceMemory::Allocation* DeviceMemory::near(uint64_t address) const {
  auto after = by_mapping_.upper_bound(address);
  if (after == by_mapping_.begin()) return nullptr;
  --after;
  const Allocation& allocation = after->second;
  return address < after->first + allocation.mapping_bytes ? &allocation : nullptr;
}

std::string DeviceMemory::describe(uint64_t address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Allocation* allocation = near(address);
  if (!allocation) return "";
  const std::string called =
      allocation->name.empty() ? "device allocation " + std::to_string(allocation->number) : allocation->name;
  const std::string name = (allocation->freed ? "freed " : "") + called + " of " +
                           std::to_string(allocation->bytes - allocation->hidden) + " bytes";
  const uint64_t base = reinterpret_cast<uint64_t>(allocation->base) + allocation->hidden;
  if (address < base) return std::to_string(base - address) + " bytes before the start of " + name;
  const uint64_t end = base + allocation->bytes - allocation->hidden;
  if (address >= end) return std::to_string(address - end) + " bytes past the end of " + name;
  return "byte " + std::to_string(address - base) + " of " + name;
}

char* DeviceMemory::usable_end(const Allocation& allocation) {
  return allocation.mapping + allocation.mapping_bytes - guard_bytes();
}

std::string DeviceMemory::overwritten_slack() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [key, allocation] : by_mapping_) {
    if (allocation.freed) continue;
    const char* end = allocation.base + allocation.bytes;
    for (const char* byte = usable_end(allocation); byte-- > end;)
      if (static_cast<unsigned char>(*byte) != DEVICE_POISON)
        return std::to_string(byte - end + 1) + " bytes past the end of device allocation " +
               std::to_string(allocation.number) + " of " + std::to_string(allocation.bytes) + " bytes";
  }
  return "";
}

void DeviceMemory::total_and_free(size_t* total, size_t* free_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  *total = total_;
  *free_bytes = total_ - used_;
}

size_t DeviceMemory::live_allocations() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return by_base_.size();
}

}  // namespace flashcore::emu
