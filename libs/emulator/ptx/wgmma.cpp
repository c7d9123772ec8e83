// Products of a warpgroup (sm_90a). Each warp multiplies its own sixteen rows when it issues the instruction. The race
// check reports accumulators that are used before wgmma.wait_group.
#include "block.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "cluster.h"
#include "collective.h"
#include "halves.h"
#include "lower.h"
#include "mentions.h"
#include "passes.h"
#include "races.h"
#include "tensor/mma.h"
#include "tensor/operands.h"

namespace flashcore::emu::ptx {

namespace {

constexpr unsigned GROUP_WARPS = WARPGROUP_WARPS;

/**
 * How a matrix is laid out in shared memory: in 16-byte columns (8 numbers), eight rows at a time. Values are in bytes.
 */
struct MatrixLayout {
  uint32_t base, leading, stride;
  unsigned swizzle;  // log2 of the number of columns that are permuted; 0: none
  bool transposed;   // true: rows in memory run along M or N, and K across the rows
  bool is_left;

  MatrixLayout(uint64_t descriptor, bool is_transposed, bool left) : transposed(is_transposed), is_left(left) {
    base = static_cast<uint32_t>(descriptor & 0x3fff) << 4;
    leading = static_cast<uint32_t>(descriptor >> 16 & 0x3fff) << 4;
    stride = static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4;
    constexpr unsigned MODES[] = {0, 3, 2, 1};
    swizzle = MODES[descriptor >> 62];
  }

  /** The address of the eight numbers from `column` on in a row of memory. Columns run along K unless transposed. */
  uint32_t address(unsigned row, unsigned column) const {
    const unsigned eight = row % 8, rest = row / 8, wide = 1u << swizzle;  // `wide`: columns per swizzled row
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

/** Reads the rows of memory that make up a part of the matrix, as copies of 16 bytes with checked addresses. */
struct MatrixPart {
  const MatrixLayout& layout;
  unsigned first_row, rows, first_column, columns;  // columns of 16 bytes
};
void read_rows(Warp& w, const Ins* i, const MatrixPart& part, uint16_t* to) {
  const MatrixLayout& layout = part.layout;
  const unsigned first_row = part.first_row, rows = part.rows, first_column = part.first_column, columns = part.columns;
  BlockRun& block = *w.block;
  alignas(64) uint32_t offsets[LANES];
  unsigned count = 0, begin = 0;
  const unsigned total = rows * columns;
  for (unsigned n = 0; n < total; ++n) {
    const uint32_t at = layout.address(first_row + n / columns, first_column + n % columns);
    if (__builtin_expect(at > block.shared_bytes || block.shared_bytes - at < 16, 0)) {
      Ins shared = *i;
      shared.space = SHARED_SPACE;
      resolve_one({{w, &shared, 0}, 16, Access::Read}, at, 16);
    }
    memcpy(to + 8 * n, block.shared + at, 16);
    offsets[count++] = at;
    if (block.shadow) block.shadow->by_async_proxy({w, i, 0}, at, 16, false);
    if (!block.shadow || (count < LANES && n + 1 < total)) continue;
    std::fill(offsets + count, offsets + LANES, offsets[0]);
    block.shadow->operand(w, i, count == LANES ? ALL : (1u << count) - 1, offsets);
    if (block.shadow->taint.has_read())
      block.shadow->taint.to_operand(layout.is_left, [&](unsigned piece, unsigned byte) {
        piece += begin;
        return layout.transposed ? 8 * (first_column + piece % columns) + byte / 2 : first_row + piece / columns;
      });
    begin += count;
    count = 0;
  }
}

/**
 * wgmma's options: [0] is the number type, [1] the number of columns, [2] is true if A is in registers, [3] if A is
 * transposed, [4] if B is transposed, [5] has bits of Flag.
 */
enum Flag { NEGATES = 1, HALF_SUMS = 2, NEGATED_SCALE = 4, SATURATES = 8 };

/** True if the product is added to D. The predicate scale-d decides that. */
bool adds_to_sums(Warp& w, const Ins* i, unsigned lane) {
  return ((w.pred(i->c) ^ (i->extra->options[5] & NEGATED_SCALE ? ALL : 0)) >> lane & 1) != 0;
}

/** D of a warp's part of a product: sixteen rows, accessed eight columns at a time. */
class Accumulators {
 public:
  Accumulators(Warp& w, const Ins* i, uint32_t m)
      : w_(w),
        extra_(*i->extra),
        active_(m),
        adds_(adds_to_sums(w, i, static_cast<unsigned>(__builtin_ctz(m)))),
        halves_((i->extra->options[5] & HALF_SUMS) != 0) {}
  /** True if products are added to the old sums. False if they replace the old sums. */
  bool adds() const { return adds_; }
  bool halves() const { return halves_; }
  unsigned columns() const { return static_cast<unsigned>(extra_.options[1]); }
  /** The registers of the eight columns from `column` on. */
  const uint32_t* slots(unsigned column) const { return extra_.d.data() + column / 8 * (halves_ ? 2 : 4); }
  /** Calls `multiply` to add to the eight columns from `column` on. */
  template <class Multiply>
  void change(unsigned column, const Multiply& multiply) const {
    alignas(64) Row8 acc[16];
    if (!adds_)
      memset(static_cast<void*>(acc), 0, sizeof acc);
    else if (halves_)
      half_accumulators_in(w_, slots(column), acc);
    else
      accumulators_in(w_, slots(column), acc);
    multiply(acc);
    if (halves_)
      half_accumulators_out(w_, slots(column), active_, acc);
    else
      accumulators_out(w_, slots(column), active_, acc);
  }
  /** Adds product(row, column) to the integers of the eight columns from `column` on. */
  template <class Product>
  void add_whole(unsigned column, const Product& product) const {
    for (unsigned n = 0; n < 4; ++n)
      for (unsigned k = 0; k < LANES; ++k) {
        if (!(active_ >> k & 1)) continue;
        int32_t& d = w_.reg<int32_t>(slots(column)[n])[k];
        int64_t sum = (adds_ ? d : 0) + product(k / 4 + 8 * (n / 2), k % 4 * 2 + n % 2);
        if (extra_.options[5] & SATURATES) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
        d = static_cast<int32_t>(sum);
      }
  }

 private:
  Warp& w_;
  const Extra& extra_;
  uint32_t active_;
  bool adds_, halves_;
};

/** Reads this warp's sixteen rows of A as [row][depth]. */
void left_of(Warp& w, const Ins* i, uint64_t descriptor, float (*a)[16]) {
  const Extra& x = *i->extra;
  const auto type = static_cast<Number>(x.options[0]);
  const unsigned first = w.index % GROUP_WARPS * 16;
  const MatrixLayout layout(descriptor, x.options[3] != 0, true);
  alignas(64) uint16_t bits[16 * 16];
  alignas(64) float t[16 * 16];
  if (!layout.transposed) {
    read_rows(w, i, {layout, first, 16, 0, 2}, bits);
    read_numbers(type, bits, a[0], 16 * 16);
    return;
  }
  read_rows(w, i, {layout, 0, 16, first / 8, 2}, bits);
  read_numbers(type, bits, t, 16 * 16);
  for (int k = 0; k < 16; ++k)
    for (int r = 0; r < 16; ++r) a[r][k] = t[16 * k + r];
}

/** The eight columns of B from `first` on. */
struct Columns {
  const MatrixLayout& layout;
  unsigned first;
};

/** Reads eight columns of B as [depth][column]. */
void right_of(Warp& w, const Ins* i, const Columns& columns, float (*b)[8]) {
  const auto& [layout, first] = columns;
  const auto type = static_cast<Number>(i->extra->options[0]);
  alignas(64) uint16_t bits[16 * 8];
  if (layout.transposed) {
    read_rows(w, i, {layout, 0, 16, first / 8, 1}, bits);
    read_numbers(type, bits, b[0], 16 * 8);
    return;
  }
  alignas(64) float t[16 * 8];
  read_rows(w, i, {layout, first, 8, 0, 2}, bits);
  read_numbers(type, bits, t, 16 * 8);
  for (int n = 0; n < 8; ++n)
    for (int k = 0; k < 16; ++k) b[k][n] = t[16 * n + k];
}

#if defined(FLASHCORE_WIDE_VECTORS)
/**
 * Reads A as blocks of 8 x 8 halves in mma's register layout: rows 0 to 7, rows 8 to 15, then the same rows at depths 8
 * to 15.
 */
void left_words(Warp& w, const Ins* i, const MatrixLayout& layout, uint32_t (*words)[LANES]) {
  alignas(64) uint16_t bits[16 * 16];
  read_rows(w, i, {layout, w.index % GROUP_WARPS * 16, 16, 0, 2}, bits);
  for (int r = 0; r < 16; ++r)
    for (int piece = 0; piece < 2; ++piece)
      memcpy(&words[r / 8 + 2 * piece][4 * (r % 8)], bits + 16 * r + 8 * piece, 16);
}

/** Reads the two blocks of eight columns of B, of depths 0 to 7 and 8 to 15. */
void right_words(Warp& w, const Ins* i, const Columns& columns, uint32_t (*words)[LANES]) {
  const auto& [layout, first] = columns;
  alignas(64) uint16_t bits[16 * 8];
  if (layout.transposed) {
    read_rows(w, i, {layout, 0, 16, first / 8, 1}, bits);
    for (int piece = 0; piece < 2; ++piece) transpose8(bits + 64 * piece, reinterpret_cast<uint16_t*>(words[piece]));
    return;
  }
  read_rows(w, i, {layout, first, 8, 0, 2}, bits);
  for (int n = 0; n < 8; ++n)
    for (int piece = 0; piece < 2; ++piece) memcpy(&words[piece][4 * n], bits + 16 * n + 8 * piece, 16);
}

/** Multiplies halves with the processor's vectors, as for mma.sync. */
class WideProduct {
 public:
  WideProduct(Warp& w, const Ins* i, uint32_t m, unsigned lane) : w_(w), i_(i) {
    const Extra& x = *i->extra;
    fits_ = m == ALL && static_cast<Number>(x.options[0]) == Number::Half && !x.options[3] && !(x.options[5] & NEGATES);
    if (!fits_) return;
    alignas(64) uint32_t words[4][LANES];
    const uint32_t* registers[4];
    if (!x.options[2]) left_words(w, i, MatrixLayout(w.reg<uint64_t>(i->a)[lane], false, true), words);
    for (int n = 0; n < 4; ++n) registers[n] = x.options[2] ? w.reg<uint32_t>(x.a[static_cast<size_t>(n)]) : words[n];
    left_.read(registers);
  }
  /** Returns false and changes nothing if the vectors cannot compute this product. */
  bool multiply(const MatrixLayout& layout, unsigned column, const Accumulators& sums) {
    if (!fits_) return false;
    alignas(64) uint32_t words[2][LANES];
    right_words(w_, i_, {layout, column}, words);
    const uint32_t* registers[] = {words[0], words[1]};
    RightOperand right;
    right.read(registers);
    const uint32_t* slots = sums.slots(column);
    return multiply_registers(w_, {left_, right}, {sums.adds() ? slots : nullptr, sums.halves()},
                              {slots, sums.halves()});
  }

 private:
  Warp& w_;
  const Ins* i_;
  bool fits_;
  LeftOperand left_;
};
#else
class WideProduct {
 public:
  WideProduct(Warp&, const Ins*, uint32_t, unsigned) {}
  bool multiply(const MatrixLayout&, unsigned, const Accumulators&) { return false; }
};
#endif

/** A as floats, read on first use. */
class LeftNumbers {
 public:
  const float (*of(Warp& w, const Ins* i, unsigned lane))[16] {
    const Extra& x = *i->extra;
    if (std::exchange(is_read_, true)) return numbers_;
    if (x.options[2])
      left_in(w, {static_cast<Number>(x.options[0]), x.a.data(), 16}, numbers_);
    else
      left_of(w, i, w.reg<uint64_t>(i->a)[lane], numbers_);
    if (x.options[5] & NEGATES)
      for (float* n = numbers_[0]; n < numbers_[0] + 16 * 16; ++n) *n = -*n;
    return numbers_;
  }

 private:
  bool is_read_ = false;
  alignas(64) float numbers_[16][16];
};

/**
 * Operands: a is A's descriptor, or NO_SLOT if A is in extra->a; b is B's descriptor; c a predicate, true if D is
 * added.
 */
const Ins* multiply_async(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    const Extra& x = *i->extra;
    const auto first_lane = static_cast<unsigned>(__builtin_ctz(m));
    LeftNumbers left;
    WideProduct wide(w, i, m, first_lane);
    alignas(64) float b[16][8];
    const MatrixLayout layout(w.reg<uint64_t>(i->b)[first_lane], x.options[4] != 0, false);
    const Accumulators sums(w, i, m);
    for (unsigned column = 0; column < sums.columns(); column += 8) {
      if (wide.multiply(layout, column, sums)) continue;
      sums.change(column, [&](Row8* acc) {
        right_of(w, i, {layout, column}, b);
        multiply<16, 16>(left.of(w, i, first_lane), b, acc, least_exponent(static_cast<Number>(x.options[0])));
      });
    }
    if (w.block->shadow) w.block->products[w.index].start(*w.block, i);
  });
}

// --- tf32, fp8 and whole numbers --------------------------------------------------------------------------------------

constexpr int ROW_BYTES = 32;  // the depth of one instruction in bytes, which is the same for every type

/**
 * The options of these types: [0] see Other; [1], [2] and [5] as above; [3] and [4] are true if A and B are signed or
 * e5m2.
 */
enum class Other : uint8_t { Tf32, Fp8, Whole };

/** Reads this warp's sixteen rows of A. */
void left_bytes(Warp& w, const Ins* i, unsigned lane, uint8_t (*a)[ROW_BYTES]) {
  const Extra& x = *i->extra;
  if (!x.options[2]) {
    const MatrixLayout layout(w.reg<uint64_t>(i->a)[lane], false, true);
    return read_rows(w, i, {layout, w.index % GROUP_WARPS * 16, 16, 0, 2}, reinterpret_cast<uint16_t*>(a[0]));
  }
  for (size_t n = 0; n < 4; ++n)
    for (unsigned k = 0; k < LANES; ++k)
      memcpy(&a[k / 4 + 8 * (n & 1)][16 * (n / 2) + 4 * (k % 4)], &w.reg<uint32_t>(x.a[n])[k], 4);
}

/** The product of a row of A and a column of B, which are integers. */
int64_t whole_product(const Extra& x, const uint8_t* row, const uint8_t* column) {
  const auto value = [](uint8_t byte, int is_signed) { return is_signed ? static_cast<int8_t>(byte) : byte; };
  int64_t sum = 0;
  for (int at = 0; at < ROW_BYTES; ++at) sum += value(row[at], x.options[3]) * value(column[at], x.options[4]);
  return sum;
}

void multiply_tf32(const uint8_t (*a)[ROW_BYTES], const uint8_t (*b)[ROW_BYTES], bool negates, Row8* acc) {
  alignas(64) float left[16][16] = {}, right[8][8];
  const auto number = [](const uint8_t* at) {
    uint32_t bits;
    memcpy(&bits, at, 4);
    return bits_float(bits & ~0x1fffu);
  };
  for (int k = 0; k < 8; ++k) {
    for (int r = 0; r < 16; ++r) left[r][k] = negates ? -number(a[r] + 4 * k) : number(a[r] + 4 * k);
    for (int c = 0; c < 8; ++c) right[k][c] = number(b[c] + 4 * k);
  }
  multiply<16, 8>(left, right, acc, -126);
}

/** Truncates a number other than 0 to `bits` bits after its first bit. */
double cut_to(double number, int bits) {
  const int digits = bits - std::ilogb(number);
  return std::ldexp(std::trunc(std::ldexp(number, digits)), -digits);
}

/**
 * Adds like an H200: the 32 products and the accumulator are each truncated at 2^-13 of the largest exponent among
 * them, and added exactly. An fp32 sum is then truncated to 13 bits after its first bit.
 */
void multiply_fp8(const Extra& x, const uint8_t (*a)[ROW_BYTES], const uint8_t (*b)[ROW_BYTES], Row8* acc) {
  constexpr int KEPT = 13, LEAST = -14;
  const float sign = x.options[5] & NEGATES ? -1.0f : 1.0f;
  float right[8][ROW_BYTES];
  for (int c = 0; c < 8; ++c)
    for (int k = 0; k < ROW_BYTES; ++k) right[c][k] = fp8_to_float(b[c][k], x.options[4] != 0);
  const auto exponent = [](float number, int least) {
    return number == 0 ? -1000 : std::max(std::ilogb(number), least);
  };
  for (int r = 0; r < 16; ++r) {
    float left[ROW_BYTES];
    for (int k = 0; k < ROW_BYTES; ++k) left[k] = sign * fp8_to_float(a[r][k], x.options[3] != 0);
    for (int c = 0; c < 8; ++c) {
      const float own = acc[r][c];
      bool finite = std::isfinite(own);
      float in_order = own;
      int top = exponent(own, -126);
      for (int k = 0; k < ROW_BYTES; ++k) {
        finite = finite && std::isfinite(left[k]) && std::isfinite(right[c][k]);
        in_order += left[k] * right[c][k];
        if (finite) top = std::max(top, exponent(left[k], LEAST) + exponent(right[c][k], LEAST));
      }
      if (!finite) {
        acc[r][c] = in_order;
        continue;
      }
      double sum = std::trunc(std::ldexp(static_cast<double>(own), KEPT - top));
      for (int k = 0; k < ROW_BYTES; ++k)
        sum += std::trunc(std::ldexp(static_cast<double>(left[k] * right[c][k]), KEPT - top));
      const double exact = std::ldexp(sum, top - KEPT);
      acc[r][c] = static_cast<float>(exact == 0 || x.options[5] & HALF_SUMS ? exact : cut_to(exact, KEPT));
    }
  }
}

const Ins* multiply_other(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    const Extra& x = *i->extra;
    const auto lane = static_cast<unsigned>(__builtin_ctz(m));
    const auto kind = static_cast<Other>(x.options[0]);
    const Accumulators sums(w, i, m);
    const MatrixLayout layout(w.reg<uint64_t>(i->b)[lane], false, false);
    alignas(64) uint8_t a[16][ROW_BYTES], b[8][ROW_BYTES];
    left_bytes(w, i, lane, a);
    for (unsigned column = 0; column < sums.columns(); column += 8) {
      read_rows(w, i, {layout, column, 8, 0, 2}, reinterpret_cast<uint16_t*>(b[0]));
      if (kind == Other::Whole)
        sums.add_whole(column, [&](unsigned row, unsigned c) { return whole_product(x, a[row], b[c]); });
      else if (kind == Other::Tf32)
        sums.change(column, [&](Row8* acc) { multiply_tf32(a, b, x.options[5] & NEGATES, acc); });
      else
        sums.change(column, [&](Row8* acc) { multiply_fp8(x, a, b, acc); });
    }
    if (w.block->shadow) w.block->products[w.index].start(*w.block, i);
  });
}

/** True if all warps of this warp's group have committed this many groups of products. */
bool all_committed(const BlockRun& block, unsigned warp, uint32_t groups) {
  const size_t first = warp / GROUP_WARPS * GROUP_WARPS;
  for (size_t n = first; n < std::min<size_t>(first + GROUP_WARPS, block.products.size()); ++n)
    if (block.products[n].committed() < groups) return false;
  return true;
}

const Ins* commit_products(Warp& w, const Ins* i) {
  BlockRun& block = *w.block;
  if (block.shadow) block.shadow->commits_products(w, block.products[w.index].committed());
  block.products[w.index].commit();
  for (Warp& other : block.warps()) {
    if (other.index / GROUP_WARPS != w.index / GROUP_WARPS) continue;
    for (Split& split : other.others)
      if (split.state == SplitState::AtProducts && all_committed(block, w.index, split.wanted))
        split.state = SplitState::Runnable;
  }
  return i + 1;
}

/** A product belongs to the whole warpgroup: it is complete only when all four warps have issued it. */
const Ins* wait_for_products(Warp& w, const Ins* i) {
  Products& own = w.block->products[w.index];
  const auto left = static_cast<uint32_t>(i->imm);
  const uint32_t groups = own.committed() > left ? own.committed() - left : 0;
  if (!all_committed(*w.block, w.index, groups)) return w.park(i, SplitState::AtProducts, 0, groups);
  ++w.epoch;
  own.wait(groups);
  if (w.block->shadow && groups) w.block->shadow->waited_for_products(w, groups - 1);
  return i + 1;
}

const Ins* no_effect_here(Warp&, const Ins* i) { return i + 1; }

/** Chooses the handler and its options for the types. Returns false if no handler fits. */
struct ProductTypes {
  const std::string &d, &a, &b;
};
bool choose_types(Ins& ins, Extra& extra, const std::string& depth, const ProductTypes& types) {
  const std::string &d = types.d, &a = types.a, &b = types.b;
  const auto is_fp8 = [](const std::string& type) { return type == "e4m3" || type == "e5m2"; };
  const auto is_byte = [](const std::string& type) { return type == "s8" || type == "u8"; };
  ins.fn = multiply_other;
  if (a == b && (a == "f16" || a == "bf16")) {
    extra.options[0] = a == "bf16";
    ins.fn = multiply_async;
    return depth == "k16" && (d == "f32" || (d == "f16" && a == "f16"));
  }
  if (a == "tf32" && b == "tf32") {
    extra.options[0] = static_cast<int>(Other::Tf32);
    return depth == "k8" && d == "f32";
  }
  if (is_fp8(a) && is_fp8(b)) {
    extra.options[0] = static_cast<int>(Other::Fp8);
    extra.options[3] = a == "e5m2";
    extra.options[4] = b == "e5m2";
    return depth == "k32" && (d == "f32" || d == "f16");
  }
  extra.options[0] = static_cast<int>(Other::Whole);
  extra.options[3] = a == "s8";
  extra.options[4] = b == "s8";
  return is_byte(a) && is_byte(b) && depth == "k32" && d == "s32";
}

bool lower_product(Lowering& l, Ins& ins) {
  // wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 d, a, b, scale-d, scale-a, scale-b, transposed a, transposed b.
  // Other types cannot be transposed; integers have no scale-a and scale-b but may have .satfinite.
  const Statement& s = l.statement();
  const bool saturates = has(s, "satfinite");
  if (s.mods.size() != 7u + saturates || s.mods[1] != "sync") return false;
  const std::string &shape = s.mods[3], &d = s.mods[4];
  const size_t n_at = shape.find('n'), k_at = shape.find('k');
  if (shape.rfind("m64n", 0) != 0 || k_at == std::string::npos) return false;
  const int columns = atoi(shape.c_str() + n_at + 1);
  if (columns < 8 || columns > 256 || columns % 8) return false;
  Extra& extra = l.extra(ins);
  if (!choose_types(ins, extra, shape.substr(k_at), {d, s.mods[5], s.mods[6]})) return false;
  const bool plain = ins.fn == multiply_async, whole = d == "s32";
  if (s.operands.size() < (whole ? 4u : 6u) || (saturates && !whole)) return false;
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
  extra.options[1] = columns;
  extra.options[2] = in_registers;
  if (plain) {
    extra.options[3] = !in_registers && number(6) != 0;
    extra.options[4] = number(in_registers ? 6 : 7) != 0;
  }
  const bool negates = !whole && (number(4) < 0) != (number(5) < 0);
  extra.options[5] = (negates ? NEGATES : 0) | (d == "f16" ? HALF_SUMS : 0) |
                     (s.operands[3].negated ? NEGATED_SCALE : 0) | (saturates ? SATURATES : 0);
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

// --- accumulators that are still being written, and fences -------------------------------------------------------------

/** Numbers the registers that hold accumulators, including the registers into which the compiler moves them. */
void watch_products(const Function& f, Kernel& kernel) {
  std::vector<int> numbers(f.registers.size(), -1);
  int count = 0;
  const auto is_move = [](const Statement& s) {
    return s.op == "mov" && s.operands.size() == 2 && s.operands[0].kind == OperandKind::Register &&
           s.operands[1].kind == OperandKind::Register;
  };
  const auto number = [&](int reg) {
    if (reg >= 0 && numbers[static_cast<size_t>(reg)] < 0) numbers[static_cast<size_t>(reg)] = count++;
  };
  for (const Statement& s : f.statements)
    if (s.op == "wgmma" && s.mods[0] == "mma_async")
      for (const Operand& item : s.operands[0].items) number(item.reg);
  if (count == 0) return;
  std::vector<std::pair<int, int>> moves;
  for (const Statement& s : f.statements)
    if (is_move(s) && s.operands[0].reg >= 0 && s.operands[1].reg >= 0)
      moves.emplace_back(s.operands[0].reg, s.operands[1].reg);
  for (int before = 0; before != count;) {
    before = count;
    const auto name = [&](const std::pair<int, int>& move) {
      const auto is_one = [&](int reg) { return numbers[static_cast<size_t>(reg)] >= 0; };
      if (is_one(move.first) == is_one(move.second)) return;
      number(move.first);
      number(move.second);
    };
    std::for_each(moves.begin(), moves.end(), name);
    std::for_each(moves.rbegin(), moves.rend(), name);
  }
  for (const Statement& s : f.statements) {
    ProductStep step;
    const bool is_wgmma = s.op == "wgmma", stores = is_wgmma || !has_destination(s);
    for (size_t n = 0; n < s.operands.size(); ++n)
      visit_registers(s.operands[n], [&](int reg) {
        const int accumulator = numbers[static_cast<size_t>(reg)];
        if (accumulator < 0 || (is_wgmma && n > 0)) return;
        (n > 0 || stores ? step.reads : step.writes).push_back(static_cast<unsigned>(accumulator));
      });
    if (is_wgmma)
      step.kind = s.mods[0] == "mma_async" ? ProductStep::Product
                  : s.mods[0] == "fence"   ? ProductStep::Fence
                                           : ProductStep::None;
    else if (!step.reads.empty() || !step.writes.empty())
      step.kind = is_move(s) ? ProductStep::Move : ProductStep::Other;
    kernel.product_steps.push_back(std::move(step));
  }
  kernel.accumulators = static_cast<size_t>(count);
}

void Products::start(const BlockRun& block, const Ins* i) {
  for (const unsigned sum : block.kernel().product_steps[i->statement].reads)
    states_[sum] = {i, committed_, fences_, true, nullptr};
}

void Products::wait(uint32_t groups) {
  for (Accumulator& each : states_) each.busy &= each.group >= groups;
}

/** Faults if a product lacks the wgmma.fence that its accumulators need. */
void Products::check_fences(Warp& w, const Ins* i, const ProductStep& step) const {
  const auto unfenced = [&](const std::string& why) {
    Fault fault;
    fault.kind = "UNFENCED_PRODUCT";
    fault.message = "started a wgmma " + why;
    w.fail(i, static_cast<unsigned>(__builtin_ctz(w.mask)), std::move(fault));
  };
  if (fences_ == 0) unfenced("with no wgmma.fence before it: its warpgroup's first needs one");
  if (!adds_to_sums(w, i, static_cast<unsigned>(__builtin_ctz(w.mask)))) return;
  for (const unsigned n : step.reads) {
    const Accumulator& sum = states_[n];
    if (sum.changed && sum.fences == fences_)
      unfenced("that adds to a register which was changed at " + w.block->place_of(sum.changed) +
               ", with no wgmma.fence since the product before");
  }
}

void Products::step(Warp& w, const Ins* i, const ProductStep& step) {
  if (!w.active(i)) return;
  states_.resize(w.block->kernel().accumulators);
  if (step.kind == ProductStep::Fence) {
    ++fences_;
    return;
  }
  if (step.kind == ProductStep::Product) return check_fences(w, i, step);
  if (step.kind == ProductStep::Move) {  // the compiler copied a register; the copy is as unfinished as its source
    states_[step.writes[0]] = states_[step.reads[0]];
    return;
  }
  // For a value computed from an accumulator, the fences since that accumulator's product count.
  Accumulator result;
  for (const unsigned n : step.reads) {
    const Accumulator& read = states_[n];
    if (read.product && (!result.product || read.fences > result.fences)) {
      result.product = read.product;
      result.fences = read.fences;
    }
    if (!read.busy) continue;
    Fault fault;
    fault.kind = "UNFINISHED_PRODUCT";
    fault.message = "read an accumulator of the wgmma at " + w.block->place_of(read.product) +
                    ", for which no wgmma.wait_group has waited";
    w.fail(i, static_cast<unsigned>(__builtin_ctz(w.mask)), std::move(fault));
  }
  result.changed = result.product ? i : nullptr;
  for (const unsigned n : step.writes) states_[n] = result;
}

}  // namespace flashcore::emu::ptx
