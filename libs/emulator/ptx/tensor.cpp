// Tensor cores. A slot of 32 lanes of two halves is an 8 x 8 matrix in row order: lane 4 * row + column / 2.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>

#include "access.h"
#include "collective.h"
#include "counters.h"
#include "halves.h"
#include "lower.h"
#include "products.h"
#include "races.h"

namespace flashcore::emu::ptx {

namespace {

enum class Number : uint8_t { Half, Bfloat };

inline void read_numbers(Number type, const uint16_t* from, float* to, int count) {
  if (type == Number::Half) return floats_of(from, to, count);
  for (int k = 0; k < count; ++k) to[k] = bfloat16_to_float(from[k]);
}

typedef float Row8 __attribute__((vector_size(32), aligned(32)));

typedef int32_t Whole8 __attribute__((vector_size(32), aligned(32)));
typedef double Double8 __attribute__((vector_size(64), aligned(64)));
typedef int64_t Long8 __attribute__((vector_size(64), aligned(64)));

constexpr int NO_EXPONENT = -1000, INFINITE_EXPONENT = 2000;  // even an infinity by zero stands out
/** Of numbers as the operand's format has them: its subnormal numbers keep the least exponent. In eights. */
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

/** multiply (below), element by element: for what is not finite, and for exponents that a float's scale can't take. */
template <int ROWS, int DEPTH>
void multiply_apart(const float (*a)[16], const float (*b)[8], const int32_t (*left)[16], const int32_t (*right)[8],
                    const int32_t (*own)[8], Row8* acc) {
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
 * acc[rows][8] += a[rows][depth] * b[depth][8] as an H200's tensor cores add: the products of one instruction and the
 * accumulator are cut, toward zero, at 2^-25 of the largest exponent among them (a product's is the sum of its factors'
 * exponents); their sum is exact, and is cut to fp32. Fitted to docs/results/h200-opcodes-2026-11-23.
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
    if (highest[c] > HIGHEST) return multiply_apart<ROWS, DEPTH>(a, b, left, right, own, acc);
  for (int r = 0; r < ROWS; ++r) {
    const Whole8 scale_bits = (KEPT + 127 - tops[r]) << 23;
    Row8 scale;
    memcpy(&scale, &scale_bits, sizeof scale);
    // Two sums: sixteen terms below 2^27 each and one more may not fit into one.
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

/** An 8 x 8 matrix of halves, transposed, as floats with 8 a row. */
inline void transposed(Number type, const uint16_t* from, float (*to)[8]) {
  alignas(64) float t[64];
  read_numbers(type, from, t, 64);
  for (int n = 0; n < 8; ++n)
    for (int k = 0; k < 8; ++k) to[k][n] = t[8 * n + k];
}

/** Accumulators of m16n8: registers 0, 1 rows 0 to 7, 2, 3 rows 8 to 15; even and odd columns. */
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

/** A of 16 rows: slots 0 rows 0 to 7, 1 rows 8 to 15; 2 and 3 the same of columns 8 to 15. */
inline void left_in(Warp& w, Number type, const uint32_t* slots, int depth, float (*a)[16]) {
  alignas(64) float t[64];
  for (int block = 0; block < depth / 8; ++block)
    for (int half = 0; half < 2; ++half) {
      read_numbers(type, w.reg<uint16_t>(slots[2 * block + half]), t, 64);
      for (int r = 0; r < 8; ++r) memcpy(&a[8 * half + r][8 * block], &t[8 * r], 32);
    }
}

#if defined(FLASHCORE_WIDE_VECTORS)
/**
 * d[16][8] = a * b + c by registers, for a whole warp; half_c, half_d: accumulators of halves; no c: zeros. False: not
 * done.
 */
bool multiply_registers(Warp& w, const LeftOperand& left, const RightOperand& right, const uint32_t* c, bool half_c,
                        const uint32_t* d, bool half_d) {
  vectors::Floats sums[8] = {};
  if (!c) {
    // nothing to add to
  } else if (half_c) {
    const uint32_t* registers[] = {w.reg<uint32_t>(c[0]), w.reg<uint32_t>(c[1])};
    read_half_sums(registers, sums);
  } else {
    const float* registers[] = {w.reg<float>(c[0]), w.reg<float>(c[1]), w.reg<float>(c[2]), w.reg<float>(c[3])};
    read_sums(registers, sums);
  }
  if (!multiply_halves(left, right, sums)) return false;
  if (half_d) {
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

// --- mma.sync --------------------------------------------------------------------------------------------------------

/** options: 0 depth, 1 number type, 2 whether C is half, 3 whether D is. */
template <int DEPTH>
const Ins* mma(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    const Extra& x = *i->extra;
    const auto type = static_cast<Number>(x.options[1]);
#if defined(FLASHCORE_WIDE_VECTORS)
    if (DEPTH == 16 && m == ALL && type == Number::Half) {
      const OperandRegisters at(w, x.a.data(), x.b.data());
      RecentOperands& recent = *w.block->recent;
      if (multiply_registers(w, recent.left.of(at.left, x.a[0]), recent.right.of(at.right, x.b[0]), x.c.data(),
                             x.options[2], x.d.data(), x.options[3]))
        return;
    }
#endif
    alignas(64) float a[16][16], b[16][8];
    alignas(64) Row8 acc[16];
    left_in(w, type, x.a.data(), DEPTH, a);
    for (int block = 0; block < DEPTH / 8; ++block) transposed(type, w.reg<uint16_t>(x.b[block]), b + 8 * block);
    if (x.options[2])
      half_accumulators_in(w, x.c.data(), acc);
    else
      accumulators_in(w, x.c.data(), acc);
    multiply<16, DEPTH>(a, b, acc, least_exponent(type));
    if (x.options[3])
      half_accumulators_out(w, x.d.data(), m, acc);
    else
      accumulators_out(w, x.d.data(), m, acc);
  });
}

/** The lower 13 bits of an operand are not looked at. */
template <int DEPTH>
const Ins* mma_tf32(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    const Extra& x = *i->extra;
    alignas(64) float a[16][16] = {}, b[16][8];
    alignas(64) Row8 acc[16];
    const auto number = [&](uint32_t slot, int lane) { return bits_float(w.reg<uint32_t>(slot)[lane] & ~0x1fffu); };
    for (int lane = 0; lane < LANES; ++lane) {
      for (int n = 0; n < DEPTH / 2; ++n) a[lane / 4 + 8 * (n & 1)][lane % 4 + n / 2 * 4] = number(x.a[n], lane);
      for (int n = 0; n < DEPTH / 4; ++n) b[lane % 4 + 4 * n][lane / 4] = number(x.b[n], lane);
    }
    accumulators_in(w, x.c.data(), acc);
    multiply<16, DEPTH>(a, b, acc, -126);
    accumulators_out(w, x.d.data(), m, acc);
  });
}

/** e4m3 or e5m2. */
float fp8_to_float(uint8_t bits, bool wide) {
  if (wide) return half_to_float(static_cast<uint16_t>(bits << 8));
  const float sign = bits & 0x80 ? -1.0f : 1.0f;
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return NAN;
  return sign * (exponent ? std::ldexp(8.0f + static_cast<float>(mantissa), exponent - 10)
                          : std::ldexp(static_cast<float>(mantissa), -9));
}

/**
 * An H200 makes halves of it: one product of the lower two bytes of each register, one of the upper two on top of it,
 * and the accumulator is added at the end. Where sums are halves, each of the three is rounded to one. options: 0, 1
 * e5m2; 2 sums are halves.
 */
template <int DEPTH>
const Ins* mma_fp8(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    const Extra& x = *i->extra;
    const bool halves = x.options[2] != 0;
    alignas(64) Row8 acc[16], sum[16] = {};
    for (int part = 0; part < 2; ++part) {
      alignas(64) float a[16][16], b[16][8];
      for (int lane = 0; lane < LANES; ++lane)
        for (int byte = 0; byte < 2; ++byte) {
          const int shift = 16 * part + 8 * byte, at = lane % 4 * 2 + byte;
          for (int n = 0; n < DEPTH / 8; ++n)
            a[lane / 4 + 8 * (n & 1)][n / 2 * 8 + at] =
                fp8_to_float(static_cast<uint8_t>(w.reg<uint32_t>(x.a[n])[lane] >> shift), x.options[0]);
          for (int n = 0; n < DEPTH / 16; ++n)
            b[n * 8 + at][lane / 4] =
                fp8_to_float(static_cast<uint8_t>(w.reg<uint32_t>(x.b[n])[lane] >> shift), x.options[1]);
        }
      multiply<16, DEPTH / 2>(a, b, sum, -14);
      if (!halves) continue;
      for (Row8& row : sum)
        for (int c = 0; c < 8; ++c) row[c] = half_to_float(float_to_half(row[c]));
    }
    if (halves)
      half_accumulators_in(w, x.c.data(), acc);
    else
      accumulators_in(w, x.c.data(), acc);
    for (int r = 0; r < 16; ++r) acc[r] += sum[r];
    if (halves)
      half_accumulators_out(w, x.d.data(), m, acc);
    else
      accumulators_out(w, x.d.data(), m, acc);
  });
}

/** Rows of A and columns of D of a lane's registers, of a product that is done element by element. */
template <class T, class Left, class Right>
void multiply_elements(int rows, int depth, const Left& a, const Right& b, T (*acc)[8]) {
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < 8; ++c)
      for (int k = 0; k < depth; ++k) {
        if constexpr (std::is_same_v<T, double>)
          acc[r][c] = __builtin_fma(a(r, k), b(k, c), acc[r][c]);
        else
          acc[r][c] += static_cast<T>(a(r, k)) * b(k, c);
      }
}

/** Numbers of BITS bits in a lane's register: A row lane / 4, 32 / BITS (lane % 4) on; B the other way round. */
template <unsigned BITS>
int whole_number(uint32_t bits, int k, bool is_signed) {
  constexpr unsigned PER = 32 / BITS;
  const uint32_t kept = bits >> BITS * (static_cast<unsigned>(k) % PER) & ((1u << BITS) - 1);
  return is_signed && (kept >> (BITS - 1) & 1) ? static_cast<int>(kept) - (1 << BITS) : static_cast<int>(kept);
}

/** options: 0, 1 signed; 2 sat. */
template <unsigned BITS>
const Ins* mma_whole(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    constexpr int PER = 32 / BITS, WIDE = 4 * PER;  // numbers of a register, and of a row of a register of all lanes
    const Extra& x = *i->extra;
    const int rows = x.c.size() == 2 ? 8 : 16, depth = static_cast<int>(x.b.size()) * WIDE;
    const auto left = [&](int r, int k) {
      const size_t n = rows == 8 ? 0 : static_cast<size_t>(r / 8 + 2 * (k / WIDE));
      return whole_number<BITS>(w.reg<uint32_t>(x.a[n])[r % 8 * 4 + k % WIDE / PER], k, x.options[0] != 0);
    };
    const auto right = [&](int k, int c) {
      return whole_number<BITS>(w.reg<uint32_t>(x.b[static_cast<size_t>(k / WIDE)])[4 * c + k % WIDE / PER], k,
                                x.options[1] != 0);
    };
    int64_t acc[16][8];
    const auto each = [&](auto visit) {
      for (size_t n = 0; n < x.c.size(); ++n)
        for (int lane = 0; lane < LANES; ++lane) visit(n, lane, acc[lane / 4 + 8 * (n / 2)][lane % 4 * 2 + n % 2]);
    };
    each([&](size_t n, int lane, int64_t& sum) { sum = w.reg<int32_t>(x.c[n])[lane]; });
    multiply_elements<int64_t>(rows, depth, left, right, acc);
    each([&](size_t n, int lane, int64_t sum) {
      if (x.options[2]) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
      if (m >> lane & 1) w.reg<int32_t>(x.d[n])[lane] = static_cast<int32_t>(sum);
    });
  });
}

/** Counts the bits of rows and columns that are both set, or (options 0) that differ. */
const Ins* mma_bits(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    const Extra& x = *i->extra;
    const bool differ = x.options[0] != 0;
    const size_t halves = x.c.size() / 2;  // of eight rows
    int32_t acc[4][LANES];
    for (size_t n = 0; n < x.c.size(); ++n)
      for (int lane = 0; lane < LANES; ++lane) {
        acc[n][lane] = w.reg<int32_t>(x.c[n])[lane];
        const int row = lane / 4, column = lane % 4 * 2 + static_cast<int>(n % 2);
        for (size_t piece = 0; piece < x.b.size(); ++piece)
          for (int word = 0; word < 4; ++word) {
            const uint32_t a = w.reg<uint32_t>(x.a[piece * halves + n / 2])[4 * row + word];
            const uint32_t b = w.reg<uint32_t>(x.b[piece])[4 * column + word];
            acc[n][lane] += __builtin_popcount(differ ? a ^ b : a & b);
          }
      }
    for (size_t n = 0; n < x.d.size(); ++n)
      for (int lane = 0; lane < LANES; ++lane)
        if (m >> lane & 1) w.reg<int32_t>(x.d[n])[lane] = acc[n][lane];
  });
}

/** One number a register: A row lane / 4, depth lane % 4; B the other way round. Fused, in order of depth. */
const Ins* mma_double(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    const Extra& x = *i->extra;
    const int rows = x.c.size() == 2 ? 8 : 16, depth = static_cast<int>(x.b.size()) * 4;
    const auto left = [&](int r, int k) {
      const size_t n = rows == 8 ? 0 : static_cast<size_t>(r / 8 + 2 * (k / 4));
      return w.reg<double>(x.a[n])[r % 8 * 4 + k % 4];
    };
    const auto right = [&](int k, int c) { return w.reg<double>(x.b[static_cast<size_t>(k / 4)])[4 * c + k % 4]; };
    double acc[16][8];
    const auto each = [&](auto visit) {
      for (size_t n = 0; n < x.c.size(); ++n)
        for (int lane = 0; lane < LANES; ++lane) visit(n, lane, acc[lane / 4 + 8 * (n / 2)][lane % 4 * 2 + n % 2]);
    };
    each([&](size_t n, int lane, double& sum) { sum = w.reg<double>(x.c[n])[lane]; });
    multiply_elements<double>(rows, depth, left, right, acc);
    each([&](size_t n, int lane, double sum) {
      if (m >> lane & 1) w.reg<double>(x.d[n])[lane] = sum;
    });
  });
}

void slots_of(Lowering& l, const Operand& vector, unsigned bytes, std::vector<uint32_t>& slots) {
  if (vector.kind != OperandKind::Vector) {
    slots.push_back(l.slot(vector, bytes));
    return;
  }
  for (const Operand& item : vector.items) slots.push_back(l.slot(item, bytes));
}

/** Bits of a number of an operand; 0 for what is none. */
unsigned bits_of_number(const std::string& type) {
  if (type == "e4m3" || type == "e5m2") return 8;
  if (type == "tf32") return 32;
  const size_t digits = type.find_first_of("0123456789");
  return digits == std::string::npos ? 0 : static_cast<unsigned>(atoi(type.c_str() + digits));
}

/** Whether each operand of mma has the registers that its shape and types take: 4 bytes, or 8 of f64. */
bool fits_shape(const Extra& x, const std::string& shape, const std::string& d, const std::string& a,
                const std::string& b, const std::string& c) {
  unsigned rows = 0, columns = 0, depth = 0;
  if (sscanf(shape.c_str(), "m%un%uk%u", &rows, &columns, &depth) != 3 || columns != 8) return false;
  const auto registers = [](unsigned numbers, const std::string& type) -> size_t {
    return numbers * bits_of_number(type) / (LANES * (type == "f64" ? 64u : 32u));
  };
  return rows <= 16 && depth <= 256 && x.d.size() == registers(rows * columns, d) &&
         x.a.size() == registers(rows * depth, a) && x.b.size() == registers(columns * depth, b) &&
         x.c.size() == registers(rows * columns, c);
}

bool lower_mma(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  // mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32, with .satfinite before or after the types of whole numbers, .rn
  // after those of f64 and .xor.popc or .and.popc after those of bits
  if (s.mods[0] != "sync" || s.mods[3] != "row" || s.mods[4] != "col" || s.operands.size() != 4) return false;
  std::vector<std::string> types;
  for (size_t n = 5; n < s.mods.size(); ++n)
    if (bits_of_number(s.mods[n])) types.push_back(s.mods[n]);
  const bool saturates = has(s, "satfinite"), counts = has(s, "popc"), differs = has(s, "xor");
  const size_t others = saturates + has(s, "rn") + counts + (counts && differs) + (counts && has(s, "and"));
  if (types.size() != 4 || s.mods.size() != 9 + others) return false;
  const std::string &shape = s.mods[2], &d = types[0], &a = types[1], &b = types[2], &c = types[3];
  Extra& extra = l.extra(ins);
  extra.what = "mma.sync";
  const unsigned bytes = d == "f64" ? 8 : 4;
  slots_of(l, s.operands[0], bytes, extra.d);
  slots_of(l, s.operands[1], bytes, extra.a);
  slots_of(l, s.operands[2], bytes, extra.b);
  slots_of(l, s.operands[3], bytes, extra.c);
  if (!fits_shape(extra, shape, d, a, b, c)) return false;
  if (a == b && (a == "f16" || a == "bf16") && (d == "f32" || d == "f16") && (c == "f32" || c == "f16")) {
    extra.options[1] = a == "bf16";
    extra.options[2] = c == "f16";
    extra.options[3] = d == "f16";
    ins.fn = shape == "m16n8k16" ? mma<16> : (shape == "m16n8k8" ? mma<8> : nullptr);
    return ins.fn != nullptr;
  }
  const auto is_fp8 = [](const std::string& type) { return type == "e4m3" || type == "e5m2"; };
  const auto is_whole = [](const std::string& type, const char* bits) {
    return (type[0] == 's' || type[0] == 'u') && type.substr(1) == bits;
  };
  if (a == "tf32" && b == "tf32" && d == "f32" && c == "f32") {
    ins.fn = shape == "m16n8k8" ? mma_tf32<8> : (shape == "m16n8k4" ? mma_tf32<4> : nullptr);
  } else if (is_fp8(a) && is_fp8(b) && d == c && (d == "f32" || d == "f16")) {
    extra.options[0] = a == "e5m2";
    extra.options[1] = b == "e5m2";
    extra.options[2] = d == "f16";
    ins.fn = shape == "m16n8k32" ? mma_fp8<32> : (shape == "m16n8k16" ? mma_fp8<16> : nullptr);
  } else if (d == "s32" && c == "s32" && !counts) {
    const bool bytes = is_whole(a, "8") && is_whole(b, "8");
    if (!bytes && !(is_whole(a, "4") && is_whole(b, "4"))) return false;
    extra.options[0] = a[0] == 's';
    extra.options[1] = b[0] == 's';
    extra.options[2] = saturates;
    ins.fn = bytes ? mma_whole<8> : mma_whole<4>;
    return bytes ? shape == "m16n8k32" || shape == "m16n8k16" || shape == "m8n8k16"
                 : shape == "m16n8k64" || shape == "m16n8k32" || shape == "m8n8k32";
  } else if (a == "b1" && b == "b1" && d == "s32" && c == "s32" && counts && differs != has(s, "and")) {
    extra.options[0] = differs;
    ins.fn = mma_bits;
    return shape == "m16n8k256" || shape == "m16n8k128" || shape == "m8n8k128";
  } else if (a == "f64" && b == "f64" && d == "f64" && c == "f64") {
    ins.fn = mma_double;
    return shape == "m8n8k4" || shape == "m16n8k4" || shape == "m16n8k8" || shape == "m16n8k16";
  }
  return ins.fn != nullptr;
}

// --- ldmatrix, stmatrix, movmatrix -----------------------------------------------------------------------------------

inline void transpose8(const uint16_t* from, uint16_t* to) {
  for (int r = 0; r < 8; ++r)
    for (int c = 0; c < 8; ++c) to[8 * r + c] = from[8 * c + r];
}

/** Addresses of rows of 16 bytes; lane n names row n. */
void rows_of(Warp& w, const Ins* i, unsigned rows, Access access, Pointers& p) {
  const uint32_t lanes = rows == LANES ? ALL : (1u << rows) - 1;
  if (i->space != SHARED_SPACE) return resolve(w, i, lanes, 16, access, p);
  alignas(64) uint32_t offsets[LANES];
  Counters* const observed = std::exchange(w.block->observed, nullptr);
  resolve_shared(w, i, lanes, 16, access, offsets);
  w.block->observed = observed;
  for (int k = 0; k < LANES; ++k) p.at[k] = w.block->shared + offsets[k];
  if (observed) observed->rows(i, offsets, rows);
}

/** options: 0 matrices, 1 transposed. */
const Ins* load_matrices(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    const int matrices = i->extra->options[0];
    Pointers p;
    rows_of(w, i, static_cast<unsigned>(8 * matrices), Access::Read, p);
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
    Pointers p;
    rows_of(w, i, static_cast<unsigned>(8 * matrices), Access::Write, p);
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

// --- wmma ------------------------------------------------------------------------------------------------------------

// How elements lie in the registers of a fragment is the hardware's own business, but for this: elements of the same
// register of two accumulators are the same element. A and B lie as mma.sync has them, repeated where there are more
// registers than elements; accumulators as those of mma.sync, side by side.
struct Shape {
  int rows, columns;  // of A and C, of B and C; the depth is 16
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

/** Where the 8 x 8 block of an A or B register begins: row of A or column of B, and depth. */
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

/** Where element (lane, number) of an accumulator lies, of `per` numbers in a row block. */
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
  int64_t stride = 0;  // bytes
  uint32_t offset = 0;  // in shared memory
};

/** A matrix of `lines` lines of so many bytes, all checked; lane 0 names it. */
Memory matrix_at(Warp& w, const Ins* i, uint32_t m, int lines, unsigned bytes, unsigned element, Access access) {
  const auto lane = static_cast<unsigned>(__builtin_ctz(m));
  const uint64_t address = i->wide_address ? w.reg<uint64_t>(i->a)[lane] + static_cast<uint64_t>(i->imm)
                                           : w.reg<uint32_t>(i->a)[lane] + static_cast<uint32_t>(i->imm);
  Memory memory;
  memory.stride = static_cast<int64_t>(static_cast<int32_t>(w.reg<uint32_t>(i->b)[lane])) * element;
  memory.offset = static_cast<uint32_t>(address);
  // All lines of it lie between the first and the last.
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
      w.block->shadow->access(w, i, all, bytes, access, offsets, static_cast<int>(lane));
    }
    return memory;
  }
  for (int line = 0; line < lines; ++line) {
    char* at = resolve_one(w, i, lane, address + static_cast<uint64_t>(memory.stride * line), bytes, element, access);
    if (line == 0) memory.base = at;
  }
  return memory;
}

/** options: 0 rows, 1 columns, 2 whether it is A, 3 whether the memory's lines run along the depth, 4 registers. */
const Ins* wmma_load_operand(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    const Extra& x = *i->extra;
    const Shape shape{x.options[0], x.options[1]};
    const bool is_left = x.options[2] != 0, along_depth = x.options[3] != 0;
    const int outer = is_left ? shape.rows : shape.columns;
    const Memory memory = along_depth ? matrix_at(w, i, m, outer, 32, 2, Access::Read)
                                      : matrix_at(w, i, m, 16, static_cast<unsigned>(2 * outer), 2, Access::Read);
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

/** options: 0 rows, 1 columns, 2 numbers a lane, 3 column order, 4 half, 5 whether it stores. */
const Ins* wmma_accumulator(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    const Extra& x = *i->extra;
    const Shape shape{x.options[0], x.options[1]};
    const bool by_columns = x.options[3] != 0, half = x.options[4] != 0, stores = x.options[5] != 0;
    const unsigned element = half ? 2 : 4;
    const int lines = by_columns ? shape.columns : shape.rows, width = by_columns ? shape.rows : shape.columns;
    const Memory memory = matrix_at(w, i, m, lines, static_cast<unsigned>(width) * element, element,
                                    stores ? Access::Write : Access::Read);
    // Rows of floats: two registers are the even and the odd columns of 8 x 8.
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
        w.block->observed->shared(i, ALL, 8, stores ? Access::Write : Access::Read, offsets);
      }
  });
}

/** options: 0 rows, 1 columns, 2 number type, 3 whether C is half, 4 whether D is. */
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
          if (multiply_registers(w, left, right, x.c.data() + (half_c ? at / 2 : at), half_c,
                                 x.d.data() + (half_d ? at / 2 : at), half_d))
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
          left_in(w, type, x.a.data() + top / 16 * 4, 16, a);
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
    // wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 (d, c) or .f32.bf16.bf16.f32
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
