// Which accesses to shared memory become one: ptxas joins neighbours, and what is counted is what it made.
#pragma once
#include <cstdint>
#include <vector>

#include "program.h"

namespace flashcore::emu::ptx {

/** How a statement's access to shared memory is counted. */
struct CountedAccess {
  bool joined = false;       // another one's request has it too: not counted
  unsigned bytes = 0;        // a lane, together with those that joined it; 0: its own
  int shift = 0;             // to the first byte, from its own address
  unsigned idle_requests = 0;  // loads that no lane takes part in, which ptxas puts before it
};

/** Accesses that become one, by their offset. */
struct Joined {
  bool loads;
  unsigned bytes;
  int64_t offset;
  std::vector<size_t> statements;
};

/** All of a function. */
std::vector<Joined> joined_accesses(const Program& program, const Function& function);

/** By statement. */
std::vector<CountedAccess> counted_accesses(const Program& program, const Function& function);

}  // namespace flashcore::emu::ptx
