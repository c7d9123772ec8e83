// Products of matrices of halves with wide vectors. The results have the same bits as multiply() (tensor/operands.h).
#pragma once
#include <cstdint>
#include <cstring>

#include "lanes.h"

namespace flashcore::emu::ptx {

#if defined(FLASHCORE_WIDE_VECTORS)

// A vector of 16 rows holds row 4 * (n % 4) + n / 4 at position n. columns_of() gives this order when it transposes
// four registers of four rows each. Both A and the accumulators have it, because their registers have the same layout.

/** The exponents of halves, each plus 15, as words. Subnormals have exponent 1. */
FLASHCORE_OPERATION vectors::Shorts exponents_of_halves(vectors::Shorts magnitudes, vectors::Shorts& highest) {
  const vectors::Shorts exponents = vectors::larger(magnitudes >> 10, vectors::all_shorts(1));
  highest = vectors::larger(highest, exponents);
  return exponents;
}
// A product's exponent, biased like a float's, is the left byte minus the right byte. If a factor is 0 it is 0, because
// the byte subtraction saturates at 0.
FLASHCORE_OPERATION vectors::Shorts left_exponents(vectors::Words halves, vectors::Shorts& highest) {
  const vectors::Shorts magnitudes = vectors::as_shorts(halves & vectors::all_words(0x7fff7fff));
  const vectors::Shorts exponents = exponents_of_halves(magnitudes, highest);
  return vectors::sum_where(magnitudes, exponents, vectors::all_shorts(127));
}
FLASHCORE_OPERATION vectors::Shorts right_exponents(vectors::Words halves, vectors::Shorts& highest) {
  const vectors::Shorts magnitudes = vectors::as_shorts(halves & vectors::all_words(0x7fff7fff));
  const vectors::Shorts exponents = exponents_of_halves(magnitudes, highest);
  return vectors::difference_where(magnitudes, vectors::all_shorts(30), exponents, vectors::all_shorts(255));
}
/** True if one of the halves is infinite or NaN. */
FLASHCORE_OPERATION bool are_special(vectors::Shorts highest) {
  return vectors::which_equal(highest, vectors::all_shorts(31)) != 0;
}

/** The operand A of 16 x 16 halves. */
struct LeftOperand {
  vectors::Floats columns[16];
  vectors::Words exponents[4];  // each word has a byte for each of four columns, the second and third swapped
  bool special;

  /** The four registers have rows 0 to 7, then rows 8 to 15, then the same rows of columns 8 to 15. */
  void read(const uint32_t* const* registers) {
    using namespace vectors;
    Shorts highest = {};
    for (int part = 0; part < 2; ++part) {
      Words rows[4], pairs[4];
      Shorts bytes[4];
      for (int n = 0; n < 4; ++n) rows[n] = words_at(registers[2 * part + n / 2] + n % 2 * 16);
      columns_of(rows, pairs);
      for (int n = 0; n < 4; ++n) {
        const int pair = 4 * part + n;
        bytes[n] = left_exponents(pairs[n], highest);
        columns[2 * pair] = floats_of_lower(pairs[n]);
        columns[2 * pair + 1] = floats_of_upper(pairs[n]);
      }
      for (int n = 0; n < 2; ++n) exponents[2 * part + n] = as_words(bytes[2 * n] | bytes[2 * n + 1] << 8);
    }
    special = are_special(highest);
  }
};

/** The operand B of 16 x 8 halves, column after column. */
struct RightOperand {
  alignas(64) float numbers[8][16];
  alignas(64) uint32_t
      exponents[2][32];  // by depth / 8 and column: 4 words; the first and third have a byte for each of 4 rows
  bool special;

  /** The two registers have depths 0 to 7 and 8 to 15. */
  void read(const uint32_t* const* registers) {
    using namespace vectors;
    Shorts highest = {};
    for (int part = 0; part < 2; ++part)
      for (int half = 0; half < 2; ++half) {
        const Words halves = words_at(registers[part] + 16 * half);
        const Floats first = floats_of_first(halves), second = floats_of_last(halves);
        const int column = 4 * half;
        put_first_eight(&numbers[column][8 * part], first);
        put_last_eight(&numbers[column + 1][8 * part], first);
        put_first_eight(&numbers[column + 2][8 * part], second);
        put_last_eight(&numbers[column + 3][8 * part], second);
        const Words own = as_words(right_exponents(halves, highest));
        // In each column, rows 0, 1 | 2, 3 become rows 0, 2, 1, 3.
        put(&exponents[part][16 * half], own | as_words(as_longs(own) >> 24));
      }
    special = are_special(highest);
  }
};

/**
 * sums[8 columns] += a * b. Returns false and changes nothing if some number is too large for the integer arithmetic.
 */
inline bool multiply_halves(const LeftOperand& a, const RightOperand& b, vectors::Floats* sums) {
  using namespace vectors;
  constexpr int BIAS = 127, KEPT = 25, LOWEST = -100;
  if (a.special || b.special) return false;
  // The amount to add to a number's exponent so that 2^-25 of the largest number becomes 1. All columns' shifts are
  // computed before the sums, because each step depends on the previous one and only work on other columns can fill the
  // wait.
  Words shifts[8], highest = {};
  for (int c = 0; c < 8; ++c) {
    Words bytes = less_bytes(a.exponents[0], all_words(b.exponents[0][4 * c]));
#pragma GCC unroll 4
    for (int k = 1; k < 4; ++k)
      bytes = larger_bytes(bytes, less_bytes(a.exponents[k], all_words(b.exponents[k / 2][4 * c + k % 2 * 2])));
    // Moves the largest of a row's four bytes to the upper byte.
    bytes = larger_bytes(bytes, bytes << 16);
    bytes = larger_bytes(bytes, bytes << 8);
    const Words own = as_words(sums[c]) & all_words(0x7fffffff);
    const Words top = larger(larger(bytes >> 1, own), all_words((BIAS + LOWEST) << 23));
    highest = larger(highest, top);
    shifts[c] = all_words((BIAS + KEPT) << 23) - (top & all_words(0x7f800000));
  }
  // The shift must not be negative, because the exponent of a zero would wrap around.
  if (which_at_least(highest, all_words((BIAS + KEPT + 1) << 23))) return false;
  Floats results[8];
  Words overflow = {};
  for (int c = 0; c < 8; ++c) {
    const Words shift = shifts[c];
    const auto scaled = [&](Floats number)
                            __attribute__((always_inline)) { return cut(as_floats(as_words(number) + shift)); };
    Words first = scaled(sums[c]), second = {};
#pragma GCC unroll 16
    for (int k = 0; k < 8; ++k) {
      first += scaled(a.columns[k] * all_floats(b.numbers[c][k]));
      second += scaled(a.columns[k + 8] * all_floats(b.numbers[c][k + 8]));
    }
    const Words sum = first + second;
    // A sum of 17 terms, each below 2^27, may overflow 32 bits.
    overflow |= overflow_of(first, second, sum);
    results[c] = cut_to_floats(sum) * as_floats(all_words(BIAS << 23) - shift);
  }
  if (which_negative(overflow)) return false;
  for (int c = 0; c < 8; ++c) sums[c] = results[c];
  return true;
}

/** Caches recent operands, because most products have an operand in common with the previous product. */
template <class Operand, int REGISTERS>
class Recent {
 public:
  const Operand& of(const uint32_t* const* registers, uint32_t slot) {
    Entry* entry = nullptr;
    for (Entry& each : entries_)
      if (each.slot == slot) entry = &each;
    if (entry && same(*entry, registers)) return entry->operand;
    if (!entry) {
      entry = &entries_[next_];
      next_ = (next_ + 1) % ENTRIES;
    }
    entry->slot = slot;
    for (int n = 0; n < REGISTERS; ++n) memcpy(entry->registers[n], registers[n], sizeof entry->registers[n]);
    entry->operand.read(registers);
    return entry->operand;
  }

 private:
  static constexpr unsigned ENTRIES = 2;
  struct Entry {
    uint32_t slot = ~0u;  // the slot of its first register, in any warp
    alignas(64) uint32_t registers[REGISTERS][32];
    Operand operand;
  };
  static bool same(const Entry& entry, const uint32_t* const* registers) {
    using namespace vectors;
    Words apart = {};
    for (int n = 0; n < REGISTERS; ++n)
      for (int at = 0; at < 32; at += 16) apart |= words_at(registers[n] + at) ^ words_at(entry.registers[n] + at);
    return !which_have(apart, apart);
  }
  Entry entries_[ENTRIES];
  unsigned next_ = 0;
};

struct RecentOperands {
  Recent<LeftOperand, 4> left;
  Recent<RightOperand, 2> right;
};

/**
 * Reads accumulators of 16 x 8. Registers 0 and 1 hold rows 0 to 7, registers 2 and 3 rows 8 to 15. Even registers hold
 * even columns.
 */
inline void read_sums(const float* const* registers, vectors::Floats* sums) {
  using namespace vectors;
  for (int odd = 0; odd < 2; ++odd) {
    Words rows[4], columns[4];
    for (int n = 0; n < 4; ++n) rows[n] = words_at(registers[odd + n / 2 * 2] + n % 2 * 16);
    columns_of(rows, columns);
    for (int n = 0; n < 4; ++n) sums[2 * n + odd] = as_floats(columns[n]);
  }
}
inline void write_sums(float* const* registers, const vectors::Floats* sums) {
  using namespace vectors;
  for (int odd = 0; odd < 2; ++odd) {
    Words columns[4], rows[4];
    for (int n = 0; n < 4; ++n) columns[n] = as_words(sums[2 * n + odd]);
    columns_of(columns, rows);  // the second call restores the order
    for (int n = 0; n < 4; ++n) put(registers[odd + n / 2 * 2] + n % 2 * 16, rows[n]);
  }
}

/**
 * Reads accumulators of halves. Register 0 holds rows 0 to 7 and register 1 rows 8 to 15, each with pairs of columns.
 */
inline void read_half_sums(const uint32_t* const* registers, vectors::Floats* sums) {
  using namespace vectors;
  Words rows[4], pairs[4];
  for (int n = 0; n < 4; ++n) rows[n] = words_at(registers[n / 2] + n % 2 * 16);
  columns_of(rows, pairs);
  for (int n = 0; n < 4; ++n) {
    sums[2 * n] = floats_of_lower(pairs[n]);
    sums[2 * n + 1] = floats_of_upper(pairs[n]);
  }
}
/** Writes accumulators of halves. No sum may be infinite or NaN. */
inline void write_half_sums(uint32_t* const* registers, const vectors::Floats* sums) {
  using namespace vectors;
  Words pairs[4], rows[4];
  for (int n = 0; n < 4; ++n) pairs[n] = halves_of_floats(sums[2 * n]) | halves_of_floats(sums[2 * n + 1]) << 16;
  columns_of(pairs, rows);
  for (int n = 0; n < 4; ++n) put(registers[n / 2] + n % 2 * 16, rows[n]);
}
#else
struct RecentOperands {};
#endif

}  // namespace flashcore::emu::ptx
