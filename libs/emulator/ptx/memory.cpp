// Loads, stores, atomics and cp.async. Every address is checked.
#include "lanes.h"
#include "lower.h"
#include "memory/addresses.h"
#include "memory/atomics.h"
#include "memory/copy_async.h"
#include "memory/load_store.h"

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

bool lower_memory(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.op == "ld" || s.op == "ldu" || s.op == "st") return lower_load_store(l, ins);
  if (s.op == "atom" || s.op == "red") return lower_atomic(l, ins);
  if (s.op == "cp") return lower_copy(l, ins);
  if (s.op == "cvta") return lower_cvta(l, ins);
  if (s.op == "prefetch" || s.op == "prefetchu" || s.op == "applypriority" || s.op == "discard") {
    ins.fn = no_effect;
    return true;
  }
  if (s.op == "membar" || s.op == "fence") {
    ins.fn = fence;
    return true;
  }
  return false;
}

}  // namespace flashcore::emu::ptx
