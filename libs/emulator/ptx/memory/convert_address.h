// cvta.
#pragma once
#include "../lanes.h"
#include "addresses.h"

namespace flashcore::emu::ptx {

namespace {

template <class D, class A, bool TO>
const Ins* convert_address(Warp& w, const Ins* i) {
  const A* a = w.reg<A>(i->a);
  const auto window = static_cast<uint64_t>(i->imm);
  write_lanes<D>(w, i->d, w.active(i), [=](int k) {
    return TO ? static_cast<D>(a[k] & (window ? ~WINDOW_MASK : ~0ull)) : static_cast<D>(a[k] | window);
  });
  return i + 1;
}

bool lower_cvta(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  const bool to = has(s, "to");
  const uint8_t space = space_of(s);
  ins.imm = static_cast<int64_t>(space == SHARED_SPACE || space == CLUSTER_SPACE ? SHARED_WINDOW
                                 : space == LOCAL_SPACE                          ? LOCAL_WINDOW
                                 : space == PARAMETER_SPACE                      ? PARAMETER_WINDOW
                                                                                 : 0);
  const unsigned d = l.register_bytes(s.operands[0]);
  const unsigned a = s.operands[1].kind == OperandKind::Register ? l.register_bytes(s.operands[1]) : 8;
  ins.d = l.slot(s.operands[0], d);
  ins.a = l.slot(s.operands[1], a);
  if (d == 8 && a == 8)
    ins.fn = to ? convert_address<uint64_t, uint64_t, true> : convert_address<uint64_t, uint64_t, false>;
  if (d == 4 && a == 8 && to) ins.fn = convert_address<uint32_t, uint64_t, true>;
  return ins.fn != nullptr;
}

}  // namespace

}  // namespace flashcore::emu::ptx
