// mma.sync.
#pragma once
#include <cmath>
#include <cstdio>
#include <string>

#include "../collective.h"
#include "operands.h"

namespace flashcore::emu::ptx {

namespace {

/** Operands: options[0] is the depth, [1] the number type, [2] is true if C has halves, [3] if D has halves. */
template <int DEPTH>
const Ins* mma(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    const Extra& x = *i->extra;
    const auto type = static_cast<Number>(x.options[1]);
#if defined(FLASHCORE_WIDE_VECTORS)
    if (DEPTH == 16 && m == ALL && type == Number::Half) {
      const OperandRegisters at(w, x.a.data(), x.b.data());
      RecentOperands& recent = *w.block->recent;
      if (multiply_registers(w, {recent.left.of(at.left, x.a[0]), recent.right.of(at.right, x.b[0])},
                             {x.c.data(), x.options[2] != 0}, {x.d.data(), x.options[3] != 0}))
        return;
    }
#endif
    alignas(64) float a[16][16], b[16][8];
    alignas(64) Row8 acc[16];
    left_in(w, {type, x.a.data(), DEPTH}, a);
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

/** Multiplies tf32 numbers. The lower 13 bits of an operand are ignored. */
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

/** `wide` is true for e5m2 and false for e4m3. */
float fp8_to_float(uint8_t bits, bool wide) {
  if (wide) return half_to_float(static_cast<uint16_t>(bits << 8));
  const float sign = bits & 0x80 ? -1.0f : 1.0f;
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return NAN;
  return sign * (exponent ? std::ldexp(8.0f + static_cast<float>(mantissa), exponent - 10)
                          : std::ldexp(static_cast<float>(mantissa), -9));
}

/**
 * An H200 converts the numbers to halves. It multiplies the lower two bytes of each register, adds the product of the
 * upper two, and adds the accumulator last. If D has halves, each of the three steps rounds to half. Operands:
 * options[0] and [1] are true if A and B are e5m2, [2] if D has halves.
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

/** The rows and columns of A. */
struct LeftSize {
  int rows, depth;
};

/** acc[rows][8] += a(row, k) * b(k, column), element by element in order of k. */
template <class T, class Left, class Right>
void multiply_elements(LeftSize size, const Left& a, const Right& b, T (*acc)[8]) {
  for (int r = 0; r < size.rows; ++r)
    for (int c = 0; c < 8; ++c)
      for (int k = 0; k < size.depth; ++k) {
        if constexpr (std::is_same_v<T, double>)
          acc[r][c] = __builtin_fma(a(r, k), b(k, c), acc[r][c]);
        else
          acc[r][c] += static_cast<T>(a(r, k)) * b(k, c);
      }
}

/**
 * The numbers of BITS bits in a lane's register. For A they are in row lane / 4, from column 32 / BITS (lane % 4) on.
 * For B swap rows and columns.
 */
template <unsigned BITS>
int whole_number(uint32_t bits, int k, bool is_signed) {
  constexpr unsigned PER = 32 / BITS;
  const uint32_t kept = bits >> BITS * (static_cast<unsigned>(k) % PER) & ((1u << BITS) - 1);
  return is_signed && (kept >> (BITS - 1) & 1) ? static_cast<int>(kept) - (1 << BITS) : static_cast<int>(kept);
}

/** Operands: options[0] and [1] are true if A and B are signed, [2] for .satfinite. */
template <unsigned BITS>
const Ins* mma_whole(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    constexpr int PER = 32 / BITS, WIDE = 4 * PER;  // numbers in a register, and in one row of a register of all lanes
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
    multiply_elements<int64_t>({rows, depth}, left, right, acc);
    each([&](size_t n, int lane, int64_t sum) {
      if (x.options[2]) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
      if (m >> lane & 1) w.reg<int32_t>(x.d[n])[lane] = static_cast<int32_t>(sum);
    });
  });
}

/** Counts the bits that are set in both a row and a column or, with options[0], the bits that differ. */
const Ins* mma_bits(Warp& w, const Ins* i) {
  return whole_warp(w, i, [&](uint32_t m) {
    const Extra& x = *i->extra;
    const bool differ = x.options[0] != 0;
    const size_t halves = x.c.size() / 2;  // the number of accumulators for eight rows
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

/**
 * Multiplies f64 numbers, one per register. In A it is at row lane / 4, depth lane % 4; for B swap them. Fused, in
 * order of depth.
 */
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
    multiply_elements<double>({rows, depth}, left, right, acc);
    each([&](size_t n, int lane, double sum) {
      if (m >> lane & 1) w.reg<double>(x.d[n])[lane] = sum;
    });
  });
}

/** Bits per number of an operand's type. 0 if the type has no handler here. */
unsigned bits_of_number(const std::string& type) {
  if (type == "e4m3" || type == "e5m2") return 8;
  if (type == "tf32") return 32;
  const size_t digits = type.find_first_of("0123456789");
  return digits == std::string::npos ? 0 : static_cast<unsigned>(atoi(type.c_str() + digits));
}

/**
 * True if each operand of mma has as many registers as its shape and type need. Registers have 4 bytes, or 8 for f64.
 */
struct MmaTypes {
  const std::string &d, &a, &b, &c;
};
bool fits_shape(const Extra& x, const std::string& shape, const MmaTypes& types) {
  unsigned rows = 0, columns = 0, depth = 0;
  if (sscanf(shape.c_str(), "m%un%uk%u", &rows, &columns, &depth) != 3 || columns != 8) return false;
  const auto registers = [](unsigned numbers, const std::string& type) -> size_t {
    return numbers * bits_of_number(type) / (LANES * (type == "f64" ? 64u : 32u));
  };
  return rows <= 16 && depth <= 256 && x.d.size() == registers(rows * columns, types.d) &&
         x.a.size() == registers(rows * depth, types.a) && x.b.size() == registers(columns * depth, types.b) &&
         x.c.size() == registers(rows * columns, types.c);
}

bool lower_mma(Lowering& l, Ins& ins) {
  const Statement& s = l.statement();
  // mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32, with .satfinite before or after integer types, .rn after f64
  // types and .xor.popc or .and.popc after bit types
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
  if (!fits_shape(extra, shape, {d, a, b, c})) return false;
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

}  // namespace

}  // namespace flashcore::emu::ptx
