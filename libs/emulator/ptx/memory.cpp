// Loads, stores, atomics and cp.async, each address checked.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "../driver/host_memory.h"
#include "../exec/device_memory.h"
#include "access.h"
#include "cluster.h"
#include "counters.h"
#include "halves.h"
#include "lanes.h"
#include "lower.h"
#include "races.h"

namespace flashcore::emu::ptx {

namespace {

// What a warp's turn is shortened by, of the 20,000 backward jumps that it has: who asks again and again for what another
// lane or warp has to do first lets that one run soon. Ten failed tries to take a lock, a hundred looks at a flag.
constexpr int COST_OF_UNCHANGED = 2'000, COST_OF_LOOK = 200;

const char* verb(Access access) { return access == Access::Read ? "read " : "wrote "; }

[[noreturn]] void misaligned(Warp& w, const Ins* i, unsigned lane, uint64_t address, unsigned bytes, Access access,
                             const std::string& buffer) {
  Fault fault;
  fault.error = CUDA_ERROR_MISALIGNED_ADDRESS;
  fault.kind = "MISALIGNED_ADDRESS";
  fault.has_address = true;
  fault.address = address;
  fault.access = access == Access::Read ? "read" : "write";
  fault.bytes = bytes;
  fault.buffer = buffer;
  fault.message = verb(access) + std::to_string(bytes) + " bytes at an address that is " +
                  std::to_string(address % bytes) + " past a multiple of " + std::to_string(bytes) +
                  (buffer.empty() ? "" : ", " + buffer);
  w.fail(i, lane, std::move(fault));
}

Fault out_of_bounds(uint64_t address, unsigned bytes, Access access) {
  Fault fault;
  fault.error = CUDA_ERROR_ILLEGAL_ADDRESS;
  fault.kind = "OUT_OF_BOUNDS";
  fault.has_address = true;
  fault.address = address;
  fault.access = access == Access::Read ? "read" : "write";
  fault.bytes = bytes;
  return fault;
}

[[noreturn]] void shared_fault(Warp& w, const Ins* i, unsigned lane, uint32_t offset, unsigned bytes, Access access) {
  BlockRun& block = *w.block;
  if (offset % bytes && offset <= block.shared_bytes) misaligned(w, i, lane, offset, bytes, access, "shared memory");
  Fault fault = out_of_bounds(offset, bytes, access);
  const unsigned fixed = block.kernel().dynamic_offset, dynamic = block.plan().dynamic_shared_bytes;
  const auto at = static_cast<int32_t>(offset);
  if (dynamic) {
    fault.buffer = "dynamic shared memory";
    const int64_t past = static_cast<int64_t>(at) - fixed - dynamic;
    // As other out-of-bounds faults: an access that begins inside ends past the end by what is told.
    fault.message = verb(access) +
                    (at < 0 ? std::to_string(-static_cast<int64_t>(at)) + " bytes before the start"
                            : std::to_string(std::max<int64_t>(past, 0)) + " bytes past the end") +
                    " of the block's " + std::to_string(dynamic) + " bytes of dynamic shared memory";
  } else {
    fault.buffer = "static shared memory";
    fault.message = verb(access) +
                    (at < 0 ? std::to_string(-static_cast<int64_t>(at)) + " bytes before the start"
                            : std::to_string(std::max<int64_t>(at - static_cast<int64_t>(block.shared_bytes), 0)) +
                                  " bytes past the end") +
                    " of the block's " + std::to_string(block.shared_bytes) + " bytes of shared memory";
  }
  w.fail(i, lane, std::move(fault));
}

[[noreturn]] void global_fault(Warp& w, const Ins* i, unsigned lane, uint64_t address, unsigned bytes, Access access) {
  Fault fault = out_of_bounds(address, bytes, access);
  fault.buffer = DeviceMemory::instance().describe(address);
  if (!fault.buffer.empty()) {
    CUdeviceptr base;
    size_t size;
    // The first byte may still be inside.
    if (DeviceMemory::instance().find_visible(address, &base, &size)) {
      const uint64_t inside = size - (address - base);
      fault.buffer = std::to_string(bytes - inside) + " bytes past the end of" +
                     fault.buffer.substr(fault.buffer.find(" of ") + 3);
    }
    fault.message = verb(access) + fault.buffer;
  } else if (address < 1 << 20) {
    fault.message = std::string(verb(access)) + "through a null pointer (address " + std::to_string(address) + ")";
  } else {
    fault.message = std::string(verb(access)) + "an address that belongs to no allocation";
  }
  w.fail(i, lane, std::move(fault));
}

[[noreturn]] void local_fault(Warp& w, const Ins* i, unsigned lane, uint64_t offset, unsigned bytes, Access access) {
  if (offset % bytes) misaligned(w, i, lane, offset, bytes, access, "local memory");
  Fault fault = out_of_bounds(offset, bytes, access);
  fault.buffer = "local memory";
  const auto at = static_cast<int64_t>(offset);
  fault.message = verb(access) +
                  (at < 0 ? std::to_string(-at) + " bytes before the start"
                          : std::to_string(at - static_cast<int64_t>(w.block->local_bytes)) + " bytes past the end") +
                  " of the thread's " + std::to_string(w.block->local_bytes) +
                  " bytes of local memory (arrays that are not in registers)";
  w.fail(i, lane, std::move(fault));
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

void resolve_global(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, Pointers& p) {
  alignas(64) uint64_t address[LANES];
  BlockRun& block = *w.block;
  BlockRun::Range& range = block.ranges[i->cache];
  const bool simple = m == ALL && i->wide_address && range.end >= range.base + bytes &&
                      addresses_inside(w.reg<uint64_t>(i->a), static_cast<uint64_t>(i->imm), range.base,
                                       range.end - bytes, bytes - 1, address);
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
    if (outside) global_fault(w, i, k, address[k], bytes, access);
    if (askew) misaligned(w, i, k, address[k], bytes, access, DeviceMemory::instance().describe(address[k]));
  }
  for (int k = 0; k < LANES; ++k) p.at[k] = reinterpret_cast<char*>(address[k]);
  // All of one allocation that the kernel itself says is read only: whoever writes it all the same is found by the
  // comparison of the inputs.
  if (__builtin_expect(block.shadow != nullptr, 0) && !(simple && i->read_only && block.shadow->is_quiet(range.base)))
    block.shadow->global(w, i, m, bytes, access, address);
  if (__builtin_expect(block.observed != nullptr, 0)) block.observed->global(i, m, bytes, address);
}

/** Of a whole warp; false where an address is not as it should be. */
bool resolve_local(Warp& w, const Ins* i, unsigned bytes, Pointers& p) {
  const BlockRun& block = *w.block;
  if (!i->wide_address || block.local_bytes < bytes) return false;
  const uint64_t* a = w.reg<uint64_t>(i->a);
  const uint64_t add = static_cast<uint64_t>(i->imm), last = block.local_bytes - bytes, each = block.local_bytes;
  char* const base = block.local + static_cast<uint64_t>(w.index) * LANES * each;
  uint64_t outside = 0;
  for (uint64_t k = 0; k < LANES; ++k) {
    const uint64_t offset = a[k] + add;
    outside |= (offset > last) | (offset & (bytes - 1));
    p.at[k] = base + k * each + offset;
  }
  return !outside;
}

void resolve_generic(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, Pointers& p) {
  for (unsigned k = 0; k < LANES; ++k)
    if (m >> k & 1)
      p.at[k] = resolve_one(w, i, k, address_of(w, i, k), bytes, bytes, access);
    else
      p.at[k] = nullptr;
  char* const first = p.at[__builtin_ctz(m)];
  for (unsigned k = 0; k < LANES; ++k)
    if (!(m >> k & 1)) p.at[k] = first;
}

}  // namespace

void resolve_shared(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, uint32_t* offsets) {
  const uint32_t end = w.block->shared_bytes, last = end - bytes;
  const bool simple = m == ALL && !i->wide_address && end >= bytes &&
                      offsets_inside(w.reg<uint32_t>(i->a), static_cast<uint32_t>(i->imm), last, bytes - 1, offsets);
  if (__builtin_expect(!simple, 0)) {
    for (unsigned k = 0; k < LANES; ++k) offsets[k] = static_cast<uint32_t>(address_of(w, i, k));
    const uint32_t first = offsets[__builtin_ctz(m)];
    uint32_t bad = 0;
    for (unsigned k = 0; k < LANES; ++k) {
      offsets[k] = (m >> k & 1) ? offsets[k] : first;
      bad |= end < bytes || offsets[k] > last || (offsets[k] & (bytes - 1)) ? 1u << k : 0;
    }
    w.faulty = bad & m;
    if (w.faulty) shared_fault(w, i, first_of(w.faulty), offsets[first_of(w.faulty)], bytes, access);
  }
  if (__builtin_expect(w.block->shadow != nullptr, 0)) w.block->shadow->access(w, i, m, bytes, access, offsets);
  if (__builtin_expect(w.block->observed != nullptr, 0)) w.block->observed->shared(i, m, bytes, access, offsets);
}

char* resolve_one(Warp& w, const Ins* i, unsigned lane, uint64_t address, uint64_t bytes, unsigned alignment,
                  Access access) {
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
    if (at > block.shared_bytes || block.shared_bytes - at < bytes) shared_fault(w, i, lane, at, width, access);
    if (at & (alignment - 1)) misaligned(w, i, lane, at, alignment, access, "shared memory");
    if (owner.shadow && &owner != &block) {
      if (access != Access::Read) owner.shadow->written_from_outside(at, width);
    } else if (block.shadow) {
      uint32_t offsets[LANES];
      std::fill_n(offsets, LANES, at);
      block.shadow->access(w, i, 1u << lane, width, access, offsets);
    }
    return owner.shared + at;
  }
  if (window == LOCAL_WINDOW) {
    if (offset > block.local_bytes || block.local_bytes - offset < bytes || (offset & (alignment - 1)))
      local_fault(w, i, lane, offset, width, access);
    return block.local + w.linear(lane) * block.local_bytes + offset;
  }
  if (window == PARAMETER_WINDOW) {
    if (offset > block.parameter_bytes || block.parameter_bytes - offset < bytes) {
      Fault fault = out_of_bounds(offset, width, access);
      fault.message = std::string(verb(access)) + "past the end of the kernel's parameters";
      w.fail(i, lane, std::move(fault));
    }
    return const_cast<char*>(block.parameters) + offset;
  }
  BlockRun::Range& range = block.ranges[i->cache];
  if (address < range.base || address >= range.end || range.end - address < bytes)
    if (!find_range(address, width, range)) global_fault(w, i, lane, address, width, access);
  if (address & (alignment - 1))
    misaligned(w, i, lane, address, alignment, access, DeviceMemory::instance().describe(address));
  if (block.shadow) {
    uint64_t addresses[LANES];
    std::fill_n(addresses, LANES, address);
    block.shadow->global(w, i, 1u << lane, width, access, addresses);
  }
  return reinterpret_cast<char*>(address);
}

void resolve(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, Pointers& p) {
  if (i->space == SHARED_SPACE) {
    alignas(64) uint32_t offsets[LANES];
    resolve_shared(w, i, m, bytes, access, offsets);
    char* const base = w.block->shared;
    for (int k = 0; k < LANES; ++k) p.at[k] = base + offsets[k];
    return;
  }
  if (i->space == GLOBAL_SPACE) return resolve_global(w, i, m, bytes, access, p);
  if (i->space == LOCAL_SPACE && m == ALL && resolve_local(w, i, bytes, p)) return;
  resolve_generic(w, i, m, bytes, access, p);
}

namespace {

// --- ld and st ------------------------------------------------------------------------------------------------------

/** Rows of 16 bytes to the four registers of a load: `read` fills those that it is given. */
template <class Read>
void write_rows(Warp& w, const Ins* i, uint32_t m, const Read& read) {
  const std::vector<uint32_t>& slots = i->extra->d;
  alignas(64) uint32_t t[4][LANES];
  uint32_t* registers[4];
  for (int n = 0; n < 4; ++n) registers[n] = m == ALL && slots[n] != NO_SLOT ? w.reg<uint32_t>(slots[n]) : t[n];
  read(registers);
  for (int n = 0; n < 4 && m != ALL; ++n)
    if (slots[n] != NO_SLOT) blend(w.reg<uint32_t>(slots[n]), t[n], m);
}

template <class T, class R, int COUNT>
const Ins* load(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  Pointers p;
  resolve(w, i, m, sizeof(T) * COUNT, Access::Read, p);
  if constexpr (COUNT == 1) {
    const auto value_at = [&](int k) {
      T value;
      memcpy(&value, p.at[k], sizeof value);
      return static_cast<R>(value);
    };
    const Pattern pattern = pattern_of(p.at, sizeof(T));
    if (pattern == Pattern::Uniform) {
      const R r = value_at(0);
      write_lanes<R>(w, i->d, m, [=](int) { return r; });
    } else if (pattern == Pattern::Contiguous) {
      alignas(64) T t[LANES];
      memcpy(t, p.at[0], sizeof t);
      write_lanes<R>(w, i->d, m, [&](int k) { return static_cast<R>(t[k]); });
    } else {
      write_lanes<R>(w, i->d, m, value_at);
    }
  } else if constexpr (COUNT == 4 && sizeof(T) == 4 && sizeof(R) == 4) {
    write_rows(w, i, m, [&](uint32_t* const* to) { rows_to_registers([&](int k) { return p.at[k]; }, to); });
  } else if constexpr (COUNT == 2 && sizeof(T) == 4 && sizeof(R) == 4) {
    alignas(64) uint64_t pairs[LANES];
    for (int k = 0; k < LANES; ++k) memcpy(&pairs[k], p.at[k], sizeof pairs[k]);
    for (int n = 0; n < 2; ++n)
      if (i->extra->d[n] != NO_SLOT)
        write_lanes<uint32_t>(w, i->extra->d[n], m, [&](int k) { return static_cast<uint32_t>(pairs[k] >> (32 * n)); });
  } else {
    alignas(64) T t[COUNT][LANES];
    for (int k = 0; k < LANES; ++k) {
      T values[COUNT];
      memcpy(values, p.at[k], sizeof values);
      for (int n = 0; n < COUNT; ++n) t[n][k] = values[n];
    }
    for (int n = 0; n < COUNT; ++n)
      if (i->extra->d[n] != NO_SLOT)
        write_lanes<R>(w, i->extra->d[n], m, [&](int k) { return static_cast<R>(t[n][k]); });
  }
  return i + 1;
}

/** From shared memory: lanes that read one address, and what lies side by side, are the common cases. */
template <class T, class R>
const Ins* load_shared(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  alignas(64) uint32_t offsets[LANES];
  resolve_shared(w, i, m, sizeof(T), Access::Read, offsets);
  const char* const base = w.block->shared;
  const uint32_t first = offsets[0];
  const Pattern pattern = pattern_of(offsets, sizeof(T));
  if (pattern == Pattern::Uniform) {
    T value;
    memcpy(&value, base + first, sizeof value);
    const R r = static_cast<R>(value);
    write_lanes<R>(w, i->d, m, [=](int) { return r; });
  } else if (pattern == Pattern::Contiguous) {
    alignas(64) T t[LANES];
    memcpy(t, base + first, sizeof t);
    write_lanes<R>(w, i->d, m, [&](int k) { return static_cast<R>(t[k]); });
  } else {
    if constexpr (sizeof(T) == 4 && sizeof(R) == 4)
      if (m == ALL && words_nearby(base, w.block->shared_bytes, offsets, 0, w.reg<uint32_t>(i->d))) return i + 1;
    write_lanes<R>(w, i->d, m, [=](int k) { return static_cast<R>(*reinterpret_cast<const T*>(base + offsets[k])); });
  }
  return i + 1;
}

/** Shared memory, for the whole warp, with nobody who notes the accesses. */
inline bool plainly_shared(Warp& w, const Ins* i) {
  return w.active(i) == ALL && !i->wide_address && !w.block->shadow && !w.block->observed;
}

/** The same as if nobody noted them, once they are noted. */
__attribute__((noinline)) const Ins* noted_first(Warp& w, const Ins* i, unsigned bytes, Access access, Handler plain) {
  BlockRun& block = *w.block;
  alignas(64) uint32_t offsets[LANES];
  resolve_shared(w, i, ALL, bytes, access, offsets);
  Shadow* const shadow = std::exchange(block.shadow, nullptr);
  const Ins* const next = plain(w, i);  // it does not fault: all is checked
  block.shadow = shadow;
  return next;
}
/** Whether somebody looks for races, and the access is that of a whole warp. */
inline bool is_watched(Warp& w, const Ins* i) {
  return __builtin_expect(w.block->shadow != nullptr, 0) && w.active(i) == ALL && !w.block->observed;
}

/** Words of eight lanes side by side are copied. */
__attribute__((noinline)) const Ins* load_shared_eights(Warp& w, const Ins* i) {
  const BlockRun& block = *w.block;
  const uint32_t* at = w.reg<uint32_t>(i->a);
  const auto add = static_cast<uint32_t>(i->imm);
  if (!plainly_shared(w, i) || !eights_of_words(block.shared_bytes, at, add))
    return load_shared<uint32_t, uint32_t>(w, i);
  const uint32_t from[] = {at[0] + add, at[8] + add, at[16] + add, at[24] + add};  // they may be overwritten
  for (int n = 0; n < 4; ++n) memcpy(w.reg<uint32_t>(i->d) + 8 * n, block.shared + from[n], 32);
  return i + 1;
}

/** Words that lie close together are chosen among at once. */
const Ins* load_shared_words(Warp& w, const Ins* i) {
  if (is_watched(w, i)) return noted_first(w, i, 4, Access::Read, load_shared_words);
  const BlockRun& block = *w.block;
  if (plainly_shared(w, i) && words_nearby(block.shared, block.shared_bytes, w.reg<uint32_t>(i->a),
                                           static_cast<uint32_t>(i->imm), w.reg<uint32_t>(i->d)))
    return i + 1;
  return load_shared_eights(w, i);
}

/** 16 bytes a lane. */
const Ins* load_shared_words4(Warp& w, const Ins* i) {
  if (is_watched(w, i)) return noted_first(w, i, 16, Access::Read, load_shared_words4);
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  const char* const base = w.block->shared;
  const std::vector<uint32_t>& slots = i->extra->d;
  if (plainly_shared(w, i) && std::find(slots.begin(), slots.end(), NO_SLOT) == slots.end()) {
    uint32_t* const to[] = {w.reg<uint32_t>(slots[0]), w.reg<uint32_t>(slots[1]), w.reg<uint32_t>(slots[2]),
                            w.reg<uint32_t>(slots[3])};
    if (shared_rows_to_registers(base, w.block->shared_bytes, w.reg<uint32_t>(i->a), static_cast<uint32_t>(i->imm), to))
      return i + 1;
  }
  alignas(64) uint32_t offsets[LANES];
  resolve_shared(w, i, m, 16, Access::Read, offsets);
  write_rows(w, i, m, [&](uint32_t* const* to) { rows_to_registers([&](int k) { return base + offsets[k]; }, to); });
  return i + 1;
}

template <class T, class R, int COUNT>
const Ins* store(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  Pointers p;
  resolve(w, i, m, sizeof(T) * COUNT, Access::Write, p);
  const R* values[COUNT];
  if constexpr (COUNT == 1)
    values[0] = w.reg<R>(i->d);
  else
    for (int n = 0; n < COUNT; ++n) values[n] = w.reg<R>(i->extra->d[n]);
  const auto store_lane = [&](int k) {
    T t[COUNT];
    for (int n = 0; n < COUNT; ++n) t[n] = static_cast<T>(values[n][k]);
    memcpy(p.at[k], t, sizeof t);
  };
  if (__builtin_expect(m != ALL, 0)) {
    for (int k = 0; k < LANES; ++k)
      if (m >> k & 1) store_lane(k);
  } else if constexpr (COUNT == 4 && sizeof(T) == 4 && sizeof(R) == 4) {
    registers_to_rows(values, [&](int k) { return p.at[k]; });
  } else if (COUNT == 1 && sizeof(T) == sizeof(R) && pattern_of(p.at, sizeof(T)) == Pattern::Contiguous) {
    memcpy(p.at[0], values[0], sizeof(T) * LANES);
  } else {
    for (int k = 0; k < LANES; ++k) store_lane(k);
  }
  return i + 1;
}

/** The words of eight lanes side by side are copied. */
const Ins* store_shared_words(Warp& w, const Ins* i) {
  if (is_watched(w, i)) return noted_first(w, i, 4, Access::Write, store_shared_words);
  const BlockRun& block = *w.block;
  const uint32_t* at = w.reg<uint32_t>(i->a);
  const auto add = static_cast<uint32_t>(i->imm);
  if (!plainly_shared(w, i) || !eights_of_words(block.shared_bytes, at, add)) return store<uint32_t, uint32_t, 1>(w, i);
  const uint32_t* from = w.reg<uint32_t>(i->d);
  for (int n = 0; n < LANES; n += 8) memcpy(block.shared + (at[n] + add), from + n, 32);
  return i + 1;
}

/** Whether a vector of such elements is in such registers: bytes are in those of 16 or 32 bits, halves of 32 as well. */
template <class T, class R>
constexpr bool in_vectors = sizeof(T) == sizeof(R) || sizeof(R) <= 4;

/** ld.param of a parameter's name: the same for all lanes. */
template <class T, class R>
const Ins* load_parameter(Warp& w, const Ins* i) {
  T value;
  memcpy(&value, w.block->parameters + i->imm, sizeof value);
  const R r = static_cast<R>(value);
  write_lanes<R>(w, i->d, w.active(i), [=](int) { return r; });
  return i + 1;
}

template <class T, class R>
Handler load_of(unsigned count, bool parameter) {
  if (parameter) return count == 1 ? load_parameter<T, R> : nullptr;
  if (count == 1) return load<T, R, 1>;
  if constexpr (in_vectors<T, R>) {
    if (count == 2) return load<T, R, 2>;
    if constexpr (sizeof(T) < 8)
      if (count == 4) return load<T, R, 4>;
    if constexpr (sizeof(T) <= 2)
      if (count == 8) return load<T, R, 8>;
  }
  return nullptr;
}
template <class T, class R>
Handler store_of(unsigned count) {
  if (count == 1) return store<T, R, 1>;
  if constexpr (in_vectors<T, R>) {
    if (count == 2) return store<T, R, 2>;
    if constexpr (sizeof(T) < 8)
      if (count == 4) return store<T, R, 4>;
    if constexpr (sizeof(T) <= 2)
      if (count == 8) return store<T, R, 8>;
  }
  return nullptr;
}

/** By the memory's type and the register's bytes. */
Handler find_load(const std::string& type, unsigned reg, unsigned count, bool parameter) {
  const bool is_signed = type[0] == 's';
  const int bits = atoi(type.c_str() + (type[0] == 'b' && type[1] == 'f' ? 2 : 1));
  if (bits == 64 && reg == 8) return load_of<uint64_t, uint64_t>(count, parameter);
  if (bits == 32 && reg == 4) return load_of<uint32_t, uint32_t>(count, parameter);
  if (bits == 32 && reg == 8)
    return is_signed ? load_of<int32_t, int64_t>(count, parameter) : load_of<uint32_t, uint64_t>(count, parameter);
  if (bits == 16 && reg == 2) return load_of<uint16_t, uint16_t>(count, parameter);
  if (bits == 16 && reg == 4)
    return is_signed ? load_of<int16_t, int32_t>(count, parameter) : load_of<uint16_t, uint32_t>(count, parameter);
  if (bits == 16 && reg == 8)
    return is_signed ? load_of<int16_t, int64_t>(count, parameter) : load_of<uint16_t, uint64_t>(count, parameter);
  if (bits == 8 && reg == 2)
    return is_signed ? load_of<int8_t, int16_t>(count, parameter) : load_of<uint8_t, uint16_t>(count, parameter);
  if (bits == 8 && reg == 4)
    return is_signed ? load_of<int8_t, int32_t>(count, parameter) : load_of<uint8_t, uint32_t>(count, parameter);
  if (bits == 8 && reg == 8)
    return is_signed ? load_of<int8_t, int64_t>(count, parameter) : load_of<uint8_t, uint64_t>(count, parameter);
  return nullptr;
}
Handler find_store(const std::string& type, unsigned reg, unsigned count) {
  const int bits = atoi(type.c_str() + (type[0] == 'b' && type[1] == 'f' ? 2 : 1));
  if (bits == 64) return store_of<uint64_t, uint64_t>(count);
  if (bits == 32) return reg == 8 ? store_of<uint32_t, uint64_t>(count) : store_of<uint32_t, uint32_t>(count);
  if (bits == 16)
    return reg == 8   ? store_of<uint16_t, uint64_t>(count)
           : reg == 4 ? store_of<uint16_t, uint32_t>(count)
                      : store_of<uint16_t, uint16_t>(count);
  if (bits == 8)
    return reg == 8   ? store_of<uint8_t, uint64_t>(count)
           : reg == 4 ? store_of<uint8_t, uint32_t>(count)
                      : store_of<uint8_t, uint16_t>(count);
  return nullptr;
}

// --- atomics --------------------------------------------------------------------------------------------------------

enum class Atomic : uint8_t { Add, Min, Max, And, Or, Xor, Exchange, CompareExchange, Increment, Decrement };

template <class T>
T smaller_of(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T larger_of(T a, T b) {
  return b > a ? b : a;
}

template <class T>
T combine(Atomic op, T old, T b, T c) {
  switch (op) {
    case Atomic::Add: return static_cast<T>(old + b);
    case Atomic::Min: return smaller_of(old, b);
    case Atomic::Max: return larger_of(old, b);
    case Atomic::Exchange: return b;
    case Atomic::CompareExchange: return old == b ? c : old;
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case Atomic::And: return old & b;
      case Atomic::Or: return old | b;
      case Atomic::Xor: return old ^ b;
      case Atomic::Increment: return old >= b ? T(0) : static_cast<T>(old + 1);
      case Atomic::Decrement: return old == 0 || old > b ? b : static_cast<T>(old - 1);
      default: break;
    }
  }
  return old;
}

/** One 16-bit float, or two of them. */
template <uint16_t (*TO)(float), float (*FROM)(uint16_t), class Bits>
struct Sixteens {
  Bits bits;
  template <class F>
  static Sixteens each(Sixteens a, Sixteens b, const F& of) {
    Bits out = 0;
    for (unsigned shift = 0; shift < 8 * sizeof(Bits); shift += 16) {
      const float x = FROM(static_cast<uint16_t>(a.bits >> shift)), y = FROM(static_cast<uint16_t>(b.bits >> shift));
      out = static_cast<Bits>(out | static_cast<Bits>(TO(of(x, y))) << shift);
    }
    return {out};
  }
  friend Sixteens operator+(Sixteens a, Sixteens b) {
    return each(a, b, [](float x, float y) { return x + y; });
  }
  // A number is chosen where the other one is none.
  friend Sixteens smaller_of(Sixteens a, Sixteens b) {
    return each(a, b, [](float x, float y) { return x < y || y != y ? x : (x == y && std::signbit(x) ? x : y); });
  }
  friend Sixteens larger_of(Sixteens a, Sixteens b) {
    return each(a, b, [](float x, float y) { return x > y || y != y ? x : (x == y && std::signbit(y) ? x : y); });
  }
  friend bool operator==(Sixteens a, Sixteens b) { return a.bits == b.bits; }
};
using OneHalf = Sixteens<float_to_half, half_to_float, uint16_t>;
using OneBfloat = Sixteens<float_to_bfloat16, bfloat16_to_float, uint16_t>;
using HalfPair = Sixteens<float_to_half, half_to_float, uint32_t>;
using BfloatPair = Sixteens<float_to_bfloat16, bfloat16_to_float, uint32_t>;
/** Combines what lies there with b (and c); what was there before. */
template <class T, class Bits>
Bits combine_at(Atomic op, char* place, Bits b, Bits c, bool& changed) {
  auto* at = reinterpret_cast<Bits*>(place);
  Bits found = __atomic_load_n(at, __ATOMIC_RELAXED), wanted;
  do {
    T was, x, y;
    memcpy(&was, &found, sizeof was);
    memcpy(&x, &b, sizeof x);
    memcpy(&y, &c, sizeof y);
    const T now = combine<T>(op, was, x, y);
    memcpy(&wanted, &now, sizeof now);
  } while (!__atomic_compare_exchange_n(at, &found, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  changed |= wanted != found;
  return found;
}

/** options: 0 the operation. */
template <class T, class Bits>
const Ins* atomic(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  Pointers p;
  resolve(w, i, m, sizeof(T), Access::ReadWrite, p);
  const auto op = static_cast<Atomic>(i->extra->options[0]);
  const Bits* b = w.reg<Bits>(i->b);
  const Bits* c = i->c == NO_SLOT ? b : w.reg<Bits>(i->c);
  alignas(64) Bits old[LANES] = {};
  bool changed = false;
  for (int k = 0; k < LANES; ++k) {
    if (!(m >> k & 1)) continue;
    old[k] = combine_at<T, Bits>(op, p.at[k], b[k], c[k], changed);
  }
  if (!changed) w.budget -= COST_OF_UNCHANGED;
  if (i->d != NO_SLOT) write_lanes<Bits>(w, i->d, m, [&](int k) { return old[k]; });
  return i + 1;
}

/** What a vector of fp32 adds up in device memory: subnormal numbers are 0, before and after, as on an H200. */
struct Flushed {
  float value;
  float flushed() const { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value; }
  friend Flushed operator+(Flushed a, Flushed b) { return {Flushed{a.flushed() + b.flushed()}.flushed()}; }
  friend Flushed smaller_of(Flushed a, Flushed b) { return b.value < a.value ? b : a; }
  friend Flushed larger_of(Flushed a, Flushed b) { return a.value < b.value ? b : a; }
  friend bool operator==(Flushed a, Flushed b) { return a.value == b.value; }
};

/** Each number of a vector by itself. options: 0 the operation; extra: d, where it is wanted, and b. */
template <class T, class Bits>
const Ins* atomic_vector(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  const Extra& x = *i->extra;
  const size_t count = x.b.size();
  const auto op = static_cast<Atomic>(x.options[0]);
  Pointers p;
  resolve(w, i, m, static_cast<unsigned>(count * sizeof(Bits)), Access::ReadWrite, p);
  bool changed = false;
  for (size_t n = 0; n < count; ++n) {
    const Bits* b = w.reg<Bits>(x.b[n]);
    alignas(64) Bits old[LANES] = {};
    for (int k = 0; k < LANES; ++k)
      if (m >> k & 1) old[k] = combine_at<T, Bits>(op, p.at[k] + n * sizeof(Bits), b[k], b[k], changed);
    if (!x.d.empty()) write_lanes<Bits>(w, x.d[n], m, [&](int k) { return old[k]; });
  }
  if (!changed) w.budget -= COST_OF_UNCHANGED;
  return i + 1;
}

/** A type of numbers that atomics take: its handlers of one and of several. */
struct AtomicType {
  unsigned bytes;
  Handler one, several;
};
const std::map<std::string, AtomicType>& atomic_types() {
  static const std::map<std::string, AtomicType> TYPES = {
      {"u32", {4, atomic<uint32_t, uint32_t>, nullptr}},
      {"b32", {4, atomic<uint32_t, uint32_t>, nullptr}},
      {"s32", {4, atomic<int32_t, uint32_t>, nullptr}},
      {"u64", {8, atomic<uint64_t, uint64_t>, nullptr}},
      {"b64", {8, atomic<uint64_t, uint64_t>, nullptr}},
      {"s64", {8, atomic<int64_t, uint64_t>, nullptr}},
      {"b16", {2, atomic<uint16_t, uint16_t>, nullptr}},
      {"f64", {8, atomic<double, uint64_t>, nullptr}},
      {"f32", {4, atomic<float, uint32_t>, atomic_vector<Flushed, uint32_t>}},
      {"f16", {2, atomic<OneHalf, uint16_t>, atomic_vector<OneHalf, uint16_t>}},
      {"bf16", {2, atomic<OneBfloat, uint16_t>, atomic_vector<OneBfloat, uint16_t>}},
      {"f16x2", {4, atomic<HalfPair, uint32_t>, atomic_vector<HalfPair, uint32_t>}},
      {"bf16x2", {4, atomic<BfloatPair, uint32_t>, atomic_vector<BfloatPair, uint32_t>}}};
  return TYPES;
}

bool lower_atomic(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const bool returns = s.op == "atom";
  static const std::map<std::string, Atomic> OPERATIONS = {{"add", Atomic::Add},       {"min", Atomic::Min},
                                                           {"max", Atomic::Max},       {"and", Atomic::And},
                                                           {"or", Atomic::Or},         {"xor", Atomic::Xor},
                                                           {"exch", Atomic::Exchange}, {"cas", Atomic::CompareExchange},
                                                           {"inc", Atomic::Increment}, {"dec", Atomic::Decrement}};
  Extra& extra = l.extra(ins);
  bool known = false;
  const AtomicType* found_type = nullptr;
  ins.space = GENERIC_SPACE;
  for (const std::string& mod : s.mods) {
    if (mod == "global") ins.space = GLOBAL_SPACE;
    if (mod == "shared" || mod == "shared::cta") ins.space = SHARED_SPACE;
    if (mod == "shared::cluster") ins.space = CLUSTER_SPACE;
    if (mod == "async") return false;
    const auto type = atomic_types().find(mod);
    if (type != atomic_types().end()) found_type = &type->second;
    const auto found = OPERATIONS.find(mod);
    if (found == OPERATIONS.end()) continue;
    extra.options[0] = static_cast<int>(found->second);
    known = true;
  }
  if (!known || !found_type) return false;
  const unsigned bytes = found_type->bytes;
  const unsigned count = has(s, "v8") ? 8 : has(s, "v4") ? 4 : has(s, "v2") ? 2 : 1;
  if (count > 1) {
    ins.fn = found_type->several;
    if (!ins.fn || count * bytes > 16) return false;
    if (returns)
      for (const Operand& item : s.operands[0].items) extra.d.push_back(l.slot(item, bytes));
    l.address(s.operands[returns ? 1 : 0], ins);
    for (const Operand& item : s.operands[returns ? 2 : 1].items) extra.b.push_back(l.slot(item, bytes));
    return extra.b.size() == count && (!returns || extra.d.size() == count);
  }
  ins.fn = found_type->one;
  size_t n = 0;
  if (returns) {
    const Operand& d = s.operands[n++];
    if (d.kind != OperandKind::Sink) ins.d = l.slot(d, bytes);
  }
  l.address(s.operands[n++], ins);
  ins.b = l.slot(s.operands[n++], bytes);
  if (n < s.operands.size() && !has(s, "L2::cache_hint")) ins.c = l.slot(s.operands[n], bytes);
  return static_cast<Atomic>(extra.options[0]) != Atomic::CompareExchange || ins.c != NO_SLOT;
}

// --- cp.async -------------------------------------------------------------------------------------------------------

constexpr int IGNORE = 1, NEGATED_IGNORE = 2;

/** c: bytes to read, the rest are zeros; or (options 1) a predicate: all are zeros where it holds. */
const Ins* copy_async(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  BlockRun& block = *w.block;
  block.copies.emplace_back();
  Copy& copy = block.copies.back();
  copy.mask = m;
  copy.warp = w.index;
  copy.bytes = i->bytes;
  copy.ins = i;
  copy.number = block.copies_issued++;
  // Neither a load nor a store to ncu: what it writes is not counted as either.
  Counters* const observed = std::exchange(block.observed, nullptr);
  Shadow* const shadow = std::exchange(block.shadow, nullptr);
  resolve_shared(w, i, m, i->bytes, Access::Write, copy.to);
  block.observed = observed;
  block.shadow = shadow;
  uint32_t reading = 0;
  if (shadow) shadow->copy_begins(w, i, m, i->bytes, copy.to);
  const bool ignores = i->c != NO_SLOT && i->extra->options[1];
  const uint32_t ignored = ignores ? w.pred(i->c) ^ (i->extra->options[1] == NEGATED_IGNORE ? ALL : 0) : 0;
  const uint32_t* sizes = i->c == NO_SLOT || ignores ? nullptr : w.reg<uint32_t>(i->c);
  const uint64_t* from = w.reg<uint64_t>(i->b);
  alignas(64) uint64_t addresses[LANES];
  for (unsigned k = 0; k < LANES; ++k) {
    copy.source_bytes[k] = sizes && sizes[k] < i->bytes ? static_cast<uint8_t>(sizes[k]) : i->bytes;
    if (ignored >> k & 1) copy.source_bytes[k] = 0;
    copy.from[k] = addresses[k] = from[k] + static_cast<uint64_t>(i->extra->options[0]);
    copy.group[k] = block.open_groups[w.index][k];
    reading |= m >> k & 1 && copy.source_bytes[k] == i->bytes ? 1u << k : 0u;
  }
  copy.whole = reading == m;
  Ins source = *i;
  source.space = GLOBAL_SPACE;
  if (copy.whole) {
    source.a = i->b;
    source.imm = i->extra->options[0];
    source.wide_address = 1;
    Pointers p;
    block.observed = nullptr;
    resolve(w, &source, m, i->bytes, Access::Read, p);
    block.observed = observed;
  } else {
    reading = 0;
    for (unsigned k = 0; k < LANES; ++k) {
      if (!(m >> k & 1) || !copy.source_bytes[k]) continue;
      resolve_one(w, &source, k, copy.from[k], copy.source_bytes[k], i->bytes, Access::Read);
      reading |= 1u << k;
    }
  }
  if (observed) observed->global(i, reading, i->bytes, addresses);
  return i + 1;
}

const Ins* copy_commit(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  auto& open = w.block->open_groups[w.index];
  for (int k = 0; k < LANES; ++k) open[k] += m >> k & 1;
  return i + 1;
}

/** Lanes for which a copy belongs to one of their latest `most` groups, or to the open one. */
template <class Groups>
uint32_t unfinished(const Copy& copy, const Groups& open, uint64_t most) {
  bool any = false, all = true;
  for (int k = 0; k < LANES; ++k) {
    const bool waits = copy.group[k] + most >= open[k];
    any |= waits;
    all &= waits;
  }
  if (any == all) return any ? ALL : 0;
  uint32_t lanes = 0;
  for (int k = 0; k < LANES; ++k) lanes |= copy.group[k] + most >= open[k] ? 1u << k : 0u;
  return lanes;
}

/** What a copy says, for lanes for which it is waited for. */
void land(BlockRun& block, Copy& copy, uint32_t done) {
  if (!done) return;
  if (done == ALL && copy.whole && copy.bytes == 16) {
    for (int k = 0; k < LANES; ++k) memcpy(block.shared + copy.to[k], reinterpret_cast<const void*>(copy.from[k]), 16);
  } else {
    for (unsigned k = 0; k < LANES; ++k) {
      if (!(done >> k & 1)) continue;
      char* to = block.shared + copy.to[k];
      if (copy.source_bytes[k]) memcpy(to, reinterpret_cast<const void*>(copy.from[k]), copy.source_bytes[k]);
      memset(to + copy.source_bytes[k], 0, copy.bytes - copy.source_bytes[k]);
    }
  }
  if (block.shadow) block.shadow->copy_ends(block.warps()[copy.warp], copy.ins, done, copy.bytes, copy.to);
  copy.mask &= ~done;
}
void forget_landed(std::vector<Copy>& copies) {
  copies.erase(std::remove_if(copies.begin(), copies.end(), [](const Copy& c) { return c.mask == 0; }), copies.end());
}

/** imm: how many of the newest committed groups may be unfinished; negative: none, the open one neither. */
const Ins* copy_wait(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  BlockRun& block = *w.block;
  const auto& open = block.open_groups[w.index];
  bool gone = false;
  for (Copy& copy : block.copies) {
    if (copy.warp != w.index) continue;
    const uint32_t done = copy.mask & m & ~(i->imm < 0 ? 0 : unfinished(copy, open, static_cast<uint64_t>(i->imm)));
    land(block, copy, done);
    gone |= copy.mask == 0;
  }
  if (gone) forget_landed(block.copies);
  return i + 1;
}

const Ins* no_effect(Warp&, const Ins* i) { return i + 1; }
const Ins* fence(Warp& w, const Ins* i) {
  if (w.block->shadow && w.active(i)) w.block->shadow->fenced(w);
  return i + 1;
}

bool lower_copy(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.mods.empty() || s.mods[0] != "async") return false;
  if (has(s, "bulk") || has(s, "mbarrier")) return false;
  if (has(s, "commit_group")) {
    ins.fn = copy_commit;
  } else if (has(s, "wait_group")) {
    ins.fn = copy_wait;
    ins.imm = s.operands[0].value;
  } else if (has(s, "wait_all")) {
    ins.fn = copy_wait;
    ins.imm = -1;
  } else if (has(s, "ca") || has(s, "cg")) {
    ins.fn = copy_async;
    ins.space = SHARED_SPACE;
    l.address(s.operands[0], ins);
    Ins source;
    l.address(s.operands[1], source);
    ins.b = source.a;
    l.extra(ins).options[0] = static_cast<int>(source.imm);
    ins.bytes = static_cast<uint8_t>(s.operands[2].value);
    if (ins.bytes != 4 && ins.bytes != 8 && ins.bytes != 16) return false;
    const size_t count = s.operands.size() - has(s, "L2::cache_hint");
    if (count <= 3) return true;
    const bool ignores = s.operands[3].kind == OperandKind::Register && l.register_bytes(s.operands[3]) == 0;
    if (ignores) l.extra(ins).options[1] = s.operands[3].negated ? NEGATED_IGNORE : IGNORE;
    ins.c = l.slot(s.operands[3], ignores ? 0 : 4);
  }
  return ins.fn != nullptr;
}

bool lower_cvta(Lowering& l, Ins& ins);

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

/** A load of what others write meanwhile: a look at a flag, perhaps. */
const Ins* look_again(Warp& w, const Ins* i) {
  w.budget -= COST_OF_LOOK;
  return reinterpret_cast<Handler>(i->extra->readers[0])(w, i);
}

bool lower_load_store(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const bool loads = s.op != "st";
  ins.space = space_of(s);
  if (has(s, "async")) return false;
  const unsigned count = has(s, "v8") ? 8 : has(s, "v4") ? 4 : has(s, "v2") ? 2 : 1;
  const Operand& at = s.operands[loads ? 1 : 0];
  const Operand& value = s.operands[loads ? 0 : 1];
  const Operand& first = count > 1 ? value.items[0] : value;
  if (count > 1 && value.items.size() != count) return false;
  const std::string& type = s.mods.back();
  const int bits = atoi(type.c_str() + (type[0] == 'b' && type[1] == 'f' ? 2 : 1));
  const unsigned memory_bytes = static_cast<unsigned>(bits) / 8;
  const unsigned bytes = first.kind == OperandKind::Register ? l.register_bytes(first) : std::max(memory_bytes, 2u);
  l.address(at, ins);
  // The name of a kernel's parameter; what is passed to a call lies in local memory.
  const bool parameter = ins.space == PARAMETER_SPACE && at.reg < 0;
  if (parameter && (ins.imm < 0 || memory_bytes * count > l.parameter_bytes() ||
                    ins.imm > l.parameter_bytes() - memory_bytes * count))
    return false;
  ins.fn = loads ? find_load(type, bytes, count, parameter) : find_store(type, bytes, count);
  if (!ins.fn) return false;
  if (loads && ins.space == SHARED_SPACE) {
    if (ins.fn == load<uint32_t, uint32_t, 4>) ins.fn = load_shared_words4;
    if (ins.fn == load<uint32_t, uint32_t, 1>) ins.fn = load_shared_words;
    if (ins.fn == load<uint16_t, uint16_t, 1>) ins.fn = load_shared<uint16_t, uint16_t>;
  }
  if (!loads && ins.space == SHARED_SPACE && ins.fn == store<uint32_t, uint32_t, 1>) ins.fn = store_shared_words;
  ins.count = static_cast<uint8_t>(count);
  ins.bytes = static_cast<uint8_t>(memory_bytes);
  ins.read_only = has(s, "nc");
  if (has(s, "volatile")) ins.sharing = l.waits() ? Sharing::Synchronised : Sharing::Volatile;
  if (has(s, "relaxed") || has(s, "acquire") || has(s, "release")) ins.sharing = Sharing::Synchronised;
  if (loads && ins.sharing != Sharing::Plain) {
    l.extra(ins).readers[0] = reinterpret_cast<void (*)()>(ins.fn);
    ins.fn = look_again;
  }
  if (count == 1) {
    ins.d = l.slot(first, bytes);
    return true;
  }
  Extra& extra = l.extra(ins);
  for (const Operand& item : value.items)
    extra.d.push_back(item.kind == OperandKind::Sink ? NO_SLOT : l.slot(item, bytes));
  return true;
}

// --- cvta -----------------------------------------------------------------------------------------------------------

template <class D, class A, bool TO>
const Ins* convert_address(Warp& w, const Ins* i) {
  const A* a = w.reg<A>(i->a);
  const auto window = static_cast<uint64_t>(i->imm);
  write_lanes<D>(w, i->d, w.active(i), [=](int k) {
    return TO ? static_cast<D>(a[k] & (window ? ~WINDOW_MASK : ~0ull)) : static_cast<D>(a[k] | window);
  });
  return i + 1;
}

bool lower_cvta(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const bool to = has(s, "to");
  const uint8_t space = space_of(s);
  ins.imm = static_cast<int64_t>(space == SHARED_SPACE || space == CLUSTER_SPACE ? SHARED_WINDOW
                                 : space == LOCAL_SPACE                          ? LOCAL_WINDOW
                                 : space == PARAMETER_SPACE                      ? PARAMETER_WINDOW
                                                                                 : 0);
  const unsigned d = l.register_bytes(s.operands[0]);
  const unsigned a = s.operands[1].kind == OperandKind::Register ? l.register_bytes(s.operands[1]) : 8;
  ins.d = l.slot(s.operands[0], d);
  ins.a = l.slot(s.operands[1], a);
  if (d == 8 && a == 8)
    ins.fn = to ? convert_address<uint64_t, uint64_t, true> : convert_address<uint64_t, uint64_t, false>;
  if (d == 4 && a == 8 && to) ins.fn = convert_address<uint32_t, uint64_t, true>;
  return ins.fn != nullptr;
}

}  // namespace

void land_copies(BlockRun& block, unsigned warp, unsigned lane, uint64_t before) {
  for (Copy& copy : block.copies)
    if (copy.warp == warp && copy.number < before) land(block, copy, copy.mask & 1u << lane);
  forget_landed(block.copies);
}

bool lower_memory(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.op == "ld" || s.op == "ldu" || s.op == "st") return lower_load_store(l, ins);
  if (s.op == "atom" || s.op == "red") return lower_atomic(l, ins);
  if (s.op == "cp") return lower_copy(l, ins);
  if (s.op == "cvta") return lower_cvta(l, ins);
  if (s.op == "prefetch" || s.op == "prefetchu" || s.op == "applypriority" || s.op == "discard") {
    ins.fn = no_effect;
    return true;
  }
  if (s.op == "membar" || s.op == "fence") {
    ins.fn = fence;
    return true;
  }
  return false;
}

}  // namespace flashcore::emu::ptx
