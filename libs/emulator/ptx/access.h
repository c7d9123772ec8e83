// The memory locations of an instruction's lanes, checked and as host pointers.
#pragma once
#include "block.h"

namespace flashcore::emu::ptx {

enum AddressSpace : uint8_t {
  GLOBAL_SPACE,
  SHARED_SPACE,
  LOCAL_SPACE,
  PARAMETER_SPACE,
  GENERIC_SPACE,
                              /** Shared memory, including that of another block. */
  CLUSTER_SPACE
};

enum class Access : uint8_t { Read, Write, ReadWrite };

/** The address in a lane's operand, relative to its space. */
inline uint64_t address_of(Warp& w, const Ins* i, unsigned lane) {
  if (i->wide_address) return w.reg<uint64_t>(i->a)[lane] + static_cast<uint64_t>(i->imm);
  return w.reg<uint32_t>(i->a)[lane] + static_cast<uint32_t>(i->imm);
}

struct Pointers {
  alignas(64) char* at[LANES];  // lanes that take no part get the first lane's pointer
};

/** Host pointers of the lanes in `m` (not empty) for `bytes` bytes each; faults if one is outside its memory. */
void resolve(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, Pointers& p);

/** The checked shared-memory offsets of the lanes. Lanes outside `m` get the first lane's offset. */
void resolve_shared(Warp& w, const Ins* i, uint32_t m, unsigned bytes, Access access, uint32_t* offsets);

/** One range of shared or global memory that a lane names (a row of ldmatrix, a matrix of wmma.load). */
char* resolve_one(Warp& w, const Ins* i, unsigned lane, uint64_t address, uint64_t bytes, unsigned alignment,
                  Access access);

}  // namespace flashcore::emu::ptx
