// Chooses which lanes of a warp run. Lanes at the same instruction form a split, and the split at the lowest
// instruction runs first. Splits that meet at an instruction merge.
#include "warp.h"

#include <algorithm>

#include "block.h"

namespace flashcore::emu::ptx {

namespace {
template <class Bits>
void blend_bits(Bits* d, const Bits* t, uint32_t m) {
#pragma GCC ivdep
  for (int k = 0; k < LANES; ++k) {
    const Bits keep = static_cast<Bits>(static_cast<Bits>(m >> k & 1) - 1);
    d[k] = static_cast<Bits>((t[k] & static_cast<Bits>(~keep)) | (d[k] & keep));
  }
}
}  // namespace

void blend(uint16_t* d, const uint16_t* t, uint32_t m) { blend_bits(d, t, m); }
void blend(uint32_t* d, const uint32_t* t, uint32_t m) { blend_bits(d, t, m); }
void blend(uint64_t* d, const uint64_t* t, uint32_t m) { blend_bits(d, t, m); }

bool Warp::has_runnable() const {
  return std::any_of(others.begin(), others.end(), [](const Split& s) { return s.state == SplitState::Runnable; });
}

const Ins* Warp::pick() {
  constexpr size_t NONE = ~size_t(0);
  size_t best = NONE;
  for (size_t n = 0; n < others.size(); ++n) {
    if (others[n].state != SplitState::Runnable) continue;
    for (size_t other = n + 1; other < others.size();) {
      if (others[other].pc == others[n].pc && others[other].state == SplitState::Runnable) {
        others[n].mask |= others[other].mask;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(other));
      } else {
        ++other;
      }
    }
    if (best == NONE || others[n].pc < others[best].pc) best = n;
  }
  ahead = false;
  if (best == NONE) return nullptr;
  if (rotate_) {
    // The split's turn is over. The next split runs, so that a lane that spins on another lane does not starve it.
    rotate_ = false;
    size_t after = NONE;
    for (size_t n = 0; n < others.size(); ++n)
      if (others[n].state == SplitState::Runnable && others[n].pc > last_ &&
          (after == NONE || others[n].pc < others[after].pc))
        after = n;
    if (after != NONE) best = after;
    ahead = after != NONE;
  }
  const Ins* pc = others[best].pc;
  mask = others[best].mask;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(best));
  return pc;
}

const Ins* Warp::go_on_at(const Ins* pc) {
  if (others.empty()) return pc;
  others.push_back({pc, mask});
  return pick();
}

const Ins* Warp::diverge(const Ins* to, uint32_t taken, const Ins* next) {
  others.push_back({to, taken});
  others.push_back({next, mask & ~taken});
  return pick();
}

const Ins* Warp::park(const Ins* pc, SplitState state, unsigned barrier, uint32_t wanted) {
  others.push_back({pc, mask, state, barrier, wanted});
  return pick();
}

const Ins* Warp::yield(const Ins* pc) {
  others.push_back({pc, mask});
  rotate_ = others.size() > 1;
  last_ = pc;
  yielded = true;
  return nullptr;
}

const Ins* Warp::exit_lanes(uint32_t lanes, const Ins* next) {
  live &= ~lanes;
  // Lanes that waited for the exited lanes check again whether they may continue.
  for (Split& split : others)
    if (split.state == SplitState::AtSync) split.state = SplitState::Runnable;
  block->complete_barriers_after_exit();
  mask &= ~lanes;
  if (mask) return go_on_at(next);
  return pick();
}

uint3 Warp::thread(unsigned lane) const { return block->thread_index(linear(lane)); }

namespace {
/** Names lanes in words: "lane 5", "lanes 0 to 31", "lanes 1, 3". */
std::string names_of(uint32_t lanes) {
  const int first = __builtin_ctz(lanes), last = 31 - __builtin_clz(lanes);
  if (first == last) return "lane " + std::to_string(first);
  if (__builtin_popcount(lanes) == last - first + 1)
    return "lanes " + std::to_string(first) + " to " + std::to_string(last);
  std::string names = "lanes";
  for (int lane = first; lane <= last; ++lane)
    if (lanes >> lane & 1) names += (lane == first ? " " : ", ") + std::to_string(lane);
  return names;
}
}  // namespace

void Warp::fail(const Ins* i, unsigned lane, Fault fault) {
  fault.has_thread = true;
  fault.thread = thread(lane);
  fault.warp = static_cast<int>(index);
  if (!fault.lanes) fault.lanes = faulty >> lane & 1 ? faulty : 1u << lane;
  faulty = 0;
  fault.place = block->place_of(i);
  fault.message = "thread " + describe(fault.thread) + " of block " + describe(block->index()) + " (warp " +
                  std::to_string(index) + ", " + names_of(fault.lanes) + ") " + std::move(fault.message);
  throw fault;
}

void Warp::fail_unsupported(const Ins* i, const std::string& what) {
  Fault fault;
  fault.kind = "TRAP";
  fault.message = "reached what the emulator does not carry: " + what;
  fail(i, mask ? static_cast<unsigned>(__builtin_ctz(mask)) : 0, std::move(fault));
}

}  // namespace flashcore::emu::ptx
