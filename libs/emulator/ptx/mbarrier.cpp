#include "mbarrier.h"

#include <algorithm>
#include <utility>

#include "cluster.h"
#include "lower.h"
#include "races.h"

namespace flashcore::emu::ptx {

namespace {
constexpr int64_t MOST_ARRIVALS = (1 << 20) - 1, MOST_BYTES = (1 << 20) - 1;

std::string name_of(const BlockRun& block, uint32_t offset, const Mbarrier& barrier) {
  return "mbarrier at byte " + std::to_string(offset) + " of shared memory (initialised at " +
         block.place_of(barrier.made) + ")";
}
}  // namespace

Mbarrier& Mbarriers::initialise(uint32_t offset, uint32_t count, const Ins* i) {
  Mbarrier& barrier = barriers_[offset];
  barrier = Mbarrier();
  barrier.expected = count;
  barrier.pending = count;
  barrier.made = i;
  barrier.copier = FIRST_COPIER + made_++ % COPIERS;
  return barrier;
}

Mbarrier* Mbarriers::find(uint32_t offset) {
  const auto found = barriers_.find(offset);
  return found == barriers_.end() ? nullptr : &found->second;
}

void Mbarriers::complete_if_full(BlockRun& block, uint32_t offset, Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.expected;
  barrier.clocks.end_phase();
  // An arrival from another block may order warps of this block. That is not tracked, so a new epoch orders all of
  // them.
  if (std::exchange(barrier.from_outside, false)) ++block.epoch;
  if (!std::exchange(barrier.awaited, false)) return;
  for (Warp& w : block.warps())
    for (Split& split : w.others) {
      if (split.state != SplitState::AtMbarrier || split.barrier != offset) continue;
      if (block.shadow && !split.pc->extra->options[0]) block.shadow->passes(w, barrier.clocks);
      write_pred(w, split.pc->d, split.mask, ALL);
      split.state = SplitState::Runnable;
      ++split.pc;
    }
}

namespace {
void join_arrival(PhaseClocks& clocks, const CopyArrival& arrival) {
  uint32_t& stamp = clocks.arriving[arrival.warp];
  stamp = std::max(stamp, arrival.stamp);
}
}  // namespace

void Mbarriers::land(BlockRun& block, uint32_t offset, Mbarrier& barrier) {
  for (const BulkCopy& copy : std::exchange(barrier.coming, {})) {
    carry_out(copy, block, barrier);
    barrier.bytes -= copy.bytes;
  }
  for (const CopyArrival& arrival : std::exchange(barrier.arriving, {})) {
    land_copies(block, arrival);
    if (block.shadow) join_arrival(barrier.clocks, arrival);
    --barrier.pending;
  }
  complete_if_full(block, offset, barrier);
}

bool Mbarriers::land_all(BlockRun& block) {
  bool any = false;
  for (auto& [offset, barrier] : barriers_) {
    if (!barrier.has_something_coming()) continue;
    any = true;
    land(block, offset, barrier);
  }
  return any;
}

void Mbarriers::describe_waited(const BlockRun& block, std::string& message) const {
  for (const auto& [offset, barrier] : barriers_) {
    if (!barrier.awaited) continue;
    message += "; the " + name_of(block, offset, barrier) + " lacks ";
    if (barrier.pending > 0)
      message += std::to_string(barrier.pending) + " of " + std::to_string(barrier.expected) +
                 (barrier.expected == 1 ? " arrival" : " arrivals");
    if (barrier.bytes == 0) continue;
    message += (barrier.pending > 0 ? " and " : "") + std::to_string(barrier.bytes) + " bytes";
    if (barrier.announced) message += " that were announced at " + block.place_of(barrier.announced);
  }
}

Mbarrier& barrier_at(const LaneAt& at, BlockRun** block, uint32_t* offset) {
  const SharedPlace place = shared_place(at, 8, 8);
  Mbarrier* barrier = place.block->mbarriers.find(place.offset);
  if (!barrier)
    misused(at, "INVALID_BARRIER",
            "used the mbarrier at byte " + std::to_string(place.offset) + " of shared memory, which nobody has " +
                "initialised (mbarrier.init, and a barrier before others use it)");
  *block = place.block;
  *offset = place.offset;
  return *barrier;
}

namespace {

// --- initialization ---------------------------------------------------------------------------------------------------

/** Operands: b is the number of arrivals per phase. */
const Ins* initialise(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i), *count = w.reg<uint32_t>(i->b);
  for (unsigned lane = 0; lane < LANES; ++lane) {
    if (!(m >> lane & 1)) continue;
    const SharedPlace place = shared_place({w, i, lane}, 8, 8);
    if (count[lane] < 1 || count[lane] > MOST_ARRIVALS)
      misused({w, i, lane}, "INVALID_BARRIER",
              "initialised an mbarrier for " + std::to_string(count[lane]) + " arrivals: must be 1 to " +
                  std::to_string(MOST_ARRIVALS));
    place.block->mbarriers.initialise(place.offset, count[lane], i);
    memset(place.block->shared + place.offset, 0, 8);
    if (place.block->shadow) place.block->shadow->written_from_outside(place.offset, 8);
  }
  return i + 1;
}

const Ins* invalidate(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  for (unsigned lane = 0; lane < LANES; ++lane) {
    if (!(m >> lane & 1)) continue;
    const SharedPlace place = shared_place({w, i, lane}, 8, 8);
    place.block->mbarriers.forget(place.offset);
  }
  return i + 1;
}

// --- arrivals ---------------------------------------------------------------------------------------------------------

enum ArriveOption { COUNTS_BYTES = 1, DROPS = 2, ARRIVES = 4, TAKES_BYTES = 8, RELAXED = 16 };

/**
 * Operands: options[0] is an ArriveOption; b the number of arrivals or bytes, or NO_SLOT for one; d the state or
 * NO_SLOT.
 */
const Ins* arrive(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  const int options = i->extra->options[0];
  const uint32_t* number = i->b == NO_SLOT ? nullptr : w.reg<uint32_t>(i->b);
  for (unsigned lane = 0; lane < LANES; ++lane) {
    if (!(m >> lane & 1)) continue;
    BlockRun* block;
    uint32_t offset;
    Mbarrier& barrier = barrier_at({w, i, lane}, &block, &offset);
    if ((options & ARRIVES) && block != w.block)
      barrier.from_outside = true;
    else if ((options & ARRIVES) && block->shadow)
      block->shadow->arrives(w, barrier.clocks, !(options & RELAXED));
    if (i->d != NO_SLOT) w.reg<uint64_t>(i->d)[lane] = barrier.phase;
    if (options & COUNTS_BYTES) {
      barrier.bytes += number[lane];
      barrier.announced = i;
      if (barrier.bytes > MOST_BYTES)
        misused({w, i, lane}, "INVALID_BARRIER",
                "announced bytes until the " + name_of(*block, offset, barrier) + " waits for " +
                    std::to_string(barrier.bytes) + ": at most " + std::to_string(MOST_BYTES));
    }
    if (options & TAKES_BYTES) barrier.bytes -= number[lane];
    if (options & ARRIVES) {
      const int64_t count = number && !(options & COUNTS_BYTES) ? number[lane] : 1;
      if (options & DROPS) barrier.expected -= static_cast<uint32_t>(count);
      barrier.pending -= count;
      if (barrier.pending < 0)
        misused({w, i, lane}, "INVALID_BARRIER",
                "arrived at the " + name_of(*block, offset, barrier) + " more often than the " +
                    std::to_string(barrier.expected) + " times that a phase has");
    }
    if (barrier.awaited && barrier.has_something_coming())
      block->mbarriers.land(*block, offset, barrier);
    else
      block->mbarriers.complete_if_full(*block, offset, barrier);
  }
  return w.others.empty() ? i + 1 : w.go_on_at(i + 1);
}

/**
 * Operands: options[0] is true if the arrival is one of the phase's expected arrivals (.noinc), false if it is
 * additional.
 */
const Ins* arrive_after_copies(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  for (unsigned lane = 0; lane < LANES; ++lane) {
    if (!(m >> lane & 1)) continue;
    BlockRun* block;
    uint32_t offset;
    Mbarrier& barrier = barrier_at({w, i, lane}, &block, &offset);
    if (block != w.block)
      misused({w, i, lane}, "INVALID_BARRIER", "has its copies arrive at an mbarrier of another block");
    if (!i->extra->options[0]) ++barrier.pending;
    if (static_cast<int64_t>(barrier.arriving.size()) >= barrier.pending)
      misused({w, i, lane}, "INVALID_BARRIER",
              "arrived at the " + name_of(*block, offset, barrier) + " more often than the " +
                  std::to_string(barrier.expected) + " times that a phase has");
    const uint32_t stamp = block->shadow ? block->shadow->arrives_after_copies(w) : 0;
    barrier.arriving.push_back({w.index, lane, block->copies_issued, stamp});
    if (barrier.awaited) block->mbarriers.land(*block, offset, barrier);
  }
  return w.others.empty() ? i + 1 : w.go_on_at(i + 1);
}

// --- waits ------------------------------------------------------------------------------------------------------------

/**
 * Operands: d tells whether the phase is complete; b is a parity (PARITY) or the state of an arrival. A try_wait
 * (BLOCKS) waits. A test_wait that fails lets the other warps run.
 */
template <bool PARITY, bool BLOCKS>
const Ins* wait(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  const bool is_relaxed = i->extra->options[0] != 0;
  uint32_t done = 0, left = 0, offsets[LANES];
  for (unsigned lane = 0; lane < LANES; ++lane) {
    if (!(m >> lane & 1)) continue;
    BlockRun* block;
    Mbarrier& barrier = barrier_at({w, i, lane}, &block, &offsets[lane]);
    if (block != w.block)
      misused({w, i, lane}, "INVALID_BARRIER", "waits for an mbarrier of another block: only its own block can");
    const auto passed = [&] {
      if (PARITY) return (barrier.phase & 1) != (w.reg<uint32_t>(i->b)[lane] & 1);
      return barrier.phase > w.reg<uint64_t>(i->b)[lane];
    };
    if (!passed()) block->mbarriers.land(*block, offsets[lane], barrier);
    if (passed()) {
      done |= 1u << lane;
      if (block->shadow && !is_relaxed) block->shadow->passes(w, barrier.clocks);
    } else {
      left |= 1u << lane;
      barrier.awaited |= BLOCKS;
    }
  }
  if (done) ++w.epoch;
  if (!BLOCKS) {
    write_pred(w, i->d, m, done);
    return done ? i + 1 : w.yield(i + 1);
  }
  write_pred(w, i->d, done, ALL);
  if (!left) return i + 1;
  w.mask &= ~left;
  while (left) {
    const uint32_t offset = offsets[__builtin_ctz(left)];
    uint32_t group = 0;
    for (unsigned lane = 0; lane < LANES; ++lane)
      if ((left >> lane & 1) && offsets[lane] == offset) group |= 1u << lane;
    w.others.push_back({i, group, SplitState::AtMbarrier, offset});
    left &= ~group;
  }
  return w.mask ? w.go_on_at(i + 1) : w.pick();
}

bool lower_wait(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const bool parity = has(s, "parity"), blocks = has(s, "try_wait");
  ins.d = l.slot(s.operands[0], 0);
  ins.b = l.slot(s.operands[2], parity ? 4 : 8);
  l.extra(ins).options[0] = has(s, "relaxed");
  l.extra(ins).what = blocks ? "mbarrier.try_wait" : "mbarrier.test_wait";
  ins.fn = parity ? (blocks ? wait<true, true> : wait<true, false>) : (blocks ? wait<false, true> : wait<false, false>);
  return true;
}

}  // namespace

bool lower_mbarrier(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.op == "cp" && has(s, "mbarrier")) {
    ins.space = has(s, "shared") || has(s, "shared::cta") ? CLUSTER_SPACE : GENERIC_SPACE;
    l.address(s.operands[0], ins);
    l.extra(ins).options[0] = has(s, "noinc");
    ins.fn = arrive_after_copies;
    return true;
  }
  if (s.op != "mbarrier" || has(s, "pending_count") || has(s, "noComplete")) return false;
  ins.space = has(s, "shared::cluster") || has(s, "shared") || has(s, "shared::cta") ? CLUSTER_SPACE : GENERIC_SPACE;
  const size_t address = s.operands[0].kind == OperandKind::Address ? 0 : 1;
  l.address(s.operands[address], ins);
  const Operand* number = s.operands.size() > address + 1 ? &s.operands[address + 1] : nullptr;
  if (has(s, "test_wait") || has(s, "try_wait")) return lower_wait(l, ins);
  if (number) ins.b = l.slot(*number, 4);
  if (!number && (has(s, "init") || has(s, "expect_tx") || has(s, "complete_tx"))) return false;
  if (has(s, "init")) {
    ins.fn = initialise;
  } else if (has(s, "inval")) {
    ins.fn = invalidate;
  } else {
    const bool arrives = has(s, "arrive"), drops = has(s, "arrive_drop");
    const bool counts = has(s, "expect_tx"), takes = has(s, "complete_tx");
    if (!arrives && !drops && !counts && !takes) return false;
    l.extra(ins).options[0] = (counts ? COUNTS_BYTES : 0) | (drops ? DROPS : 0) | (arrives || drops ? ARRIVES : 0) |
                              (takes ? TAKES_BYTES : 0) | (has(s, "relaxed") ? RELAXED : 0);
    if (address == 1 && s.operands[0].kind == OperandKind::Register) ins.d = l.slot(s.operands[0], 8);
    ins.fn = arrive;
  }
  return true;
}

}  // namespace flashcore::emu::ptx
