// wmma.load, wmma.store and wmma.mma.
#pragma once
#include <algorithm>
#include <string>

#include "../block.h"
#include "../collective.h"
#include "../races.h"
#include "mma.h"
#include "operands.h"

namespace flashcore::emu::ptx {

namespace {

// The hardware may lay out a fragment in any way, but the same register of any two accumulators must hold the same
// element. Here A and B have mma.sync's layout, repeated if there are more registers than elements. An accumulator is a
// row of mma.sync's accumulators.
struct Shape {
  int rows, columns;  // rows of A and C, columns of B and C; the depth is 16
};

bool shape_of(const Statement& s, Shape& shape) {
  for (const std::string& mod : s.mods) {
    if (mod == "m16n16k16")
      shape = {16, 16};
    else if (mod == "m32n8k16")
      shape = {32, 8};
    else if (mod == "m8n32k16")
      shape = {8, 32};
    else
      continue;
    return true;
  }
  return false;
}

/** The row of A or column of B, and the depth, at which the 8 x 8 block of a register starts. */
struct Corner {
  int outer, depth;
};
Corner corner_of(bool is_left, const Shape& shape, int reg) {
  if (!is_left) {
    const int blocks = shape.columns / 8;
    return {8 * (reg / 2 % blocks), 8 * (reg & 1)};
  }
  if (shape.rows == 8) return {0, 8 * (reg & 1)};
  const int group = shape.rows == 32 ? reg / 4 : 0;
  return {16 * group + 8 * (reg & 1), 8 * (reg >> 1 & 1)};
}

/** The position of element (lane, number) of an accumulator that has `per` numbers in a block of rows. */
struct Element {
  int row, column;
};
Element element_of(const Shape& shape, int number, int lane) {
  const int group = lane / 4, pair = 2 * (lane % 4);
  if (shape.rows == 8) return {group, 8 * (number / 2) + pair + (number & 1)};
  const int outer = number / 4;
  const int row = group + 8 * (number >> 1 & 1) + (shape.rows == 32 ? 16 * outer : 0);
  return {row, (shape.rows == 32 ? 0 : 8 * outer) + pair + (number & 1)};
}

struct Memory {
  char* base = nullptr;
  int64_t stride = 0;  // in bytes
  uint32_t offset = 0;  // in shared memory
};

/** The memory of a matrix: `lines` lines of `bytes` each, from the address of the first active lane on. Checks all. */
Memory matrix_at(const WarpAccess& by, int lines, unsigned element) {
  const auto& [w, i, m, bytes, access] = by;
  const auto lane = static_cast<unsigned>(__builtin_ctz(m));
  const uint64_t address = i->wide_address ? w.reg<uint64_t>(i->a)[lane] + static_cast<uint64_t>(i->imm)
                                           : w.reg<uint32_t>(i->a)[lane] + static_cast<uint32_t>(i->imm);
  Memory memory;
  memory.stride = static_cast<int64_t>(static_cast<int32_t>(w.reg<uint32_t>(i->b)[lane])) * element;
  memory.offset = static_cast<uint32_t>(address);
  // All other lines lie between the first and the last.
  const uint64_t end = w.block->shared_bytes,
                 reach = static_cast<uint64_t>(memory.stride) * static_cast<unsigned>(lines - 1);
  if (i->space == SHARED_SPACE && memory.stride >= 0 && address + reach + bytes <= end && address <= end &&
      reach <= end && !((address | static_cast<uint64_t>(memory.stride)) & (element - 1))) {
    memory.base = w.block->shared + address;
    if (w.block->shadow) {
      uint32_t offsets[LANES] = {};
      for (int line = 0; line < lines; ++line)
        offsets[line] = memory.offset + static_cast<uint32_t>(memory.stride) * static_cast<unsigned>(line);
      const uint32_t all = lines == LANES ? ALL : (1u << lines) - 1;
      w.block->shadow->access({w, i, all, bytes, access}, offsets, static_cast<int>(lane));
    }
    return memory;
  }
  for (int line = 0; line < lines; ++line) {
    if (w.block->shadow) w.block->shadow->taint.name_row(static_cast<unsigned>(line));
    char* at =
        resolve_one({{w, i, lane}, bytes, access}, address + static_cast<uint64_t>(memory.stride * line), element);
    if (line == 0) memory.base = at;
  }
  if (w.block->shadow) w.block->shadow->taint.name_row();
  return memory;
}

/**
 * Operands: options[0] is the number of rows, [1] of columns, [2] is true for A, [3] if the lines in memory run along
 * the depth, [4] is the number of registers.
 */
const Ins* wmma_load_operand(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    const Extra& x = *i->extra;
    const Shape shape{x.options[0], x.options[1]};
    const bool is_left = x.options[2] != 0, along_depth = x.options[3] != 0;
    const int outer = is_left ? shape.rows : shape.columns;
    const Memory memory = along_depth ? matrix_at({w, i, m, 32, Access::Read}, outer, 2)
                                      : matrix_at({w, i, m, static_cast<unsigned>(2 * outer), Access::Read}, 16, 2);
    const int distinct = outer / 8 * 2;
    for (int reg = 0; reg < x.options[4]; ++reg) {
      if (x.d[reg] == NO_SLOT) continue;
      uint16_t* slot = w.reg<uint16_t>(x.d[reg]);
      if (reg >= distinct && x.d[reg % distinct] != NO_SLOT) {
        memcpy(slot, w.reg<uint16_t>(x.d[reg % distinct]), 128);
        continue;
      }
      const Corner corner = corner_of(is_left, shape, reg % distinct);
      if (along_depth) {
        for (int r = 0; r < 8; ++r)
          memcpy(slot + 8 * r, memory.base + (corner.outer + r) * memory.stride + 2 * corner.depth, 16);
      } else {
        alignas(64) uint16_t t[64];
        for (int r = 0; r < 8; ++r)
          memcpy(t + 8 * r, memory.base + (corner.depth + r) * memory.stride + 2 * corner.outer, 16);
        transpose8(t, slot);
      }
      if (w.block->observed && i->space == SHARED_SPACE) {
        uint32_t offsets[8];
        for (int r = 0; r < 8; ++r)
          offsets[r] = memory.offset +
                       static_cast<uint32_t>(along_depth ? (corner.outer + r) * memory.stride + 2 * corner.depth
                                                         : (corner.depth + r) * memory.stride + 2 * corner.outer);
        w.block->observed->rows(i, offsets, 8);
      }
    }
  });
}

/**
 * Operands: options[0] is the number of rows, [1] of columns, [2] of numbers per lane. The others are true: [3] for
 * column order, [4] for halves, [5] for a store.
 */
const Ins* wmma_accumulator(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    const Extra& x = *i->extra;
    const Shape shape{x.options[0], x.options[1]};
    const bool by_columns = x.options[3] != 0, half = x.options[4] != 0, stores = x.options[5] != 0;
    const unsigned element = half ? 2 : 4;
    const int lines = by_columns ? shape.columns : shape.rows, width = by_columns ? shape.rows : shape.columns;
    const Memory memory = matrix_at(
        {w, i, m, static_cast<unsigned>(width) * element, stores ? Access::Write : Access::Read}, lines, element);
    // Floats in row order: two registers hold the even and the odd columns of an 8 x 8 block.
    const bool blocks = !half && !by_columns;
    for (int number = 0; number < x.options[2] && blocks; number += 2) {
      float *even = w.reg<float>(x.d[number]), *odd = w.reg<float>(x.d[number + 1]);
      const Element corner = element_of(shape, number, 0);
      char* there = memory.base + corner.row * memory.stride + 4 * corner.column;
      alignas(64) float t[2 * LANES];
      if (stores) {
        for (int lane = 0; lane < LANES; ++lane) t[2 * lane] = even[lane], t[2 * lane + 1] = odd[lane];
        for (int row = 0; row < 8; ++row) memcpy(there + row * memory.stride, t + 8 * row, 32);
      } else {
        for (int row = 0; row < 8; ++row) memcpy(t + 8 * row, there + row * memory.stride, 32);
        for (int lane = 0; lane < LANES; ++lane) even[lane] = t[2 * lane], odd[lane] = t[2 * lane + 1];
      }
    }
    for (int number = 0; number < x.options[2] && !blocks; ++number) {
      char* slot = w.regs + x.d[half ? number / 2 : number];
      for (int lane = 0; lane < LANES; ++lane) {
        const Element at = element_of(shape, number, lane);
        char* there = memory.base + (by_columns ? at.column : at.row) * memory.stride +
                      static_cast<int64_t>(by_columns ? at.row : at.column) * element;
        char* here = half ? slot + 4 * lane + 2 * (number & 1) : slot + 4 * lane;
        if (element == 4)
          memcpy(stores ? there : here, stores ? here : there, 4);
        else
          memcpy(stores ? there : here, stores ? here : there, 2);
      }
    }
    if (w.block->observed && i->space == SHARED_SPACE && !by_columns && !half)
      for (int number = 0; number < x.options[2]; number += 2) {
        uint32_t offsets[LANES];
        for (int lane = 0; lane < LANES; ++lane) {
          const Element at = element_of(shape, number, lane);
          offsets[lane] = memory.offset + static_cast<uint32_t>(at.row * memory.stride + at.column * 4);
        }
        w.block->observed->shared(i, ALL, 8, offsets);
      }
  });
}

/**
 * Operands: options[0] is the number of rows, [1] of columns, [2] the number type, [3] is true if C has halves, [4] if
 * D has halves.
 */
const Ins* wmma_multiply(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    const Extra& x = *i->extra;
    const Shape shape{x.options[0], x.options[1]};
    const auto type = static_cast<Number>(x.options[2]);
    const bool half_c = x.options[3] != 0, half_d = x.options[4] != 0;
    for (int top = 0; top < shape.rows; top += 16) {
#if defined(FLASHCORE_WIDE_VECTORS)
      const bool vectors = m == ALL && type == Number::Half && shape.rows >= 16;
      LeftOperand left;
      if (vectors) left.read(OperandRegisters(w, x.a.data() + top / 16 * 4, x.b.data()).left);
#endif
      for (int column = 0; column < shape.columns; column += 8) {
#if defined(FLASHCORE_WIDE_VECTORS)
        const int at = top / 4 + column / 2;
        if (vectors) {
          RightOperand right;
          right.read(OperandRegisters(w, x.a.data(), x.b.data() + column / 8 * 2).right);
          if (multiply_registers(w, {left, right}, {x.c.data() + (half_c ? at / 2 : at), half_c},
                                 {x.d.data() + (half_d ? at / 2 : at), half_d}))
            continue;
        }
#endif
        alignas(64) float a[16][16] = {}, b[16][8];
        alignas(64) Row8 acc[16] = {};
        if (shape.rows == 8) {
          alignas(64) float t[64];
          for (int block = 0; block < 2; ++block) {
            read_numbers(type, w.reg<uint16_t>(x.a[block]), t, 64);
            for (int r = 0; r < 8; ++r) memcpy(&a[r][8 * block], &t[8 * r], 32);
          }
        } else {
          left_in(w, {type, x.a.data() + top / 16 * 4, 16}, a);
        }
        for (int block = 0; block < 2; ++block)
          transposed(type, w.reg<uint16_t>(x.b[column / 8 * 2 + block]), b + 8 * block);
        float* flat = reinterpret_cast<float*>(acc);
        const int numbers = shape.rows == 8 ? 2 : 4, first = shape.rows == 8 ? column / 4 : top / 4 + column / 2;
        for (int n = 0; n < numbers; ++n) {
          const int number = first + n, row = 8 * (n >> 1);
          const char* slot = w.regs + x.c[half_c ? number / 2 : number];
          for (int lane = 0; lane < LANES; ++lane) {
            float value;
            if (half_c) {
              uint16_t bits;
              memcpy(&bits, slot + 4 * lane + 2 * (number & 1), 2);
              value = half_to_float(bits);
            } else {
              memcpy(&value, slot + 4 * lane, 4);
            }
            flat[(row + lane / 4) * 8 + 2 * (lane % 4) + (n & 1)] = value;
          }
        }
        multiply<16, 16>(a, b, acc, least_exponent(type));
        for (int n = 0; n < numbers; ++n) {
          const int number = first + n, row = 8 * (n >> 1);
          char* slot = w.regs + x.d[half_d ? number / 2 : number];
          for (int lane = 0; lane < LANES; ++lane) {
            if (!(m >> lane & 1)) continue;
            const float value = flat[(row + lane / 4) * 8 + 2 * (lane % 4) + (n & 1)];
            const uint16_t bits = half_d ? float_to_half(value) : uint16_t(0);
            if (half_d)
              memcpy(slot + 4 * lane + 2 * (number & 1), &bits, 2);
            else
              memcpy(slot + 4 * lane, &value, 4);
          }
        }
      }
    }
  });
}

bool lower_wmma(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  Shape shape{};
  if (!shape_of(s, shape)) return false;
  const std::string& what = s.mods[0];
  Extra& extra = l.extra(ins);
  extra.what =
      what == "mma" ? "wmma::mma_sync()" : (what == "load" ? "wmma::load_matrix_sync()" : "wmma::store_matrix_sync()");
  extra.options[0] = shape.rows;
  extra.options[1] = shape.columns;
  ins.space =
      has(s, "shared") || has(s, "shared::cta") ? SHARED_SPACE : (has(s, "global") ? GLOBAL_SPACE : GENERIC_SPACE);
  const std::string& type = s.mods.back();
  if (what == "mma") {
    // wmma.mma.sync.aligned.row.col.m16n16k16 ends in .f32.f32 (types of D and C), or .f32.bf16.bf16.f32.
    std::vector<std::string> types;
    for (const std::string& mod : s.mods)
      if (mod == "f32" || mod == "f16" || mod == "bf16") types.push_back(mod);
    if (types.size() != 2 && types.size() != 4) return false;
    if (s.mods.back() != types.back()) return false;
    extra.options[2] = types.size() == 4 && types[1] == "bf16";
    extra.options[3] = types.back() == "f16";
    extra.options[4] = types.front() == "f16";
    slots_of(l, s.operands[0], 4, extra.d);
    slots_of(l, s.operands[1], 4, extra.a);
    slots_of(l, s.operands[2], 4, extra.b);
    slots_of(l, s.operands[3], 4, extra.c);
    const auto sums = static_cast<size_t>(shape.rows * shape.columns / LANES);
    ins.fn = wmma_multiply;
    return extra.a.size() >= static_cast<size_t>(shape.rows / 4) &&
           extra.b.size() >= static_cast<size_t>(shape.columns / 4) &&
           extra.c.size() == (extra.options[3] ? sums / 2 : sums) &&
           extra.d.size() == (extra.options[4] ? sums / 2 : sums);
  }
  const bool loads = what == "load";
  if (!loads && what != "store") return false;
  const Operand& fragment = s.operands[loads ? 0 : 1];
  l.address(s.operands[loads ? 1 : 0], ins);
  const bool by_columns = has(s, "col");
  slots_of(l, fragment, 4, extra.d);
  if (s.mods[1] == "a" || s.mods[1] == "b") {
    for (size_t n = 0; n < fragment.items.size(); ++n)
      if (fragment.items[n].kind == OperandKind::Sink) extra.d[n] = NO_SLOT;
    if (type != "f16" && type != "bf16") return false;
    extra.options[2] = s.mods[1] == "a";
    extra.options[3] = (s.mods[1] == "a") != by_columns;
    extra.options[4] = static_cast<int>(extra.d.size());
    ins.fn = wmma_load_operand;
  } else {
    if (type != "f32" && type != "f16") return false;
    extra.options[2] = shape.rows * shape.columns / LANES;
    extra.options[3] = by_columns;
    extra.options[4] = type == "f16";
    extra.options[5] = !loads;
    ins.fn = wmma_accumulator;
    if (extra.d.size() != static_cast<size_t>(extra.options[2]) / (extra.options[4] ? 2 : 1)) return false;
  }
  if (s.operands.size() > 2) {
    ins.b = l.slot(s.operands[2], 4);
  } else {
    const int line = s.mods[1] == "a"   ? (by_columns ? shape.rows : 16)
                     : s.mods[1] == "b" ? (by_columns ? 16 : shape.columns)
                                        : (by_columns ? shape.rows : shape.columns);
    ins.b = l.constant(static_cast<uint64_t>(line), 4);
  }
  return true;
}

}  // namespace

}  // namespace flashcore::emu::ptx
