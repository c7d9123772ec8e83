// Products of a warpgroup (sm_90a). Each warp multiplies its own sixteen rows when it issues the instruction; that the
// accumulators are not its own until wgmma.wait_group is looked after where races are.
#include "wgmma.h"

#include <algorithm>

#include "cluster.h"
#include "collective.h"
#include "halves.h"
#include "lower.h"
#include "races.h"

namespace flashcore::emu::ptx {

namespace {

constexpr unsigned GROUP_WARPS = 4;

/** How a matrix lies in shared memory: in 16-byte columns (8 numbers), eight rows at a time. In bytes. */
struct MatrixLayout {
  uint32_t base, leading, stride;
  unsigned swizzle;  // log2 of the columns that change places; 0: none
  bool transposed;   // M or N runs along the rows of memory, K across them

  MatrixLayout(uint64_t descriptor, bool is_transposed) : transposed(is_transposed) {
    base = static_cast<uint32_t>(descriptor & 0x3fff) << 4;
    leading = static_cast<uint32_t>(descriptor >> 16 & 0x3fff) << 4;
    stride = static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4;
    constexpr unsigned MODES[] = {0, 3, 2, 1};
    swizzle = MODES[descriptor >> 62];
  }

  /** Of the eight numbers from `column` on in that row of memory. Columns along K unless transposed. */
  uint32_t address(unsigned row, unsigned column) const {
    const unsigned eight = row % 8, rest = row / 8, wide = 1u << swizzle;  // columns of a swizzled row
    uint32_t at = base;
    if (!swizzle)
      at += eight * 16 + (transposed ? column * stride + rest * leading : column * leading + rest * stride);
    else if (transposed)
      at += eight * 16 * wide + rest * stride + column % wide * 16 + column / wide * leading;
    else
      at += eight * 16 * wide + rest * stride + column * 16;
    return at ^ ((at >> 7 & (wide - 1)) << 4);
  }
};

/** Rows of memory that make the matrix's part: copies of 16 bytes each, checked. */
void read_rows(Warp& w, const Ins* i, const MatrixLayout& layout, unsigned first_row, unsigned rows,
               unsigned first_column, unsigned columns, uint16_t* to) {
  BlockRun& block = *w.block;
  alignas(64) uint32_t offsets[LANES];
  unsigned count = 0;
  const unsigned total = rows * columns;
  for (unsigned n = 0; n < total; ++n) {
    const uint32_t at = layout.address(first_row + n / columns, first_column + n % columns);
    if (__builtin_expect(at > block.shared_bytes || block.shared_bytes - at < 16, 0)) {
      Ins shared = *i;
      shared.space = SHARED_SPACE;
      resolve_one(w, &shared, 0, at, 16, 16, Access::Read);
    }
    memcpy(to + 8 * n, block.shared + at, 16);
    offsets[count++] = at;
    if (!block.shadow || (count < LANES && n + 1 < total)) continue;
    std::fill(offsets + count, offsets + LANES, offsets[0]);
    block.shadow->access(w, i, count == LANES ? ALL : (1u << count) - 1, 16, Access::Read, offsets);
    count = 0;
  }
}

/** options of wgmma: 0 number type, 1 columns, 2 A in registers, 3 A and 4 B transposed, 5: see Flag. */
enum Flag { NEGATES = 1, HALF_SUMS = 2, NEGATED_SCALE = 4 };

/** A's sixteen rows of this warp as [row][depth]. */
void left_of(Warp& w, const Ins* i, uint64_t descriptor, float (*a)[16]) {
  const Extra& x = *i->extra;
  const auto type = static_cast<Number>(x.options[0]);
  const unsigned first = w.index % GROUP_WARPS * 16;
  const MatrixLayout layout(descriptor, x.options[3] != 0);
  alignas(64) uint16_t bits[16 * 16];
  alignas(64) float t[16 * 16];
  if (!layout.transposed) {
    read_rows(w, i, layout, first, 16, 0, 2, bits);
    read_numbers(type, bits, a[0], 16 * 16);
    return;
  }
  read_rows(w, i, layout, 0, 16, first / 8, 2, bits);
  read_numbers(type, bits, t, 16 * 16);
  for (int k = 0; k < 16; ++k)
    for (int r = 0; r < 16; ++r) a[r][k] = t[16 * k + r];
}

/** Eight columns of B as [depth][column]. */
void right_of(Warp& w, const Ins* i, const MatrixLayout& layout, unsigned first, float (*b)[8]) {
  const auto type = static_cast<Number>(i->extra->options[0]);
  alignas(64) uint16_t bits[16 * 8];
  if (layout.transposed) {
    read_rows(w, i, layout, 0, 16, first / 8, 1, bits);
    read_numbers(type, bits, b[0], 16 * 8);
    return;
  }
  alignas(64) float t[16 * 8];
  read_rows(w, i, layout, first, 8, 0, 2, bits);
  read_numbers(type, bits, t, 16 * 8);
  for (int n = 0; n < 8; ++n)
    for (int k = 0; k < 16; ++k) b[k][n] = t[16 * n + k];
}

/** a: descriptor of A, or NO_SLOT: extra->a; b: that of B; c: whether D is added, a predicate. */
const Ins* multiply_async(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    const Extra& x = *i->extra;
    const auto first_lane = static_cast<unsigned>(__builtin_ctz(m));
    alignas(64) float a[16][16], b[16][8];
    alignas(64) Row8 acc[16];
    if (x.options[2])
      left_in(w, static_cast<Number>(x.options[0]), x.a.data(), 16, a);
    else
      left_of(w, i, w.reg<uint64_t>(i->a)[first_lane], a);
    if (x.options[5] & NEGATES)
      for (float* n = a[0]; n < a[0] + 16 * 16; ++n) *n = -*n;
    const MatrixLayout layout(w.reg<uint64_t>(i->b)[first_lane], x.options[4] != 0);
    const bool adds = ((w.pred(i->c) ^ (x.options[5] & NEGATED_SCALE ? ALL : 0)) >> first_lane & 1) != 0;
    const bool halves = (x.options[5] & HALF_SUMS) != 0;
    for (unsigned column = 0; column < static_cast<unsigned>(x.options[1]); column += 8) {
      const uint32_t* slots = x.d.data() + column / 8 * (halves ? 2 : 4);
      if (!adds)
        memset(static_cast<void*>(acc), 0, sizeof acc);
      else if (halves)
        half_accumulators_in(w, slots, acc);
      else
        accumulators_in(w, slots, acc);
      right_of(w, i, layout, column, b);
      multiply<16, 16>(a, b, acc, least_exponent(static_cast<Number>(x.options[0])));
      if (halves)
        half_accumulators_out(w, slots, m, acc);
      else
        accumulators_out(w, slots, m, acc);
    }
    if (w.block->shadow) w.block->products[w.index].start(*w.block, i);
  });
}

/** Whether all warps of the warp's group have committed so many groups of products. */
bool all_committed(const BlockRun& block, unsigned warp, uint32_t groups) {
  const size_t first = warp / GROUP_WARPS * GROUP_WARPS;
  for (size_t n = first; n < std::min<size_t>(first + GROUP_WARPS, block.products.size()); ++n)
    if (block.products[n].committed() < groups) return false;
  return true;
}

const Ins* commit_products(Warp& w, const Ins* i) {
  BlockRun& block = *w.block;
  block.products[w.index].commit();
  for (Warp& other : block.warps()) {
    if (other.index / GROUP_WARPS != w.index / GROUP_WARPS) continue;
    for (Split& split : other.others)
      if (split.state == SplitState::AtProducts && all_committed(block, w.index, split.wanted))
        split.state = SplitState::Runnable;
  }
  return i + 1;
}

/** A product is the whole warpgroup's: it is there when all four warps have come to it. */
const Ins* wait_for_products(Warp& w, const Ins* i) {
  Products& own = w.block->products[w.index];
  const auto left = static_cast<uint32_t>(i->imm);
  const uint32_t groups = own.committed() > left ? own.committed() - left : 0;
  if (!all_committed(*w.block, w.index, groups)) return w.park(i, SplitState::AtProducts, 0, groups);
  ++w.epoch;
  own.wait(groups);
  return i + 1;
}

const Ins* no_effect_here(Warp&, const Ins* i) { return i + 1; }

bool lower_product(Lowering& l, Ins& ins) {
  // wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 d, a, b, scale-d, scale-a, scale-b, transposed a, transposed b
  const Statement& s = l.statement();
  if (s.mods.size() != 7 || s.operands.size() < 6) return false;
  const std::string &shape = s.mods[3], &d = s.mods[4], &a = s.mods[5], &b = s.mods[6];
  const size_t n_at = shape.find('n');
  if (shape.rfind("m64n", 0) != 0 || shape.compare(shape.size() - 3, 3, "k16") != 0) return false;
  const int columns = atoi(shape.c_str() + n_at + 1);
  if (a != b || (a != "f16" && a != "bf16") || (d != "f32" && !(d == "f16" && a == "f16"))) return false;
  if (columns < 8 || columns > 256 || columns % 8) return false;
  Extra& extra = l.extra(ins);
  extra.what = "wgmma.mma_async";
  for (const Operand& item : s.operands[0].items) extra.d.push_back(l.slot(item, 4));
  if (extra.d.size() != static_cast<size_t>(columns) / (d == "f16" ? 4 : 2)) return false;
  const bool in_registers = s.operands[1].kind == OperandKind::Vector;
  if (in_registers)
    for (const Operand& item : s.operands[1].items) extra.a.push_back(l.slot(item, 4));
  else
    ins.a = l.slot(s.operands[1], 8);
  if (in_registers && extra.a.size() != 4) return false;
  ins.b = l.slot(s.operands[2], 8);
  ins.c = l.slot(s.operands[3], 0);
  const auto number = [&](size_t n) { return n < s.operands.size() ? s.operands[n].value : 0; };
  extra.options[0] = a == "bf16";
  extra.options[1] = columns;
  extra.options[2] = in_registers;
  extra.options[3] = !in_registers && number(6) != 0;
  extra.options[4] = number(in_registers ? 6 : 7) != 0;
  extra.options[5] = (number(4) * number(5) < 0 ? NEGATES : 0) | (d == "f16" ? HALF_SUMS : 0) |
                     (s.operands[3].negated ? NEGATED_SCALE : 0);
  ins.fn = multiply_async;
  return true;
}

}  // namespace

bool lower_wgmma(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  if (s.op != "wgmma" || s.mods.empty()) return false;
  if (s.mods[0] == "mma_async") return lower_product(l, ins);
  if (s.mods[0] == "wait_group") {
    ins.imm = s.operands[0].value;
    l.extra(ins).what = "wgmma.wait_group";
  }
  ins.fn = s.mods[0] == "fence"          ? no_effect_here
           : s.mods[0] == "commit_group" ? commit_products
           : s.mods[0] == "wait_group"   ? wait_for_products
                                         : nullptr;
  return ins.fn != nullptr;
}

// --- accumulators that are still being written --------------------------------------------------------------------------

namespace {
template <class Visit>
void each_register(const Operand& o, const Visit& visit) {
  if (o.reg >= 0) visit(o.reg);
  for (const Operand& item : o.items) each_register(item, visit);
}
}  // namespace

void Products::start(const BlockRun& block, const Ins* i) {
  const Statement& s = block.kernel().function->statements[i->statement];
  for (const Operand& item : s.operands[0].items) busy_[item.reg] = {i, committed_};
}

void Products::wait(uint32_t groups) {
  for (auto each = busy_.begin(); each != busy_.end();)
    each = each->second.group < groups ? busy_.erase(each) : std::next(each);
}

void Products::check(Warp& w, const Ins* i) {
  if (busy_.empty()) return;
  const Statement& s = w.block->kernel().function->statements[i->statement];
  if (s.op == "wgmma" || s.operands.empty()) return;
  const bool moves = s.op == "mov" && s.operands.size() == 2;
  for (size_t n = s.op == "st" ? 0 : 1; n < s.operands.size(); ++n)
    each_register(s.operands[n], [&](int reg) {
      const auto found = busy_.find(reg);
      if (found == busy_.end()) return;
      if (moves) return;  // the compiler's own renaming: the copy is as unfinished as what it is made of
      Fault fault;
      fault.kind = "UNFINISHED_PRODUCT";
      fault.message = "read an accumulator of the wgmma at " + w.block->place_of(found->second.ins) +
                      ", for which no wgmma.wait_group has waited";
      w.fail(i, static_cast<unsigned>(__builtin_ctz(w.mask)), std::move(fault));
    });
  if (!moves || s.operands[0].kind != OperandKind::Register) return;
  const auto found = busy_.find(s.operands[1].reg);
  if (found == busy_.end())
    busy_.erase(s.operands[0].reg);
  else
    busy_[s.operands[0].reg] = found->second;
}

}  // namespace flashcore::emu::ptx
