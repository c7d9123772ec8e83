// Tensor-core instructions of a warp; those of a warpgroup are in wgmma.cpp.
#include "lower.h"
#include "tensor/matrices.h"
#include "tensor/mma.h"
#include "tensor/wmma.h"

namespace flashcore::emu::ptx {

bool lower_tensor(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.op == "mma") return lower_mma(l, ins);
  if (s.op == "wmma") return lower_wmma(l, ins);
  if (s.op == "ldmatrix") return lower_matrix_access(l, ins, true);
  if (s.op == "stmatrix") return lower_matrix_access(l, ins, false);
  if (s.op == "movmatrix") {
    ins.fn = move_matrix;
    ins.d = l.slot(s.operands[0], 4);
    ins.a = l.slot(s.operands[1], 4);
    l.extra(ins).what = "movmatrix";
    return true;
  }
  return false;
}

}  // namespace flashcore::emu::ptx
