// A warp's meetings: shuffles, votes, matrix operations. Lanes meet when they do the same operation with the same mask;
// each deposits a pointer and waits, the last computes for all and lets the others go.
#pragma once
#include <cstdint>

#include "../include/flashcore_emulator/abi.h"

namespace flashcore::emu {

struct Meeting {
  int operation = 0;
  unsigned mask = 0;
  unsigned arrived = 0;  // lanes; 0: the slot is free
  void* deposits[32];
};

struct Warp {
  static constexpr unsigned MAX_MEETINGS = 32;  // masks of lanes that wait are disjoint or differ: never more

  unsigned first_thread = 0;  // linear index of lane 0
  unsigned existing = 0;  // lanes that the block has in this warp
  unsigned live = 0;  // of those, lanes that have not exited
  uint32_t epoch = 1;  // counts meetings: what lies between two of them is ordered
  unsigned meetings_in_use = 0;
  Meeting meetings[MAX_MEETINGS];

  /** The open meeting of this operation and mask, or a free slot for it. */
  unsigned find_or_open(int operation, unsigned mask);
};

inline unsigned Warp::find_or_open(int operation, unsigned mask) {
  unsigned free_slot = MAX_MEETINGS;
  unsigned seen = 0;
  for (unsigned slot = 0; slot < MAX_MEETINGS; ++slot) {
    const Meeting& meeting = meetings[slot];
    if (meeting.arrived == 0) {
      if (free_slot == MAX_MEETINGS) free_slot = slot;
      if (seen == meetings_in_use) break;
      continue;
    }
    if (meeting.operation == operation && meeting.mask == mask) return slot;
    ++seen;
  }
  Meeting& opened = meetings[free_slot];
  opened.operation = operation;
  opened.mask = mask;
  ++meetings_in_use;
  for (void*& deposit : opened.deposits) deposit = nullptr;
  return free_slot;
}

}  // namespace flashcore::emu
