// Resolves addresses. Each address is checked against the memory that its window or its instruction names.
#pragma once
#include <algorithm>
#include <string>
#include <utility>

#include "../../driver/host_memory.h"
#include "../../exec/device_memory.h"
#include "../block.h"
#include "../cluster.h"
#include "../counters.h"
#include "../lanes.h"
#include "../lower.h"
#include "../races.h"

namespace flashcore::emu::ptx {

namespace {

// A warp's turn lasts 20,000 backward jumps. A failed try to take a lock and a look at a flag cost this many of them,
// so that a polling warp soon lets others run: after ten failed tries or a hundred looks.
constexpr int COST_OF_UNCHANGED = 2'000, COST_OF_LOOK = 200;

const char* verb(Access access) { return access == Access::Read ? "read " : "wrote "; }

Fault fault_at(const LaneAccess& by, uint64_t address, CUresult error, const char* kind) {
  Fault fault;
  fault.error = error;
  fault.kind = kind;
  fault.has_address = true;
  fault.address = address;
  fault.access = by.access == Access::Read ? "read" : "write";
  fault.bytes = static_cast<unsigned>(by.bytes);
  return fault;
}

[[noreturn]] void misaligned(const LaneAccess& by, uint64_t address, const std::string& buffer) {
  Fault fault = fault_at(by, address, CUDA_ERROR_MISALIGNED_ADDRESS, "MISALIGNED_ADDRESS");
  fault.buffer = buffer;
  fault.message = verb(by.access) + std::to_string(by.bytes) + " bytes at an address that is " +
                  std::to_string(address % by.bytes) + " past a multiple of " + std::to_string(by.bytes) +
                  (buffer.empty() ? "" : ", " + buffer);
  by.w.fail(by.i, by.lane, std::move(fault));
}

Fault out_of_bounds(const LaneAccess& by, uint64_t address) {
  return fault_at(by, address, CUDA_ERROR_ILLEGAL_ADDRESS, "OUT_OF_BOUNDS");
}

[[noreturn]] void shared_fault(const LaneAccess& by, uint32_t offset) {
  BlockRun& block = *by.w.block;
  if (offset % by.bytes && offset <= block.shared_bytes) misaligned(by, offset, "shared memory");
  Fault fault = out_of_bounds(by, offset);
  const unsigned fixed = block.kernel().dynamic_offset, dynamic = block.plan().dynamic_shared_bytes;
  const auto at = static_cast<int32_t>(offset);
  if (dynamic) {
    fault.buffer = "dynamic shared memory";
    const int64_t past = static_cast<int64_t>(at) - fixed - dynamic;
    // As in other out-of-bounds faults, an access that begins inside an allocation is reported as past its end.
    fault.message = verb(by.access) +
                    (at < 0 ? std::to_string(-static_cast<int64_t>(at)) + " bytes before the start"
                            : std::to_string(std::max<int64_t>(past, 0)) + " bytes past the end") +
                    " of the block's " + std::to_string(dynamic) + " bytes of dynamic shared memory";
  } else {
    fault.buffer = "static shared memory";
    fault.message = verb(by.access) +
                    (at < 0 ? std::to_string(-static_cast<int64_t>(at)) + " bytes before the start"
                            : std::to_string(std::max<int64_t>(at - static_cast<int64_t>(block.shared_bytes), 0)) +
                                  " bytes past the end") +
                    " of the block's " + std::to_string(block.shared_bytes) + " bytes of shared memory";
  }
  by.w.fail(by.i, by.lane, std::move(fault));
}

[[noreturn]] void global_fault(const LaneAccess& by, uint64_t address) {
  Fault fault = out_of_bounds(by, address);
  fault.buffer = DeviceMemory::instance().describe(address);
  if (!fault.buffer.empty()) {
    CUdeviceptr base;
    size_t size;
    // The first byte of the access may still be inside an allocation.
    if (DeviceMemory::instance().find_visible(address, &base, &size)) {
      const uint64_t inside = size - (address - base);
      fault.buffer = std::to_string(by.bytes - inside) + " bytes past the end of" +
                     fault.buffer.substr(fault.buffer.find(" of ") + 3);
    }
    fault.message = verb(by.access) + fault.buffer;
  } else if (address < 1 << 20) {
    fault.message = std::string(verb(by.access)) + "through a null pointer (address " + std::to_string(address) + ")";
  } else {
    fault.message = std::string(verb(by.access)) + "an address that belongs to no allocation";
  }
  by.w.fail(by.i, by.lane, std::move(fault));
}

[[noreturn]] void local_fault(const LaneAccess& by, uint64_t offset) {
  const BlockRun& block = *by.w.block;
  if (offset % by.bytes) misaligned(by, offset, "local memory");
  Fault fault = out_of_bounds(by, offset);
  fault.buffer = "local memory";
  const auto at = static_cast<int64_t>(offset);
  fault.message = verb(by.access) +
                  (at < 0 ? std::to_string(-at) + " bytes before the start"
                          : std::to_string(at - static_cast<int64_t>(block.local_bytes)) + " bytes past the end") +
                  " of the thread's " + std::to_string(block.local_bytes) +
                  " bytes of local memory (arrays that are not in registers)";
  by.w.fail(by.i, by.lane, std::move(fault));
}

unsigned first_of(uint32_t lanes) { return static_cast<unsigned>(__builtin_ctz(lanes)); }

bool find_range(uint64_t address, unsigned bytes, BlockRun::Range& range) {
  CUdeviceptr base;
  size_t size;
  if (DeviceMemory::instance().find_visible(address, &base, &size)) {
    range = {base, base + size};
    return bytes <= size - (address - base);
  }
  if (HostMemory::instance().covers(reinterpret_cast<const void*>(address), bytes)) {
    range = {address, address + bytes};
    return true;
  }
  return false;
}

void resolve_global(const WarpAccess& by, Pointers& p) {
  const auto& [w, i, m, bytes, access] = by;
  alignas(64) uint64_t address[LANES];
  BlockRun& block = *w.block;
  BlockRun::Range& range = block.ranges[i->cache];
  const bool simple = m == ALL && i->wide_address && range.end >= range.base + bytes &&
                      addresses_inside(w.reg<uint64_t>(i->a), static_cast<uint64_t>(i->imm),
                                       {range.base, range.end - bytes, bytes - 1}, address);
  if (__builtin_expect(!simple, 0)) {
    for (unsigned k = 0; k < LANES; ++k) address[k] = address_of(w, i, k);
    if (m != ALL) {
      const uint64_t first = address[__builtin_ctz(m)];
      for (int k = 0; k < LANES; ++k) address[k] = (m >> k & 1) ? address[k] : first;
    }
    uint32_t outside = 0, askew = 0;
    for (unsigned k = 0; k < LANES; ++k) {
      if (!(m >> k & 1)) continue;
      const bool inside = address[k] >= range.base && address[k] < range.end && range.end - address[k] >= bytes;
      if (!inside && !find_range(address[k], bytes, range)) outside |= 1u << k;
      if (address[k] & (bytes - 1)) askew |= 1u << k;
    }
    w.faulty = outside ? outside : askew;
    const unsigned k = w.faulty ? first_of(w.faulty) : 0;
    const LaneAccess lane{{w, i, k}, bytes, access};
    if (outside) global_fault(lane, address[k]);
    if (askew) misaligned(lane, address[k], DeviceMemory::instance().describe(address[k]));
  }
  for (int k = 0; k < LANES; ++k) p.at[k] = reinterpret_cast<char*>(address[k]);
  // The race check skips accesses to an allocation that the kernel declares read-only. If the kernel writes it after
  // all, the comparison of the inputs finds that.
  if (__builtin_expect(block.shadow != nullptr, 0) && !(simple && i->read_only && block.shadow->is_quiet(range.base)))
    block.shadow->global(by, address);
  if (__builtin_expect(block.observed != nullptr, 0)) block.observed->global(i, m, bytes, address);
}

/** Resolves the addresses of a whole warp. Returns false if one is invalid. */
bool resolve_local(Warp& w, const Ins* i, unsigned bytes, Pointers& p) {
  const BlockRun& block = *w.block;
  if (!i->wide_address || block.local_bytes < bytes) return false;
  const uint64_t* a = w.reg<uint64_t>(i->a);
  const uint64_t add = static_cast<uint64_t>(i->imm), last = block.local_bytes - bytes, each = block.local_stride;
  char* const base = block.local + static_cast<uint64_t>(w.index) * LANES * each;
  uint64_t outside = 0;
  for (uint64_t k = 0; k < LANES; ++k) {
    const uint64_t offset = a[k] + add;
    outside |= (offset > last) | (offset & (bytes - 1));
    p.at[k] = base + k * each + offset;
  }
  return !outside;
}

void resolve_generic(const WarpAccess& by, Pointers& p) {
  const auto& [w, i, m, bytes, access] = by;
  for (unsigned k = 0; k < LANES; ++k)
    if (m >> k & 1)
      p.at[k] = resolve_one({{w, i, k}, bytes, access}, address_of(w, i, k), bytes);
    else
      p.at[k] = nullptr;
  char* const first = p.at[__builtin_ctz(m)];
  for (unsigned k = 0; k < LANES; ++k)
    if (!(m >> k & 1)) p.at[k] = first;
}

}  // namespace

void resolve_shared(const WarpAccess& by, uint32_t* offsets) {
  const auto& [w, i, m, bytes, access] = by;
  const uint32_t end = w.block->shared_bytes, last = end - bytes;
  const bool simple =
      m == ALL && !i->wide_address && end >= bytes &&
      offsets_inside(w.reg<uint32_t>(i->a), static_cast<uint32_t>(i->imm), {0, last, bytes - 1}, offsets);
  if (__builtin_expect(!simple, 0)) {
    for (unsigned k = 0; k < LANES; ++k) offsets[k] = static_cast<uint32_t>(address_of(w, i, k));
    const uint32_t first = offsets[__builtin_ctz(m)];
    uint32_t bad = 0;
    for (unsigned k = 0; k < LANES; ++k) {
      offsets[k] = (m >> k & 1) ? offsets[k] : first;
      bad |= end < bytes || offsets[k] > last || (offsets[k] & (bytes - 1)) ? 1u << k : 0;
    }
    w.faulty = bad & m;
    if (w.faulty) shared_fault({{w, i, first_of(w.faulty)}, bytes, access}, offsets[first_of(w.faulty)]);
  }
  if (__builtin_expect(w.block->shadow != nullptr, 0)) w.block->shadow->access(by, offsets);
  if (__builtin_expect(w.block->observed != nullptr, 0)) w.block->observed->shared(i, m, bytes, offsets);
}

char* resolve_one(const LaneAccess& by, uint64_t address, unsigned alignment) {
  Warp& w = by.w;
  const Ins* const i = by.i;
  const unsigned lane = by.lane;
  const uint64_t bytes = by.bytes;
  const Access access = by.access;
  BlockRun& block = *w.block;
  const auto width = static_cast<unsigned>(bytes);
  const uint64_t window = i->space == GENERIC_SPACE                               ? address & WINDOW_MASK
                          : i->space == SHARED_SPACE || i->space == CLUSTER_SPACE ? SHARED_WINDOW
                          : i->space == LOCAL_SPACE                               ? LOCAL_WINDOW
                          : i->space == PARAMETER_SPACE                           ? PARAMETER_WINDOW
                                                                                  : 0;
  const uint64_t offset = i->space == GENERIC_SPACE ? address & ~WINDOW_MASK : address;
  if (window == SHARED_WINDOW) {
    auto at = static_cast<uint32_t>(offset);
    BlockRun& owner = at >> RANK_SHIFT ? block.cluster->owner(w, i, lane, at) : block;
    if (at > block.shared_bytes || block.shared_bytes - at < bytes) shared_fault(by, at);
    if (at & (alignment - 1)) misaligned({by, alignment, access}, at, "shared memory");
    if (owner.shadow && &owner != &block) {
      if (access != Access::Read) owner.shadow->written_from_outside(at, width);
    } else if (block.shadow) {
      uint32_t offsets[LANES];
      std::fill_n(offsets, LANES, at);
      block.shadow->access({w, i, 1u << lane, width, access}, offsets);
    }
    return owner.shared + at;
  }
  if (window == LOCAL_WINDOW) {
    if (offset > block.local_bytes || block.local_bytes - offset < bytes || (offset & (alignment - 1)))
      local_fault(by, offset);
    char* const at = block.local + w.linear(lane) * block.local_stride + offset;
    if (block.shadow) block.shadow->taint.local(by, at);
    return at;
  }
  if (window == PARAMETER_WINDOW) {
    if (offset > block.parameter_bytes || block.parameter_bytes - offset < bytes) {
      Fault fault = out_of_bounds(by, offset);
      fault.message = std::string(verb(access)) + "past the end of the kernel's parameters";
      w.fail(i, lane, std::move(fault));
    }
    return const_cast<char*>(block.parameters) + offset;
  }
  BlockRun::Range& range = block.ranges[i->cache];
  if (address < range.base || address >= range.end || range.end - address < bytes)
    if (!find_range(address, width, range)) global_fault(by, address);
  if (address & (alignment - 1))
    misaligned({by, alignment, access}, address, DeviceMemory::instance().describe(address));
  if (block.shadow) {
    uint64_t addresses[LANES];
    std::fill_n(addresses, LANES, address);
    block.shadow->global({w, i, 1u << lane, width, access}, addresses);
  }
  return reinterpret_cast<char*>(address);
}

void resolve(const WarpAccess& by, Pointers& p) {
  const auto& [w, i, m, bytes, access] = by;
  if (i->space == SHARED_SPACE) {
    alignas(64) uint32_t offsets[LANES];
    resolve_shared(by, offsets);
    char* const base = w.block->shared;
    for (int k = 0; k < LANES; ++k) p.at[k] = base + offsets[k];
    return;
  }
  if (i->space == GLOBAL_SPACE) return resolve_global(by, p);
  if (i->space == LOCAL_SPACE && m == ALL && resolve_local(w, i, bytes, p)) {
    for (unsigned k = 0; w.block->shadow && k < LANES; ++k)
      w.block->shadow->taint.local({{w, i, k}, bytes, access}, p.at[k]);
    return;
  }
  resolve_generic(by, p);
}

namespace {

/** The window that an instruction names. */
uint8_t space_of(const Statement& s) {
  for (const std::string& mod : s.mods) {
    if (mod == "global" || mod == "const") return GLOBAL_SPACE;
    if (mod == "shared" || mod == "shared::cta") return SHARED_SPACE;
    if (mod == "shared::cluster") return CLUSTER_SPACE;
    if (mod == "local") return LOCAL_SPACE;
    if (mod == "param") return PARAMETER_SPACE;
  }
  return GENERIC_SPACE;
}

}  // namespace

}  // namespace flashcore::emu::ptx
