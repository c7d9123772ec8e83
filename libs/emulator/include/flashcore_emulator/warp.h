// Operations of several lanes of a warp: shuffles, votes, matches and reductions. All use warp_meeting.
#pragma once
#include <cstring>
#include <type_traits>

#include "abi.h"

namespace flashcore::emu {

constexpr unsigned FULL_WARP = 0xffffffffu;

/**
 * All lanes of the group meet here, each with a `deposit`. One of them runs compute(Deposit* const* lanes), which
 * reads and writes all deposits; lanes[i] is lane i's deposit or null. Then all lanes continue.
 */
template <class Deposit, class Compute>
inline void warp_meeting(LaneGroup group, WaitingCall call, Deposit& deposit, Compute&& compute) {
  const Place& place = call.place;
  if (void** lanes =
          flashcore_emu_warp_arrive(group.operation, group.mask, &deposit, call.name, place.file, place.line)) {
    compute(reinterpret_cast<Deposit* const*>(lanes));
    flashcore_emu_warp_release();
  }
}

enum class ShuffleKind { Index, Up, Down, Xor };

template <class T>
struct ShuffleDeposit {
  T value;
  T result;
  int argument;
  int width;
};

/** The lane that lane `lane` reads from; `lane` itself if the source is outside its segment of `width` lanes. */
inline int shuffle_source(ShuffleKind kind, int lane, int argument, int width) {
  const int segment = lane & ~(width - 1);
  int source = lane;
  if (kind == ShuffleKind::Index) source = segment + (argument & (width - 1));
  if (kind == ShuffleKind::Up) source = lane - argument < segment ? lane : lane - argument;
  if (kind == ShuffleKind::Down) source = lane + argument >= segment + width ? lane : lane + argument;
  if (kind == ShuffleKind::Xor) source = (lane ^ argument) >= segment + width ? lane : lane ^ argument;
  return source;
}

template <class T>
inline T shuffle(ShuffleKind kind, unsigned mask, ShuffleDeposit<T> mine, WaitingCall call) {
  warp_meeting({WARP_SHUFFLE, mask}, call, mine, [kind](ShuffleDeposit<T>* const* lanes) {
    for (int lane = 0; lane < 32; ++lane) {
      if (!lanes[lane]) continue;
      const int source = shuffle_source(kind, lane, lanes[lane]->argument, lanes[lane]->width);
      // On a GPU, reading from a lane that takes no part is undefined. Here the reader gets its own value.
      if (source >= 0 && source < 32 && lanes[source]) lanes[lane]->result = lanes[source]->value;
    }
  });
  return mine.result;
}

struct VoteDeposit {
  unsigned predicate;
  unsigned ballot;
};

inline unsigned ballot(unsigned mask, int predicate, WaitingCall call) {
  VoteDeposit mine{predicate != 0, 0};
  warp_meeting({WARP_VOTE, mask}, call, mine, [](VoteDeposit* const* lanes) {
    unsigned result = 0;
    for (int lane = 0; lane < 32; ++lane)
      if (lanes[lane] && lanes[lane]->predicate) result |= 1u << lane;
    for (int lane = 0; lane < 32; ++lane)
      if (lanes[lane]) lanes[lane]->ballot = result;
  });
  return mine.ballot;
}

template <class T, class Combine>
inline T reduce(unsigned mask, T value, Combine combine, WaitingCall call) {
  warp_meeting({WARP_REDUCE, mask}, call, value, [combine](T* const* lanes) {
    T result{};
    bool first = true;
    for (int lane = 0; lane < 32; ++lane) {
      if (!lanes[lane]) continue;
      result = first ? *lanes[lane] : combine(result, *lanes[lane]);
      first = false;
    }
    for (int lane = 0; lane < 32; ++lane)
      if (lanes[lane]) *lanes[lane] = result;
  });
  return value;
}

template <class T>
struct MatchDeposit {
  T value;
  unsigned equal;  // lanes with the same value
  unsigned participants;  // lanes that have not exited
};

template <class T>
inline MatchDeposit<T> match(unsigned mask, T value, Place place) {
  MatchDeposit<T> mine{value, 0, 0};
  warp_meeting({WARP_MATCH, mask}, {"__match_sync()", place}, mine, [](MatchDeposit<T>* const* lanes) {
    for (int lane = 0; lane < 32; ++lane)
      for (int other = 0; lanes[lane] && other < 32; ++other) {
        if (!lanes[other]) continue;
        lanes[lane]->participants |= 1u << other;
        if (memcmp(&lanes[lane]->value, &lanes[other]->value, sizeof(T)) == 0) lanes[lane]->equal |= 1u << other;
      }
  });
  return mine;
}

}  // namespace flashcore::emu

inline void __syncwarp(unsigned mask = 0xffffffffu, FLASHCORE_PLACE_PARAMETERS) {
  char nothing = 0;
  flashcore::emu::warp_meeting({flashcore::emu::WARP_SYNC, mask}, {"__syncwarp()", {file, line}}, nothing,
                               [](char* const*) {});
}

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, FLASHCORE_PLACE_PARAMETERS) {
  return flashcore::emu::shuffle<T>(flashcore::emu::ShuffleKind::Index, mask, {value, value, source, width},
                                    {"__shfl_sync()", {file, line}});
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, FLASHCORE_PLACE_PARAMETERS) {
  return flashcore::emu::shuffle<T>(flashcore::emu::ShuffleKind::Up, mask, {value, value, int(delta), width},
                                    {"__shfl_up_sync()", {file, line}});
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, FLASHCORE_PLACE_PARAMETERS) {
  return flashcore::emu::shuffle<T>(flashcore::emu::ShuffleKind::Down, mask, {value, value, int(delta), width},
                                    {"__shfl_down_sync()", {file, line}});
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, FLASHCORE_PLACE_PARAMETERS) {
  return flashcore::emu::shuffle<T>(flashcore::emu::ShuffleKind::Xor, mask, {value, value, lane_mask, width},
                                    {"__shfl_xor_sync()", {file, line}});
}

inline unsigned __ballot_sync(unsigned mask, int predicate, FLASHCORE_PLACE_PARAMETERS) {
  return flashcore::emu::ballot(mask, predicate, {"__ballot_sync()", {file, line}});
}
inline int __any_sync(unsigned mask, int predicate, FLASHCORE_PLACE_PARAMETERS) {
  return flashcore::emu::ballot(mask, predicate, {"__any_sync()", {file, line}}) != 0;
}
inline int __all_sync(unsigned mask, int predicate, FLASHCORE_PLACE_PARAMETERS) {
  return flashcore::emu::ballot(mask, !predicate, {"__all_sync()", {file, line}}) == 0;
}
inline unsigned __activemask() { return flashcore_emu_active_mask(); }

template <class T>
inline unsigned __match_any_sync(unsigned mask, T value, FLASHCORE_PLACE_PARAMETERS) {
  return flashcore::emu::match(mask, value, {file, line}).equal;
}
template <class T>
inline unsigned __match_all_sync(unsigned mask, T value, int* all_equal, FLASHCORE_PLACE_PARAMETERS) {
  const auto matched = flashcore::emu::match(mask, value, {file, line});
  *all_equal = matched.equal == matched.participants;
  return *all_equal ? mask : 0;
}

template <class T>
inline T __reduce_add_sync(unsigned mask, T value, FLASHCORE_PLACE_PARAMETERS) {
  return flashcore::emu::reduce(mask, value, [](T a, T b) { return T(a + b); }, {"__reduce_add_sync()", {file, line}});
}
template <class T>
inline T __reduce_min_sync(unsigned mask, T value, FLASHCORE_PLACE_PARAMETERS) {
  return flashcore::emu::reduce(mask, value, [](T a, T b) { return b < a ? b : a; },
                                {"__reduce_min_sync()", {file, line}});
}
template <class T>
inline T __reduce_max_sync(unsigned mask, T value, FLASHCORE_PLACE_PARAMETERS) {
  return flashcore::emu::reduce(mask, value, [](T a, T b) { return a < b ? b : a; },
                                {"__reduce_max_sync()", {file, line}});
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value, FLASHCORE_PLACE_PARAMETERS) {
  return flashcore::emu::reduce(mask, value, [](unsigned a, unsigned b) { return a & b; },
                                {"__reduce_and_sync()", {file, line}});
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value, FLASHCORE_PLACE_PARAMETERS) {
  return flashcore::emu::reduce(mask, value, [](unsigned a, unsigned b) { return a | b; },
                                {"__reduce_or_sync()", {file, line}});
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value, FLASHCORE_PLACE_PARAMETERS) {
  return flashcore::emu::reduce(mask, value, [](unsigned a, unsigned b) { return a ^ b; },
                                {"__reduce_xor_sync()", {file, line}});
}
