// The contents of a mark, and how a report names it.
#pragma once
#include <algorithm>
#include <string>

#include "../lanes.h"
#include "../lower.h"
#include "../races.h"

namespace flashcore::emu::ptx {

namespace {

constexpr Mark VOLATILE = 1ull << 30, MEETS_ATOMICS = 1ull << 29;
constexpr Mark LANE_BITS = 31, THREAD_BITS = 2047;
constexpr unsigned ACTOR_SHIFT = 5, PLACE_SHIFT = 11;
constexpr uint64_t PLACES = 1 << 18, PLACE_BITS = (PLACES - 1) << PLACE_SHIFT;
constexpr uint16_t SEVERAL = 0xffff;
constexpr uint32_t NO_NOTE = ~0u;
constexpr uint32_t MOST_LINES = 4;  // a larger access counts as reading everything between its ends
constexpr size_t LOG_LENGTH = 8192, SHORT_LOG = 512;

uint32_t stamp_of(Mark mark) { return static_cast<uint32_t>(mark >> 32); }
unsigned actor_of(Mark mark) { return static_cast<unsigned>(mark >> ACTOR_SHIFT) % ACTORS; }
/** The thread that a mark names, if the actor is a warp. */
unsigned thread_of(Mark mark) { return actor_of(mark) * LANES + static_cast<unsigned>(mark & LANE_BITS); }
std::string place_of(const BlockRun& block, Mark mark) {
  return block.kernel().program->describe(static_cast<int>((mark & PLACE_BITS) >> PLACE_SHIFT));
}

/** The source line of an access and, if it is in another function, the kernel's line that calls the function. */
std::string called(const BlockRun& block, Mark mark) {
  const int place = static_cast<int>((mark & PLACE_BITS) >> PLACE_SHIFT);
  const std::string own = block.kernel().program->describe(place);
  const std::string caller = block.kernel().program->describe_caller(place);
  return caller.empty() || caller == own ? own : own + " (called at " + caller + ")";
}

/**
 * The value that a lane's st stores in the `count` bytes from byte n of the access on. Returns false if it is unknown.
 */
bool stored_value(const LaneAt& at, unsigned n, unsigned count, uint32_t* value) {
  const Ins* const i = at.i;
  if (!i || !i->lane_bytes || !i->bytes || count > 4) return false;
  char bytes[4] = {};
  for (unsigned k = 0; k < count; ++k, ++n) {
    const uint32_t slot = i->count == 1 ? i->d : i->extra->d[n / i->bytes];
    const unsigned byte = n % i->bytes;
    if (byte >= i->lane_bytes) return false;
    bytes[k] = at.w.regs[slot + at.lane * i->lane_bytes + byte];
  }
  memcpy(value, bytes, sizeof bytes);
  return true;
}

bool synchronises(const Ins* i, Access access) { return access == Access::ReadWrite || i->sharing != Sharing::Plain; }

/** True for accesses that do not race with one another. */
bool is_atomic(const Ins* i, Access access) {
  return access == Access::ReadWrite || i->sharing == Sharing::Waiting || i->sharing == Sharing::Synchronised;
}

constexpr const char* BESIDE_ATOMIC = " (one of the two is an atomic, which orders nothing)";
constexpr const char* BESIDE_BLOCK_SCOPE =
    " (one of the two is an atomic for its block only: .cta, thread_scope_block)";
const char* why_volatile(Mark either) { return either & VOLATILE ? " (volatile orders nothing)" : ""; }
bool are_apart(const uint32_t* offsets, uint32_t m) {
  for (uint32_t left = m; left; left &= left - 1) {
    const uint32_t lane = left & -left;
    if ((lanes_with(offsets, offsets[__builtin_ctz(left)]) & m) != lane) return false;
  }
  return true;
}

const char* verb(bool writes) { return writes ? " writes" : " reads"; }

}  // namespace

}  // namespace flashcore::emu::ptx
