// Instructions that the lanes of a warp execute together. Lanes wait until all lanes of their member mask are at the
// instruction.
#pragma once
#include "block.h"
#include "lanes.h"

namespace flashcore::emu::ptx {

/** Groups the lanes of a split by the member mask that they name. Faults if a lane is not in its own mask. */
struct Meeting {
  uint32_t ready = 0;  // lanes that can continue
  uint32_t waiting = 0;  // lanes that wait for others
};

/** True if all lanes in `m` name the same members, and no other live lane is a member. */
inline bool all_here(Warp& w, const uint32_t* members, uint32_t m) {
  const uint32_t wanted = members[__builtin_ctz(m)];
  const uint32_t differs = ~lanes_with(members, wanted);
  return !(differs & m) && !(m & ~wanted) && !(wanted & w.live & ~m);
}

[[noreturn]] void fail_membership(Warp& w, const Ins* i, unsigned lane, uint32_t members);
/** Adds lanes that already wait at this instruction to the running split. */
void join_waiting(Warp& w, const Ins* i);
/** The lane that each lane reads in a shuffle: `computed`, or the constant lanes that lowering has found. */
const uint32_t* shuffle_sources(Warp& w, const Ins* i, uint32_t* computed);
const Ins* after_meeting(Warp& w, const Ins* i, uint32_t waiting);

/**
 * Runs body(lanes) for each group of lanes whose members are all here. The others wait. This orders no memory accesses:
 * of the warp functions only __syncwarp() does.
 */
template <class Body>
inline const Ins* together(Warp& w, const Ins* i, const uint32_t* members, Body body) {
  uint32_t m = w.active(i);
  if (!m) return i + 1;
  if (__builtin_expect(all_here(w, members, m), 1)) {
    body(m);
    return i + 1;
  }
  join_waiting(w, i);
  m = w.active(i);
  uint32_t waiting = 0;
  for (uint32_t left = m; left;) {
    const auto first = static_cast<unsigned>(__builtin_ctz(left));
    uint32_t group = 0;
    for (unsigned k = first; k < LANES; ++k)
      if ((left >> k & 1) && members[k] == members[first]) group |= 1u << k;
    left &= ~group;
    if (group & ~members[first])
      fail_membership(w, i, static_cast<unsigned>(__builtin_ctz(group & ~members[first])), members[first]);
    if (members[first] & w.live & ~group) {
      waiting |= group;
      continue;
    }
    body(group);
  }
  return after_meeting(w, i, waiting);
}

/** For instructions that need all lanes of the warp. */
template <class Body>
inline const Ins* whole_warp(Warp& w, const Ins* i, Body body) {
  if (__builtin_expect(w.mask == w.live && i->guard == NO_GUARD, 1)) {
    body(w.mask);
    return i + 1;
  }
  alignas(64) uint32_t all[LANES];
  for (uint32_t& each : all) each = ALL;
  return together(w, i, all, body);
}

}  // namespace flashcore::emu::ptx
