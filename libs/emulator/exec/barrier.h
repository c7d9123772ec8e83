// The 16 barriers of a block. Barrier 0 without a count is __syncthreads: it completes when all threads that have not
// exited have arrived (on a GPU, too, an exited thread counts as arrived).
#pragma once
#include "fibre.h"

namespace flashcore::emu {

inline bool operator==(const Place& a, const Place& b) { return a.line == b.line && a.file == b.file; }

struct Barrier {
  unsigned arrived = 0;
  unsigned expected = 0;  // 0: every live thread of the block; else a named barrier, reached from any lines
  int accumulated = 0;  // __syncthreads_count, _and, _or
  bool divergent = false;  // threads met here from __syncthreads in different source lines
  Place first_place{};
  Fibre* waiting_head = nullptr;
  Fibre* waiting_tail = nullptr;

  void reset() { *this = Barrier(); }
  bool in_use() const { return arrived != 0; }
  /** Adds a thread's predicate to the reduction before the thread joins the waiting list. */
  void accumulate(int reduction, int predicate);
};

inline void Barrier::accumulate(int reduction, int predicate) {
  if (!waiting_head) accumulated = reduction == BARRIER_AND ? 1 : 0;
  const int truth = predicate != 0;
  if (reduction == BARRIER_COUNT) accumulated += truth;
  if (reduction == BARRIER_AND) accumulated &= truth;
  if (reduction == BARRIER_OR) accumulated |= truth;
}

}  // namespace flashcore::emu
