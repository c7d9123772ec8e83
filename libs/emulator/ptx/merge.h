// Finds accesses to shared memory that ptxas joins into one. Counts are about the joined accesses.
#pragma once
#include <cstdint>
#include <vector>

#include "program.h"

namespace flashcore::emu::ptx {

/** How a statement's access to shared memory is counted. */
struct CountedAccess {
  bool joined = false;       // part of another statement's request: not counted
  unsigned bytes = 0;        // per lane, including the accesses that joined it; 0: unchanged
  int shift = 0;             // from its own address to the first byte
  unsigned idle_requests = 0;  // loads without active lanes that ptxas puts before it
};

/** Accesses that ptxas joins into one, by offset. */
struct Joined {
  bool loads;
  unsigned bytes;
  int64_t offset;
  std::vector<size_t> statements;
};

/** All joined accesses of a function. */
std::vector<Joined> joined_accesses(const Program& program, const Function& function);

/** Indexed by statement. */
std::vector<CountedAccess> counted_accesses(const Program& program, const Function& function);

}  // namespace flashcore::emu::ptx
