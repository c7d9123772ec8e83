// mov of several registers into one, and of one into several.
#pragma once
#include "../lanes.h"
#include "../lower.h"

namespace flashcore::emu::ptx {

namespace {

/** mov.b64 {a, b}, mov.b32 {h, h} and back. */
template <class Part, int PARTS>
const Ins* unpack(Warp& w, const Ins* i) {
  alignas(64) Part t[PARTS][LANES];
  const Part* a = w.reg<Part>(i->a);
  for (int p = 0; p < PARTS; ++p)
    for (int k = 0; k < LANES; ++k) t[p][k] = a[k * PARTS + p];
  const uint32_t m = w.active(i);
  for (int p = 0; p < PARTS; ++p)
    if (i->extra->d[p] != NO_SLOT) write_lanes<Part>(w, i->extra->d[p], m, [&](int k) { return t[p][k]; });
  return i + 1;
}
/** The common case: two halves of 32 bits. */
const Ins* unpack_halves(Warp& w, const Ins* i) {
  const uint32_t m = w.active(i);
  alignas(64) uint16_t high[LANES];
  const uint32_t* a = w.reg<uint32_t>(i->a);
  for (int k = 0; k < LANES; ++k) high[k] = static_cast<uint16_t>(a[k] >> 16);
  const uint32_t low_slot = i->extra->d[0], high_slot = i->extra->d[1];
  if (low_slot != NO_SLOT) write_lanes<uint16_t>(w, low_slot, m, [=](int k) { return static_cast<uint16_t>(a[k]); });
  if (high_slot != NO_SLOT) write_lanes<uint16_t>(w, high_slot, m, [&](int k) { return high[k]; });
  return i + 1;
}
template <class Part, int PARTS>
const Ins* pack(Warp& w, const Ins* i) {
  alignas(64) Part t[PARTS * LANES];
  for (int p = 0; p < PARTS; ++p) {
    const Part* a = w.reg<Part>(i->extra->a[p]);
    for (int k = 0; k < LANES; ++k) t[k * PARTS + p] = a[k];
  }
  const uint32_t m = w.active(i);
  Part* d = w.reg<Part>(i->d);
  if (m == ALL) {
    memcpy(d, t, sizeof t);
  } else {
    for (int k = 0; k < LANES; ++k)
      if (m >> k & 1)
        for (int p = 0; p < PARTS; ++p) d[k * PARTS + p] = t[k * PARTS + p];
  }
  return i + 1;
}

bool lower_move(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const Operand &d = s.operands[0], &a = s.operands[1];
  const bool unpacks = d.kind == OperandKind::Vector;
  if (!unpacks && a.kind != OperandKind::Vector) return false;
  const unsigned bytes =
      s.mods[0] == "b64" || s.mods[0] == "u64" ? 8 : (s.mods[0] == "b32" || s.mods[0] == "u32" ? 4 : 0);
  const size_t parts = unpacks ? d.items.size() : a.items.size();
  const unsigned part = parts ? bytes / static_cast<unsigned>(parts) : 0;
  Extra& extra = l.extra(ins);
  if (unpacks) {
    for (const Operand& item : d.items)
      extra.d.push_back(item.kind == OperandKind::Sink ? NO_SLOT : l.slot(item, part));
    ins.a = l.slot(a, bytes);
    ins.fn = parts == 2 && part == 4   ? unpack<uint32_t, 2>
             : parts == 2 && part == 2 ? unpack_halves
             : parts == 4 && part == 2 ? unpack<uint16_t, 4>
                                       : nullptr;
  } else {
    for (const Operand& item : a.items) extra.a.push_back(l.slot(item, part));
    ins.d = l.slot(d, bytes);
    ins.fn = parts == 2 && part == 4   ? pack<uint32_t, 2>
             : parts == 2 && part == 2 ? pack<uint16_t, 2>
             : parts == 4 && part == 2 ? pack<uint16_t, 4>
                                       : nullptr;
  }
  return ins.fn != nullptr;
}

}  // namespace

}  // namespace flashcore::emu::ptx
