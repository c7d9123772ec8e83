// cp.async and its groups, and fences.
#pragma once
#include <algorithm>
#include <utility>

#include "addresses.h"

namespace flashcore::emu::ptx {

namespace {

constexpr int IGNORE = 1, NEGATED_IGNORE = 2;

/**
 * Operands: c is the number of bytes to read; the rest become zeros. With options[1], c is a predicate, and true makes
 * all bytes zeros.
 */
const Ins* copy_async(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  if (!m) return i + 1;
  BlockRun& block = *w.block;
  block.copies.emplace_back();
  Copy& copy = block.copies.back();
  copy.mask = m;
  copy.warp = w.index;
  copy.bytes = i->bytes;
  copy.ins = i;
  copy.number = block.copies_issued++;
  // ncu counts a cp.async as neither a load nor a store, so its write to shared memory is not counted.
  Counters* const observed = std::exchange(block.observed, nullptr);
  Shadow* const shadow = std::exchange(block.shadow, nullptr);
  resolve_shared({w, i, m, i->bytes, Access::Write}, copy.to);
  block.observed = observed;
  block.shadow = shadow;
  uint32_t reading = 0;
  if (shadow) shadow->copy_begins({w, i, m, i->bytes, Access::Write}, copy.to);
  const bool ignores = i->c != NO_SLOT && i->extra->options[1];
  const uint32_t ignored = ignores ? w.pred(i->c) ^ (i->extra->options[1] == NEGATED_IGNORE ? ALL : 0) : 0;
  const uint32_t* sizes = i->c == NO_SLOT || ignores ? nullptr : w.reg<uint32_t>(i->c);
  const uint64_t* from = w.reg<uint64_t>(i->b);
  alignas(64) uint64_t addresses[LANES];
  for (unsigned k = 0; k < LANES; ++k) {
    copy.source_bytes[k] = sizes && sizes[k] < i->bytes ? static_cast<uint8_t>(sizes[k]) : i->bytes;
    if (ignored >> k & 1) copy.source_bytes[k] = 0;
    copy.from[k] = addresses[k] = from[k] + static_cast<uint64_t>(i->extra->options[0]);
    copy.group[k] = block.open_groups[w.index][k];
    reading |= m >> k & 1 && copy.source_bytes[k] == i->bytes ? 1u << k : 0u;
  }
  copy.whole = reading == m;
  Ins source = *i;
  source.space = GLOBAL_SPACE;
  if (copy.whole) {
    source.a = i->b;
    source.imm = i->extra->options[0];
    source.wide_address = 1;
    Pointers p;
    block.observed = nullptr;
    resolve({w, &source, m, i->bytes, Access::Read}, p);
    block.observed = observed;
  } else {
    reading = 0;
    for (unsigned k = 0; k < LANES; ++k) {
      if (!(m >> k & 1) || !copy.source_bytes[k]) continue;
      resolve_one({{w, &source, k}, copy.source_bytes[k], Access::Read}, copy.from[k], i->bytes);
      reading |= 1u << k;
    }
  }
  if (observed) observed->global(i, reading, i->bytes, addresses);
  return i + 1;
}

const Ins* copy_commit(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  auto& open = w.block->open_groups[w.index];
  for (int k = 0; k < LANES; ++k) open[k] += m >> k & 1;
  return i + 1;
}

/** The lanes for which a copy belongs to one of the lane's latest `most` groups, or to its open group. */
template <class Groups>
uint32_t unfinished(const Copy& copy, const Groups& open, uint64_t most) {
  bool any = false, all = true;
  for (int k = 0; k < LANES; ++k) {
    const bool waits = copy.group[k] + most >= open[k];
    any |= waits;
    all &= waits;
  }
  if (any == all) return any ? ALL : 0;
  uint32_t lanes = 0;
  for (int k = 0; k < LANES; ++k) lanes |= copy.group[k] + most >= open[k] ? 1u << k : 0u;
  return lanes;
}

/** Carries out a copy for the lanes that wait for it. */
void land(BlockRun& block, Copy& copy, uint32_t done, uint32_t stamp = 0) {
  if (!done) return;
  if (done == ALL && copy.whole && copy.bytes == 16) {
    for (int k = 0; k < LANES; ++k) memcpy(block.shared + copy.to[k], reinterpret_cast<const void*>(copy.from[k]), 16);
  } else {
    for (unsigned k = 0; k < LANES; ++k) {
      if (!(done >> k & 1)) continue;
      char* to = block.shared + copy.to[k];
      if (copy.source_bytes[k]) memcpy(to, reinterpret_cast<const void*>(copy.from[k]), copy.source_bytes[k]);
      memset(to + copy.source_bytes[k], 0, copy.bytes - copy.source_bytes[k]);
    }
  }
  if (block.shadow) {
    Warp& w = block.warps()[copy.warp];
    block.shadow->copy_ends({w, copy.ins, done, copy.bytes, Access::Write}, copy.to, stamp);
    block.shadow->follow_copies(w, copy.ins, {done, copy.to, copy.from, copy.source_bytes});
  }
  copy.mask &= ~done;
}
void forget_landed(std::vector<Copy>& copies) {
  copies.erase(std::remove_if(copies.begin(), copies.end(), [](const Copy& c) { return c.mask == 0; }), copies.end());
}

/**
 * Operands: imm is the number of newest committed groups that may stay unfinished. If negative, all groups must finish,
 * the open group too.
 */
const Ins* copy_wait(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  BlockRun& block = *w.block;
  const auto& open = block.open_groups[w.index];
  bool gone = false;
  for (Copy& copy : block.copies) {
    if (copy.warp != w.index) continue;
    const uint32_t done = copy.mask & m & ~(i->imm < 0 ? 0 : unfinished(copy, open, static_cast<uint64_t>(i->imm)));
    land(block, copy, done);
    gone |= copy.mask == 0;
  }
  if (gone) forget_landed(block.copies);
  return i + 1;
}

const Ins* no_effect(Warp&, const Ins* i) { return i + 1; }
const Ins* fence(Warp& w, const Ins* i) {
  if (w.block->shadow && w.active(i)) w.block->shadow->fence(w, i);
  return i + 1;
}

bool lower_copy(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.mods.empty() || s.mods[0] != "async") return false;
  if (has(s, "bulk") || has(s, "mbarrier")) return false;
  if (has(s, "commit_group")) {
    ins.fn = copy_commit;
  } else if (has(s, "wait_group")) {
    ins.fn = copy_wait;
    ins.imm = s.operands[0].value;
  } else if (has(s, "wait_all")) {
    ins.fn = copy_wait;
    ins.imm = -1;
  } else if (has(s, "ca") || has(s, "cg")) {
    ins.fn = copy_async;
    ins.space = SHARED_SPACE;
    l.address(s.operands[0], ins);
    Ins source;
    l.address(s.operands[1], source);
    ins.b = source.a;
    l.extra(ins).options[0] = static_cast<int>(source.imm);
    ins.bytes = static_cast<uint8_t>(s.operands[2].value);
    if (ins.bytes != 4 && ins.bytes != 8 && ins.bytes != 16) return false;
    const size_t count = s.operands.size() - has(s, "L2::cache_hint");
    if (count <= 3) return true;
    const bool ignores = s.operands[3].kind == OperandKind::Register && l.register_bytes(s.operands[3]) == 0;
    if (ignores) l.extra(ins).options[1] = s.operands[3].negated ? NEGATED_IGNORE : IGNORE;
    ins.c = l.slot(s.operands[3], ignores ? 0 : 4);
  }
  return ins.fn != nullptr;
}

}  // namespace

void land_copies(BlockRun& block, const CopyArrival& arrival) {
  for (Copy& copy : block.copies)
    if (copy.warp == arrival.warp && copy.number < arrival.before)
      land(block, copy, copy.mask & 1u << arrival.lane, arrival.stamp);
  forget_landed(block.copies);
}

}  // namespace flashcore::emu::ptx
