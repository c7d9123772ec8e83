// Tensor-core instructions of a warp, and ldmatrix, stmatrix and movmatrix; wgmma.cpp has those of a warpgroup.
#include "block.h"
#include "collective.h"
#include "lower.h"
#include "races.h"
#include "tensor/mma.h"
#include "tensor/operands.h"
#include "tensor/wmma.h"

namespace flashcore::emu::ptx {

namespace {

/** The addresses of rows of 16 bytes. Lane n gives the address of row n. */
Pointers rows_of(Warp& w, const Ins* i, unsigned rows, Access access) {
  Pointers p;
  const WarpAccess by{w, i, rows == LANES ? ALL : (1u << rows) - 1, 16, access};
  if (i->space != SHARED_SPACE) {
    resolve(by, p);
    return p;
  }
  alignas(64) uint32_t offsets[LANES];
  Counters* const observed = std::exchange(w.block->observed, nullptr);
  resolve_shared(by, offsets);
  w.block->observed = observed;
  for (int k = 0; k < LANES; ++k) p.at[k] = w.block->shared + offsets[k];
  if (observed) observed->rows(i, offsets, rows);
  return p;
}

/** Operands: options[0] is the number of matrices, [1] is true if they are transposed. */
const Ins* load_matrices(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    const int matrices = i->extra->options[0];
    const Pointers p = rows_of(w, i, static_cast<unsigned>(8 * matrices), Access::Read);
    alignas(64) uint16_t t[4][64];
    for (int n = 0; n < matrices; ++n)
      for (int r = 0; r < 8; ++r) memcpy(&t[n][8 * r], p.at[8 * n + r], 16);
    for (int n = 0; n < matrices; ++n) {
      alignas(64) uint16_t turned[64];
      if (i->extra->options[1]) transpose8(t[n], turned);
      const uint32_t* words = reinterpret_cast<const uint32_t*>(i->extra->options[1] ? turned : t[n]);
      if (m == ALL)
        memcpy(w.reg<uint32_t>(i->extra->d[n]), words, 128);
      else
        write_lanes<uint32_t>(w, i->extra->d[n], m, [=](int k) { return words[k]; });
    }
  });
}

const Ins* store_matrices(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t) {
    const int matrices = i->extra->options[0];
    const Pointers p = rows_of(w, i, static_cast<unsigned>(8 * matrices), Access::Write);
    for (int n = 0; n < matrices; ++n) {
      alignas(64) uint16_t turned[64];
      const uint16_t* from = w.reg<uint16_t>(i->extra->d[n]);
      if (i->extra->options[1]) transpose8(from, turned);
      for (int r = 0; r < 8; ++r) memcpy(p.at[8 * n + r], (i->extra->options[1] ? turned : from) + 8 * r, 16);
    }
  });
}

bool lower_matrix_access(Lowering& l, Ins& ins, bool loads) {
  const Statement& s = l.statement();
  if (!has(s, "m8n8") || !has(s, "b16")) return false;
  Extra& extra = l.extra(ins);
  extra.what = loads ? "ldmatrix" : "stmatrix";
  extra.options[0] = has(s, "x4") ? 4 : (has(s, "x2") ? 2 : 1);
  extra.options[1] = has(s, "trans");
  ins.space = has(s, "shared") || has(s, "shared::cta") ? SHARED_SPACE : GENERIC_SPACE;
  slots_of(l, s.operands[loads ? 0 : 1], 4, extra.d);
  l.address(s.operands[loads ? 1 : 0], ins);
  ins.fn = loads ? load_matrices : store_matrices;
  return extra.d.size() == static_cast<size_t>(extra.options[0]);
}

const Ins* move_matrix(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    alignas(64) uint16_t t[64];
    transpose8(w.reg<uint16_t>(i->a), t);
    const uint32_t* words = reinterpret_cast<const uint32_t*>(t);
    write_lanes<uint32_t>(w, i->d, m, [=](int k) { return words[k]; });
  });
}

}  // namespace

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
