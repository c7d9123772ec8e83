// A warp's meetings: shuffles, votes, matrix operations. Lanes meet when they do the same operation with the same mask.
// Each lane deposits a pointer and waits. The last lane computes for all and releases the others.
#pragma once
#include <cstdint>

#include "fibre.h"

namespace flashcore::emu {

class Block;

struct alignas(64) Meeting {
  void* deposits[32];
  int operation = 0;
  unsigned mask = 0;
  unsigned arrived = 0;  // number of lanes; 0: the slot is free

  /** Returns the deposits when no more lanes are expected; null for lanes that take no part. */
  void** complete();
};

struct Warp {
  static constexpr unsigned MAX_MEETINGS = 32;  // more are impossible: masks of waiting lanes are disjoint or differ

  Block* block = nullptr;
  Fibre* lanes = nullptr;  // the fibre of lane 0; the others follow
  unsigned existing = 0;  // lanes that the block has in this warp
  unsigned live = 0;  // the existing lanes that have not exited
  uint32_t epoch = 1;  // number of meetings so far; meetings order accesses before and after them
  unsigned meetings_in_use = 0;
  Meeting meetings[MAX_MEETINGS];

  /** The open meeting for this operation and mask, or a free slot. */
  unsigned find_or_open(int operation, unsigned mask);

 private:
  unsigned open(unsigned slot, int operation, unsigned mask);
  unsigned find_among_several(int operation, unsigned mask);
};

inline unsigned Warp::find_or_open(int operation, unsigned mask) {
  const Meeting& first = meetings[0];  // nearly always the only meeting
  if (first.arrived != 0 && first.operation == operation && first.mask == mask) return 0;
  return meetings_in_use == 0 ? open(0, operation, mask) : find_among_several(operation, mask);
}

inline unsigned Warp::open(unsigned slot, int operation, unsigned mask) {
  meetings[slot].operation = operation;
  meetings[slot].mask = mask;
  ++meetings_in_use;
  return slot;
}

__attribute__((noinline)) inline unsigned Warp::find_among_several(int operation, unsigned mask) {
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
  return open(free_slot, operation, mask);
}

inline void** Meeting::complete() {
  for (unsigned absent = ~arrived; absent != 0; absent &= absent - 1) deposits[__builtin_ctz(absent)] = nullptr;
  return deposits;
}

}  // namespace flashcore::emu
