// Operands and products of tensor cores. A slot has two halves in each of 32 lanes, which are an 8 x 8 matrix in row
// order: element (row, column) is in lane 4 * row + column / 2.
#pragma once
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "../counters.h"
#include "../halves.h"
#include "../lower.h"
#include "../products.h"

namespace flashcore::emu::ptx {

namespace {

inline void transpose8(const uint16_t* from, uint16_t* to) {
  for (int r = 0; r < 8; ++r)
    for (int c = 0; c < 8; ++c) to[8 * r + c] = from[8 * c + r];
}

enum class Number : uint8_t { Half, Bfloat };

inline void read_numbers(Number type, const uint16_t* from, float* to, int count) {
  if (type == Number::Half) return floats_of(from, to, count);
  for (int k = 0; k < count; ++k) to[k] = bfloat16_to_float(from[k]);
}

typedef float Row8 __attribute__((vector_size(32), aligned(32)));

typedef int32_t Whole8 __attribute__((vector_size(32), aligned(32)));
typedef double Double8 __attribute__((vector_size(64), aligned(64)));
typedef int64_t Long8 __attribute__((vector_size(64), aligned(64)));

constexpr int NO_EXPONENT = -1000, INFINITE_EXPONENT = 2000;  // so far apart that inf * 0 stays recognizable
/**
 * The exponents in the operand's format, where subnormals have the least exponent. Converts eight numbers at a time.
 */
inline void exponents_of(const float* from, int32_t* to, int count, int least) {
  for (int n = 0; n < count; n += 8) {
    Whole8 bits;
    memcpy(&bits, from + n, sizeof bits);
    bits &= 0x7fffffff;
    const Whole8 exponent = (bits >> 23) - 127, bounded = exponent < least ? Whole8{} + least : exponent;
    const Whole8 finite = bits == 0 ? Whole8{} + NO_EXPONENT : bounded;
    const Whole8 kept = exponent == 128 ? Whole8{} + INFINITE_EXPONENT : finite;
    memcpy(to + n, &kept, sizeof kept);
  }
}

constexpr int KEPT = 25;

/** The exponents of a product's factors and accumulators. */
struct Exponents {
  const int32_t (*left)[16];
  const int32_t (*right)[8];
  const int32_t (*own)[8];
};

/**
 * Does the same as multiply() below, but element by element. Used for infinity, NaN, and exponents that a float's scale
 * cannot represent.
 */
template <int ROWS, int DEPTH>
void multiply_apart(const float (*a)[16], const float (*b)[8], const Exponents& exponents, Row8* acc) {
  const auto [left, right, own] = exponents;
  for (int r = 0; r < ROWS; ++r)
    for (int c = 0; c < 8; ++c) {
      int top = own[r][c];
      float in_order = acc[r][c];
      bool finite = top != INFINITE_EXPONENT;
      for (int k = 0; k < DEPTH; ++k) {
        finite = finite && left[r][k] != INFINITE_EXPONENT && right[k][c] != INFINITE_EXPONENT;
        top = std::max(top, left[r][k] + right[k][c]);
        in_order += a[r][k] * b[k][c];
      }
      if (!finite || top < -126 - KEPT) {
        acc[r][c] = in_order;
        continue;
      }
      const auto cut = [top](double term) { return std::trunc(std::ldexp(term, KEPT - top)); };
      double sum = cut(acc[r][c]);
      for (int k = 0; k < DEPTH; ++k) sum += cut(static_cast<double>(a[r][k]) * b[k][c]);
      const double wide = std::ldexp(sum, top - KEPT);
      float narrow = static_cast<float>(wide);
      if (std::isfinite(narrow) && std::fabs(narrow) > std::fabs(wide)) narrow = std::nextafterf(narrow, 0.0f);
      acc[r][c] = narrow;
    }
}

/**
 * acc[rows][8] += a[rows][depth] * b[depth][8], added like an H200's tensor cores: the products of one instruction and
 * the accumulator are each truncated at 2^-25 of the largest exponent among them. (A product's exponent is the sum of
 * its factors' exponents.) These terms are added exactly, and the sum is truncated to fp32. Fitted to
 * lab/results/h200-opcodes-2026-11-23.
 */
template <int ROWS, int DEPTH>
inline void multiply(const float (*a)[16], const float (*b)[8], Row8* acc, int least) {
  constexpr int HIGHEST = 100, LOWEST = -100;
  const Row8* rows = reinterpret_cast<const Row8*>(b);
  alignas(64) int32_t left[ROWS][16], right[DEPTH][8], own[ROWS][8];
  for (int r = 0; r < ROWS; ++r) exponents_of(a[r], left[r], DEPTH < 8 ? 8 : DEPTH, least);
  exponents_of(b[0], right[0], 8 * DEPTH, least);
  exponents_of(reinterpret_cast<const float*>(acc), own[0], 8 * ROWS, -126);
  const Whole8* ours = reinterpret_cast<const Whole8*>(right);
  Whole8 tops[ROWS], highest = Whole8{} + LOWEST;
  for (int r = 0; r < ROWS; ++r) {
    Whole8 top = reinterpret_cast<const Whole8*>(own)[r];
#pragma GCC unroll 16
    for (int k = 0; k < DEPTH; ++k) {
      const Whole8 exponent = ours[k] + left[r][k];
      top = exponent > top ? exponent : top;
    }
    top = top < LOWEST ? Whole8{} + LOWEST : top;
    highest = top > highest ? top : highest;
    tops[r] = top;
  }
  for (int c = 0; c < 8; ++c)
    if (highest[c] > HIGHEST) return multiply_apart<ROWS, DEPTH>(a, b, {left, right, own}, acc);
  for (int r = 0; r < ROWS; ++r) {
    const Whole8 scale_bits = (KEPT + 127 - tops[r]) << 23;
    Row8 scale;
    memcpy(&scale, &scale_bits, sizeof scale);
    // Two sums, because one might overflow with 17 terms below 2^27 each.
    Whole8 first = {}, second = __builtin_convertvector(acc[r] * scale, Whole8);
#pragma GCC unroll 8
    for (int k = 0; k < DEPTH / 2; ++k) {
      first += __builtin_convertvector(a[r][k] * rows[k] * scale, Whole8);
      second += __builtin_convertvector(a[r][k + DEPTH / 2] * rows[k + DEPTH / 2] * scale, Whole8);
    }
    const Long8 unit_bits = __builtin_convertvector(tops[r] + (1023 - KEPT), Long8) << 52;
    Double8 unit;
    memcpy(&unit, &unit_bits, sizeof unit);
    const Double8 sum = (__builtin_convertvector(first, Double8) + __builtin_convertvector(second, Double8)) * unit;
    Long8 cut;
    memcpy(&cut, &sum, sizeof cut);
    cut &= ~((int64_t(1) << 29) - 1);
    Double8 kept;
    memcpy(&kept, &cut, sizeof kept);
    acc[r] = __builtin_convertvector(kept, Row8);
  }
}

inline int least_exponent(Number type) { return type == Number::Half ? -14 : -126; }

/** Transposes an 8 x 8 matrix of halves into floats, eight per row. */
inline void transposed(Number type, const uint16_t* from, float (*to)[8]) {
  alignas(64) float t[64];
  read_numbers(type, from, t, 64);
  for (int n = 0; n < 8; ++n)
    for (int k = 0; k < 8; ++k) to[k][n] = t[8 * n + k];
}

/**
 * Reads accumulators of m16n8. Registers 0 and 1 hold rows 0 to 7, registers 2 and 3 rows 8 to 15. Even registers hold
 * even columns.
 */
inline void accumulators_in(Warp& w, const uint32_t* slots, Row8* acc) {
  float* flat = reinterpret_cast<float*>(acc);
  for (int half = 0; half < 2; ++half) {
    const float *even = w.reg<float>(slots[2 * half]), *odd = w.reg<float>(slots[2 * half + 1]);
    for (int k = 0; k < LANES; ++k) {
      flat[64 * half + 2 * k] = even[k];
      flat[64 * half + 2 * k + 1] = odd[k];
    }
  }
}
inline void accumulators_out(Warp& w, const uint32_t* slots, uint32_t m, const Row8* acc) {
  const float* flat = reinterpret_cast<const float*>(acc);
  for (int half = 0; half < 2; ++half)
    for (int odd = 0; odd < 2; ++odd)
      write_lanes<float>(w, slots[2 * half + odd], m, [=](int k) { return flat[64 * half + 2 * k + odd]; });
}
inline void half_accumulators_in(Warp& w, const uint32_t* slots, Row8* acc) {
  for (int half = 0; half < 2; ++half)
    floats_of(w.reg<uint16_t>(slots[half]), reinterpret_cast<float*>(acc) + 64 * half, 64);
}
inline void half_accumulators_out(Warp& w, const uint32_t* slots, uint32_t m, const Row8* acc) {
  for (int half = 0; half < 2; ++half) {
    alignas(64) uint16_t t[64];
    halves_of(reinterpret_cast<const float*>(acc) + 64 * half, t, 64);
    const uint32_t* pairs = reinterpret_cast<const uint32_t*>(t);
    write_lanes<uint32_t>(w, slots[half], m, [=](int k) { return pairs[k]; });
  }
}

/** The registers of A: a slot for each 8 x 8 numbers. */
struct LeftRegisters {
  Number type;
  const uint32_t* slots;
  int depth;
};

/**
 * Reads A of 16 rows. Slot 0 holds rows 0 to 7, slot 1 rows 8 to 15, slots 2 and 3 the same rows of columns 8 to 15.
 */
inline void left_in(Warp& w, const LeftRegisters& from, float (*a)[16]) {
  alignas(64) float t[64];
  for (int block = 0; block < from.depth / 8; ++block)
    for (int half = 0; half < 2; ++half) {
      read_numbers(from.type, w.reg<uint16_t>(from.slots[2 * block + half]), t, 64);
      for (int r = 0; r < 8; ++r) memcpy(&a[8 * half + r][8 * block], &t[8 * r], 32);
    }
}

#if defined(FLASHCORE_WIDE_VECTORS)
/** The registers of a warp's C or D [16][8]. Without slots, its values are 0. */
struct SumRegisters {
  const uint32_t* slots;
  bool halves;
};

/**
 * d[16][8] = a * b + c in registers, for a whole warp; the factors are a and b. Returns false and changes nothing if
 * the vectors cannot compute this product.
 */
bool multiply_registers(Warp& w, const std::pair<const LeftOperand&, const RightOperand&>& factors,
                        const SumRegisters& from, const SumRegisters& to) {
  const uint32_t *const c = from.slots, *const d = to.slots;
  vectors::Floats sums[8] = {};
  if (!c) {
    // Without c the sums start at zero.
  } else if (from.halves) {
    const uint32_t* registers[] = {w.reg<uint32_t>(c[0]), w.reg<uint32_t>(c[1])};
    read_half_sums(registers, sums);
  } else {
    const float* registers[] = {w.reg<float>(c[0]), w.reg<float>(c[1]), w.reg<float>(c[2]), w.reg<float>(c[3])};
    read_sums(registers, sums);
  }
  if (!multiply_halves(factors.first, factors.second, sums)) return false;
  if (to.halves) {
    uint32_t* registers[] = {w.reg<uint32_t>(d[0]), w.reg<uint32_t>(d[1])};
    write_half_sums(registers, sums);
  } else {
    float* registers[] = {w.reg<float>(d[0]), w.reg<float>(d[1]), w.reg<float>(d[2]), w.reg<float>(d[3])};
    write_sums(registers, sums);
  }
  return true;
}
struct OperandRegisters {
  const uint32_t *left[4], *right[2];
  OperandRegisters(Warp& w, const uint32_t* a, const uint32_t* b) {
    for (int n = 0; n < 4; ++n) left[n] = w.reg<uint32_t>(a[n]);
    for (int n = 0; n < 2; ++n) right[n] = w.reg<uint32_t>(b[n]);
  }
};
#endif

void slots_of(Lowering& l, const Operand& vector, unsigned bytes, std::vector<uint32_t>& slots) {
  if (vector.kind != OperandKind::Vector) {
    slots.push_back(l.slot(vector, bytes));
    return;
  }
  for (const Operand& item : vector.items) slots.push_back(l.slot(item, bytes));
}

}  // namespace

}  // namespace flashcore::emu::ptx
