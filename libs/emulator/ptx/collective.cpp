#include "collective.h"

#include <algorithm>
#include <string>

#include "lower.h"
#include "races.h"

namespace flashcore::emu::ptx {

void fail_membership(Warp& w, const Ins* i, unsigned lane, uint32_t members) {
  char text[16];
  snprintf(text, sizeof text, "0x%08x", members);
  Fault fault;
  fault.kind = "INVALID_WARP_MASK";
  fault.message = std::string("called ") + (i->extra ? i->extra->what : "a warp operation") + " with mask " + text +
                  ", in which its own lane " + std::to_string(lane) + " is missing";
  w.fail(i, lane, std::move(fault));
}

void join_waiting(Warp& w, const Ins* i) {
  for (size_t n = 0; n < w.others.size();) {
    const Split& split = w.others[n];
    if (split.pc == i && split.state == SplitState::AtSync) {
      w.mask |= split.mask;
      w.others.erase(w.others.begin() + static_cast<std::ptrdiff_t>(n));
    } else {
      ++n;
    }
  }
}

const Ins* after_meeting(Warp& w, const Ins* i, uint32_t waiting) {
  if (waiting) w.others.push_back({i, waiting, SplitState::AtSync});
  w.mask &= ~waiting;
  return w.mask ? w.go_on_at(i + 1) : w.pick();
}

namespace {

// --- bar.warp.sync: different instructions of a warp can meet -----------------------------------------------------

/** Orders what the members have accessed before what they access from here on. */
void order_memory(Warp& w, uint32_t members) {
  if (!(w.live & ~members))
    ++w.epoch;
  else if (w.block->shadow)
    w.block->shadow->lanes_meet(w, members);
}

const Ins* sync_warp(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  const uint32_t* members = w.reg<uint32_t>(i->a);
  if (all_here(w, members, m)) {
    order_memory(w, members[__builtin_ctz(m)]);
    return i + 1;
  }
  uint32_t waiting = 0, here = m;
  const uint32_t wanted = members[__builtin_ctz(m)];
  for (unsigned k = 0; k < LANES; ++k)
    if (m >> k & 1) {
      if (!(members[k] >> k & 1)) fail_membership(w, i, k, members[k]);
      if (members[k] != wanted) waiting |= 1u << k;
    }
  if (waiting) {  // the lanes name several masks: handle one mask after another
    w.others.push_back({i, waiting});
    w.mask &= ~waiting;
    here &= ~waiting;
  }
  for (const Split& split : w.others)
    if (split.state == SplitState::AtSync && split.pc->fn == sync_warp && split.wanted == wanted) here |= split.mask;
  if (wanted & w.live & ~here) return w.park(i, SplitState::AtSync, 0, wanted);
  for (Split& split : w.others)
    if (split.state == SplitState::AtSync && split.pc->fn == sync_warp && split.wanted == wanted) {
      split.state = SplitState::Runnable;
      ++split.pc;
    }
  order_memory(w, wanted);
  return w.go_on_at(i + 1);
}

// --- shuffles -------------------------------------------------------------------------------------------------------

enum class Shuffle : uint8_t { Up, Down, Butterfly, Index };

/** Computes which lane each lane reads, and which lanes have a source inside their segment. */
template <Shuffle MODE>
uint32_t sources_of(const uint32_t* b, const uint32_t* c, uint32_t* sources) {
  uint32_t inside = 0;
#pragma GCC ivdep
  for (int lane = 0; lane < LANES; ++lane) {
    const auto clamp = static_cast<int>(c[lane] & 31), segment = static_cast<int>(c[lane] >> 8 & 31);
    const auto by = static_cast<int>(b[lane] & 31);
    const int first = lane & segment, last = first | (clamp & ~segment);
    const int from = MODE == Shuffle::Up          ? lane - by
                     : MODE == Shuffle::Down      ? lane + by
                     : MODE == Shuffle::Butterfly ? lane ^ by
                                                  : first | (by & ~segment);
    const bool valid = MODE == Shuffle::Up ? from >= last : from <= last;
    sources[lane] = static_cast<uint32_t>(valid ? from : lane);
    inside |= valid ? 1u << lane : 0u;
  }
  return inside;
}

/**
 * Operands: a has the values, b the distance, c the clamp and the segment mask, extra->a[0] the members, extra->d[0] a
 * predicate or NO_SLOT. If distance and mask are constants, extra->b has the lanes to read and extra->c the lanes whose
 * source is inside the segment.
 */
template <Shuffle MODE>
const Ins* shuffle(Warp& w, const Ins* i) {
  return together(w, i, w.reg<uint32_t>(i->extra->a[0]), [&](uint32_t m) {
    alignas(64) uint32_t t[LANES], computed[LANES];
    const bool known = !i->extra->c.empty();
    const uint32_t inside =
        known ? i->extra->c[0] : sources_of<MODE>(w.reg<uint32_t>(i->b), w.reg<uint32_t>(i->c), computed);
    const uint32_t* const sources = known ? i->extra->b.data() : computed;
    permute_lanes(w.reg<uint32_t>(i->a), sources, t);
    // A value that is read from a lane that takes no part is undefined.
    uint32_t undefined = 0;
    if (__builtin_expect(m != ALL, 0))
      for (int k = 0; k < LANES; ++k)
        if (!(m >> (sources[k] & 31) & 1)) {
          t[k] = static_cast<uint32_t>(REGISTER_POISON);
          undefined |= m & 1u << k;
        }
    if (undefined && w.block->shadow) w.block->shadow->taint.shuffled_from_outside(w, i, undefined);
    write_lanes<uint32_t>(w, i->d, m, [&](int k) { return t[k]; });
    if (i->extra->d[0] != NO_SLOT) write_pred(w, i->extra->d[0], m, inside);
  });
}

template <Shuffle MODE>
void choose_shuffle(const Statement& s, Ins& ins, Extra& extra, const char* name) {
  ins.fn = shuffle<MODE>;
  extra.what = name;
  const Operand &b = s.operands[2], &c = s.operands[3];
  if (b.kind != OperandKind::Immediate || c.kind != OperandKind::Immediate) return;
  uint32_t distances[LANES], masks[LANES];
  std::fill_n(distances, LANES, static_cast<uint32_t>(b.value));
  std::fill_n(masks, LANES, static_cast<uint32_t>(c.value));
  extra.b.resize(LANES);
  extra.c.push_back(sources_of<MODE>(distances, masks, extra.b.data()));
}

bool lower_shuffle(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (!has(s, "sync") || s.operands.size() != 5) return false;
  Extra& extra = l.extra(ins);
  const Operand& d = s.operands[0];
  const bool pair = d.kind == OperandKind::Vector;
  ins.d = l.slot(pair ? d.items[0] : d, 4);
  extra.d.push_back(pair && d.items[1].kind == OperandKind::Register ? l.slot(d.items[1], 0) : NO_SLOT);
  ins.a = l.slot(s.operands[1], 4);
  ins.b = l.slot(s.operands[2], 4);
  ins.c = l.slot(s.operands[3], 4);
  extra.a.push_back(l.slot(s.operands[4], 4));
  if (has(s, "up"))
    choose_shuffle<Shuffle::Up>(s, ins, extra, "__shfl_up_sync()");
  else if (has(s, "down"))
    choose_shuffle<Shuffle::Down>(s, ins, extra, "__shfl_down_sync()");
  else if (has(s, "bfly"))
    choose_shuffle<Shuffle::Butterfly>(s, ins, extra, "__shfl_xor_sync()");
  else
    choose_shuffle<Shuffle::Index>(s, ins, extra, "__shfl_sync()");
  return true;
}

// --- votes, matches, reductions -------------------------------------------------------------------------------------

enum class Vote : uint8_t { All, Any, Uniform, Ballot };

/** Operands: imm is true if the predicate is negated. */
template <Vote MODE>
const Ins* vote(Warp& w, const Ins* i) {
  return together(w, i, w.reg<uint32_t>(i->b), [&](uint32_t m) {
    const uint32_t p = (w.pred(i->a) ^ (i->imm ? ALL : 0)) & m;
    switch (MODE) {
      case Vote::All: return write_pred(w, i->d, m, p == m ? ALL : 0);
      case Vote::Any: return write_pred(w, i->d, m, p ? ALL : 0);
      case Vote::Uniform: return write_pred(w, i->d, m, p == m || p == 0 ? ALL : 0);
      case Vote::Ballot: return write_lanes<uint32_t>(w, i->d, m, [=](int) { return p; });
    }
  });
}

bool lower_vote(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (!has(s, "sync")) return false;
  const bool ballot = has(s, "ballot");
  ins.d = l.slot(s.operands[0], ballot ? 4 : 0);
  ins.a = l.slot(s.operands[1], 0);
  ins.imm = s.operands[1].negated;
  ins.b = l.slot(s.operands[2], 4);
  ins.fn = ballot          ? vote<Vote::Ballot>
           : has(s, "all") ? vote<Vote::All>
           : has(s, "any") ? vote<Vote::Any>
                           : vote<Vote::Uniform>;
  l.extra(ins).what = ballot ? "__ballot_sync()" : has(s, "all") ? "__all_sync()" : "__any_sync()";
  return true;
}

template <class T, bool ALL_EQUAL>
const Ins* match(Warp& w, const Ins* i) {
  return together(w, i, w.reg<uint32_t>(i->b), [&](uint32_t m) {
    const T* a = w.reg<T>(i->a);
    alignas(64) uint32_t t[LANES] = {};
    bool equal = true;
    for (unsigned k = 0; k < LANES; ++k) {
      if (!(m >> k & 1)) continue;
      for (unsigned other = 0; other < LANES; ++other)
        if ((m >> other & 1) && a[other] == a[k]) t[k] |= 1u << other;
      equal = equal && t[k] == m;
    }
    write_lanes<uint32_t>(w, i->d, m, [&](int k) { return ALL_EQUAL ? (equal ? m : 0u) : t[k]; });
    if (ALL_EQUAL && i->extra->d[0] != NO_SLOT) write_pred(w, i->extra->d[0], m, equal ? ALL : 0);
  });
}

bool lower_match(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const bool all = has(s, "all"), wide = has(s, "b64");
  Extra& extra = l.extra(ins);
  const Operand& d = s.operands[0];
  const bool pair = d.kind == OperandKind::Vector;
  ins.d = l.slot(pair ? d.items[0] : d, 4);
  extra.d.push_back(pair && d.items[1].kind == OperandKind::Register ? l.slot(d.items[1], 0) : NO_SLOT);
  ins.a = l.slot(s.operands[1], wide ? 8 : 4);
  ins.b = l.slot(s.operands[2], 4);
  ins.fn = wide ? (all ? match<uint64_t, true> : match<uint64_t, false>)
                : (all ? match<uint32_t, true> : match<uint32_t, false>);
  extra.what = all ? "__match_all_sync()" : "__match_any_sync()";
  return true;
}

/** Operands: options[0] is 0 add, 1 min, 2 max, 3 and, 4 or, 5 xor. */
template <class T>
const Ins* reduce(Warp& w, const Ins* i) {
  return together(w, i, w.reg<uint32_t>(i->b), [&](uint32_t m) {
    const T* a = w.reg<T>(i->a);
    T sum{};
    bool first = true;
    for (unsigned k = 0; k < LANES; ++k) {
      if (!(m >> k & 1)) continue;
      const T x = a[k];
      if (first) {
        sum = x;
        first = false;
        continue;
      }
      switch (i->extra->options[0]) {
        case 0: sum = static_cast<T>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(x)); break;
        case 1: sum = x < sum ? x : sum; break;
        case 2: sum = x > sum ? x : sum; break;
        case 3: sum = static_cast<T>(static_cast<uint32_t>(sum) & static_cast<uint32_t>(x)); break;
        case 4: sum = static_cast<T>(static_cast<uint32_t>(sum) | static_cast<uint32_t>(x)); break;
        default: sum = static_cast<T>(static_cast<uint32_t>(sum) ^ static_cast<uint32_t>(x)); break;
      }
    }
    write_lanes<T>(w, i->d, m, [=](int) { return sum; });
  });
}

bool lower_reduce(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  static const char* const NAMES[] = {"add", "min", "max", "and", "or", "xor"};
  Extra& extra = l.extra(ins);
  const std::string& type = s.mods.back();
  if (type != "u32" && type != "s32" && type != "b32") return false;
  for (int n = 0; n < 6; ++n)
    if (has(s, NAMES[n])) extra.options[0] = n;
  ins.d = l.slot(s.operands[0], 4);
  ins.a = l.slot(s.operands[1], 4);
  ins.b = l.slot(s.operands[2], 4);
  ins.fn = type == "s32" ? reduce<int32_t> : reduce<uint32_t>;
  extra.what = "__reduce_sync()";
  return true;
}

const Ins* active_mask(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  write_lanes<uint32_t>(w, i->d, m, [=](int) { return m; });
  return i + 1;
}

const Ins* elect(Warp& w, const Ins* i) {
  return together(w, i, w.reg<uint32_t>(i->a), [&](uint32_t m) {
    const auto leader = static_cast<uint32_t>(__builtin_ctz(m));
    if (i->d != NO_SLOT) write_lanes<uint32_t>(w, i->d, m, [=](int) { return leader; });
    write_pred(w, i->extra->d[0], m, 1u << leader);
  });
}

}  // namespace

const uint32_t* shuffle_sources(Warp& w, const Ins* i, uint32_t* computed) {
  if (!i->extra->c.empty()) return i->extra->b.data();
  const Statement& s = w.block->kernel().function->statements[i->statement];
  const uint32_t *b = w.reg<uint32_t>(i->b), *c = w.reg<uint32_t>(i->c);
  if (has(s, "up"))
    sources_of<Shuffle::Up>(b, c, computed);
  else if (has(s, "down"))
    sources_of<Shuffle::Down>(b, c, computed);
  else if (has(s, "bfly"))
    sources_of<Shuffle::Butterfly>(b, c, computed);
  else
    sources_of<Shuffle::Index>(b, c, computed);
  return computed;
}

bool lower_warp(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.op == "shfl") return lower_shuffle(l, ins);
  if (s.op == "vote") return lower_vote(l, ins);
  if (s.op == "match") return lower_match(l, ins);
  if (s.op == "redux") return lower_reduce(l, ins);
  if (s.op == "activemask") {
    ins.fn = active_mask;
    ins.d = l.slot(s.operands[0], 4);
    return true;
  }
  if (s.op == "elect") {
    const Operand& d = s.operands[0];
    ins.fn = elect;
    if (d.items[0].kind == OperandKind::Register) ins.d = l.slot(d.items[0], 4);
    l.extra(ins).d.push_back(l.slot(d.items[1], 0));
    ins.a = l.slot(s.operands[1], 4);
    return true;
  }
  if (s.op == "bar" && has(s, "warp")) {
    ins.fn = sync_warp;
    ins.a = l.slot(s.operands[0], 4);
    l.extra(ins).what = "__syncwarp()";
    return true;
  }
  return false;
}

}  // namespace flashcore::emu::ptx
