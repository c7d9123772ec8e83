// Loads, stores, atomics and cp.async, each address checked.
#include "lower.h"
#include "memory/atomics.h"
#include "memory/convert_address.h"
#include "memory/copy_async.h"
#include "memory/load_store.h"

namespace flashcore::emu::ptx {

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
