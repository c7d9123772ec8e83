// Runs rare operations lane by lane. A function computes the results from the operands' bits.
#pragma once
#include <initializer_list>

#include "../lower.h"

namespace flashcore::emu::ptx {

namespace {

using Word = uint64_t;

Word read_lane(Warp& w, uint32_t slot, unsigned bytes, unsigned lane) {
  switch (bytes) {
    case 0: return w.pred(slot) >> lane & 1;
    case 2: return w.reg<uint16_t>(slot)[lane];
    case 4: return w.reg<uint32_t>(slot)[lane];
    default: return w.reg<uint64_t>(slot)[lane];
  }
}
struct Destination {
  uint32_t slot;
  unsigned bytes;
};
void write_lane(Warp& w, const Destination& to, unsigned lane, Word value) {
  const uint32_t slot = to.slot;
  switch (to.bytes) {
    case 0: return write_pred(w, slot, 1u << lane, value ? ALL : 0);
    case 2: w.reg<uint16_t>(slot)[lane] = static_cast<uint16_t>(value); break;
    case 4: w.reg<uint32_t>(slot)[lane] = static_cast<uint32_t>(value); break;
    default: w.reg<uint64_t>(slot)[lane] = value;
  }
}

constexpr unsigned MOST_OPERANDS = 5;

const Ins* lane_by_lane(Warp& w, const Ins* i) {
  const Extra& x = *i->extra;
  const uint32_t m = w.active(i);
  for (unsigned lane = 0; lane < LANES; ++lane) {
    if (!(m >> lane & 1)) continue;
    Word in[MOST_OPERANDS] = {}, out[2] = {};
    for (size_t n = 0; n < x.a.size(); ++n) in[n] = read_lane(w, x.a[n], x.a_bytes[n], lane);
    x.each_lane(w, lane, in, out);
    for (size_t n = 0; n < x.d.size(); ++n) write_lane(w, {x.d[n], x.d_bytes[n]}, lane, out[n]);
  }
  return i + 1;
}

using EachLane = void (*)(Warp&, unsigned, const Word*, Word*);

/** The bytes of an instruction's results and operands. */
struct Widths {
  std::initializer_list<unsigned> d, a;
};

/**
 * Takes operands of this many bytes. A 1-byte operand may be in a register of any width. A 0-byte operand is a
 * predicate, whose negation (!) the caller must handle.
 */
template <class Each>
bool bind(Lowering& l, Ins& ins, const Widths& widths, Each each) {
  const auto& [d, a] = widths;
  const Statement& s = l.statement();
  Extra& extra = l.extra(ins);
  if (s.operands.size() < 1 + a.size()) return false;
  const auto width = [&](const Operand& o, unsigned bytes) {
    return bytes != 1 ? bytes : (o.kind == OperandKind::Register ? l.register_bytes(o) : 4u);
  };
  const Operand& to = s.operands[0];
  size_t n = 0;
  for (const unsigned bytes : d) {
    const Operand& o = to.kind == OperandKind::Vector ? to.items[n] : to;
    ++n;
    extra.d.push_back(l.slot(o, width(o, bytes)));
    extra.d_bytes.push_back(static_cast<uint8_t>(width(o, bytes)));
  }
  n = 1;
  for (const unsigned bytes : a) {
    const Operand& o = s.operands[n++];
    if (o.negated && bytes != 0) return false;
    extra.a.push_back(l.slot(o, width(o, bytes)));
    extra.a_bytes.push_back(static_cast<uint8_t>(width(o, bytes)));
  }
  extra.each_lane = std::move(each);
  ins.fn = lane_by_lane;
  return true;
}

}  // namespace

}  // namespace flashcore::emu::ptx
