// Products of matrices of halves by AVX-512, with the bits of tensor.cpp's multiply(). With halves.h the only files that
// have a processor's own instructions.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace flashcore::emu::ptx {

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define FLASHCORE_VECTOR_PRODUCTS 1

// A vector of 16 rows has row 4 * (n % 4) + n / 4 in its place n: what four registers of four rows each come to when
// they are interleaved twice. Registers of A and of accumulators lie alike, so that both get this order.

/** Of four vectors with four rows of four words each: the first words of all rows, the second ones … */
inline __attribute__((always_inline)) void columns_of(const __m512i* rows, __m512i* columns) {
  const __m512i low01 = _mm512_unpacklo_epi32(rows[0], rows[1]), high01 = _mm512_unpackhi_epi32(rows[0], rows[1]);
  const __m512i low23 = _mm512_unpacklo_epi32(rows[2], rows[3]), high23 = _mm512_unpackhi_epi32(rows[2], rows[3]);
  columns[0] = _mm512_unpacklo_epi64(low01, low23);
  columns[1] = _mm512_unpackhi_epi64(low01, low23);
  columns[2] = _mm512_unpacklo_epi64(high01, high23);
  columns[3] = _mm512_unpackhi_epi64(high01, high23);
}
// Twice is where it began: 4 x 4 words of each quarter are transposed.
inline __attribute__((always_inline)) void rows_of_columns(const __m512i* columns, __m512i* rows) {
  columns_of(columns, rows);
}

/** Exponents of halves as words, each plus 15, subnormal ones 1. */
inline __attribute__((always_inline)) __m512i exponents_of_halves(__m512i magnitudes, __m512i& highest) {
  const __m512i exponents = _mm512_max_epu16(_mm512_srli_epi16(magnitudes, 10), _mm512_set1_epi16(1));
  highest = _mm512_max_epu16(highest, exponents);
  return exponents;
}
// As bytes a product's exponent, biased as a float's, is left minus right, and 0 where one factor is 0: subtraction of
// bytes ends at 0.
inline __attribute__((always_inline)) __m512i left_exponents(__m512i halves, __m512i& highest) {
  const __m512i magnitudes = _mm512_and_si512(halves, _mm512_set1_epi16(0x7fff));
  const __m512i exponents = exponents_of_halves(magnitudes, highest);
  return _mm512_maskz_add_epi16(_mm512_test_epi16_mask(magnitudes, magnitudes), exponents, _mm512_set1_epi16(127));
}
inline __attribute__((always_inline)) __m512i right_exponents(__m512i halves, __m512i& highest) {
  const __m512i magnitudes = _mm512_and_si512(halves, _mm512_set1_epi16(0x7fff));
  const __m512i exponents = exponents_of_halves(magnitudes, highest);
  return _mm512_mask_sub_epi16(_mm512_set1_epi16(255), _mm512_test_epi16_mask(magnitudes, magnitudes),
                               _mm512_set1_epi16(30), exponents);
}
/** Whether one of the halves is infinite or no number. */
inline __attribute__((always_inline)) bool are_special(__m512i highest) {
  return _mm512_cmpeq_epi16_mask(highest, _mm512_set1_epi16(31)) != 0;
}

inline __attribute__((always_inline)) __m512 low_halves_to_floats(__m512i pairs) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(pairs));
}

/** A of 16 x 16 halves. */
struct LeftOperand {
  __m512 columns[16];
  __m512i exponents[4];  // of four columns: a byte each, the second and the third changed over
  bool special;

  /** Registers: rows 0 to 7, rows 8 to 15, and those of columns 8 to 15. */
  void read(const uint32_t* const* registers) {
    __m512i highest = _mm512_setzero_si512();
    for (int part = 0; part < 2; ++part) {
      __m512i rows[4], pairs[4], words[4];
      for (int n = 0; n < 4; ++n) rows[n] = _mm512_load_si512(registers[2 * part + n / 2] + n % 2 * 16);
      columns_of(rows, pairs);
      for (int n = 0; n < 4; ++n) {
        const int pair = 4 * part + n;
        words[n] = left_exponents(pairs[n], highest);
        columns[2 * pair] = low_halves_to_floats(pairs[n]);
        columns[2 * pair + 1] = low_halves_to_floats(_mm512_srli_epi32(pairs[n], 16));
      }
      for (int n = 0; n < 2; ++n)
        exponents[2 * part + n] = _mm512_or_si512(words[2 * n], _mm512_slli_epi16(words[2 * n + 1], 8));
    }
    special = are_special(highest);
  }
};

/** B of 16 x 8 halves, column after column. */
struct RightOperand {
  alignas(64) float numbers[8][16];
  alignas(64) uint32_t
      exponents[2][32];  // by depth / 8, column: four words; the first and the third have four rows' bytes each
  bool special;

  /** Registers: depth 0 to 7, depth 8 to 15. */
  void read(const uint32_t* const* registers) {
    __m512i highest = _mm512_setzero_si512();
    for (int part = 0; part < 2; ++part)
      for (int half = 0; half < 2; ++half) {
        const __m512i halves = _mm512_load_si512(registers[part] + 16 * half);
        const __m512 first = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
        const __m512 second = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
        const int column = 4 * half;
        _mm256_store_ps(&numbers[column][8 * part], _mm512_castps512_ps256(first));
        _mm256_store_ps(&numbers[column + 1][8 * part],
                        _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(first), 1)));
        _mm256_store_ps(&numbers[column + 2][8 * part], _mm512_castps512_ps256(second));
        _mm256_store_ps(&numbers[column + 3][8 * part],
                        _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(second), 1)));
        const __m512i own = right_exponents(halves, highest);
        // Of a column: rows 0, 1 | 2, 3 become rows 0, 2, 1, 3.
        _mm512_store_si512(&exponents[part][16 * half], _mm512_or_si512(own, _mm512_srli_epi64(own, 24)));
      }
    special = are_special(highest);
  }
};

/** sums[8 columns] += a * b. False, and nothing is changed, where the arithmetic of small numbers does not do. */
inline bool multiply_halves(const LeftOperand& a, const RightOperand& b, __m512* sums) {
  constexpr int BIAS = 127, KEPT = 25, LOWEST = -100;
  if (a.special || b.special) return false;
  // What is to be added to a number's exponent so that 2^-25 of the largest one becomes 1. It is done for all columns
  // before their sums: each step waits for the one before, and only other columns fill the time.
  __m512i shifts[8], highest = _mm512_setzero_si512();
  for (int c = 0; c < 8; ++c) {
    __m512i bytes = _mm512_subs_epu8(a.exponents[0], _mm512_set1_epi32(static_cast<int>(b.exponents[0][4 * c])));
#pragma GCC unroll 4
    for (int k = 1; k < 4; ++k)
      bytes = _mm512_max_epu8(
          bytes,
          _mm512_subs_epu8(a.exponents[k], _mm512_set1_epi32(static_cast<int>(b.exponents[k / 2][4 * c + k % 2 * 2]))));
    // The largest of a row's four bytes, in the upper one.
    bytes = _mm512_max_epu8(bytes, _mm512_slli_epi32(bytes, 16));
    bytes = _mm512_max_epu8(bytes, _mm512_slli_epi32(bytes, 8));
    const __m512i own = _mm512_and_si512(_mm512_castps_si512(sums[c]), _mm512_set1_epi32(0x7fffffff));
    const __m512i top =
        _mm512_max_epu32(_mm512_max_epu32(_mm512_srli_epi32(bytes, 1), own), _mm512_set1_epi32((BIAS + LOWEST) << 23));
    highest = _mm512_max_epu32(highest, top);
    shifts[c] =
        _mm512_sub_epi32(_mm512_set1_epi32((BIAS + KEPT) << 23), _mm512_and_si512(top, _mm512_set1_epi32(0x7f800000)));
  }
  // Nothing may be taken from an exponent: that of a zero would wrap.
  if (_mm512_cmpge_epu32_mask(highest, _mm512_set1_epi32((BIAS + KEPT + 1) << 23))) return false;
  __m512 results[8];
  __m512i overflow = _mm512_setzero_si512();
  for (int c = 0; c < 8; ++c) {
    const __m512i shift = shifts[c];
    const auto cut = [&](__m512 number) __attribute__((always_inline)) {
      return _mm512_cvttps_epi32(_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(number), shift)));
    };
    __m512i first = cut(sums[c]), second = _mm512_setzero_si512();
#pragma GCC unroll 16
    for (int k = 0; k < 8; ++k) {
      first = _mm512_add_epi32(first, cut(_mm512_mul_ps(a.columns[k], _mm512_set1_ps(b.numbers[c][k]))));
      second = _mm512_add_epi32(second, cut(_mm512_mul_ps(a.columns[k + 8], _mm512_set1_ps(b.numbers[c][k + 8]))));
    }
    const __m512i sum = _mm512_add_epi32(first, second);
    // A sum of 17 terms below 2^27 each may not fit: its sign is then neither summand's.
    overflow = _mm512_or_si512(overflow, _mm512_ternarylogic_epi32(first, second, sum, 0x42));
    const __m512 unit = _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_set1_epi32(BIAS << 23), shift));
    results[c] = _mm512_mul_ps(_mm512_cvt_roundepi32_ps(sum, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC), unit);
  }
  if (_mm512_movepi32_mask(overflow)) return false;
  for (int c = 0; c < 8; ++c) sums[c] = results[c];
  return true;
}

/** Operands that were read lately: most products have one in common with the product before. */
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
    uint32_t slot = ~0u;  // of its first register, in whatever warp
    alignas(64) uint32_t registers[REGISTERS][32];
    Operand operand;
  };
  static bool same(const Entry& entry, const uint32_t* const* registers) {
    __m512i apart = _mm512_setzero_si512();
    for (int n = 0; n < REGISTERS; ++n)
      for (int at = 0; at < 32; at += 16)
        apart = _mm512_or_si512(
            apart, _mm512_xor_si512(_mm512_load_si512(registers[n] + at), _mm512_load_si512(entry.registers[n] + at)));
    return !_mm512_test_epi32_mask(apart, apart);
  }
  Entry entries_[ENTRIES];
  unsigned next_ = 0;
};

struct RecentOperands {
  Recent<LeftOperand, 4> left;
  Recent<RightOperand, 2> right;
};

/** Accumulators of 16 x 8: registers 0 and 1 rows 0 to 7, 2 and 3 rows 8 to 15; of even and of odd columns. */
inline void read_sums(const float* const* registers, __m512* sums) {
  for (int odd = 0; odd < 2; ++odd) {
    __m512i rows[4], columns[4];
    for (int n = 0; n < 4; ++n) rows[n] = _mm512_load_si512(registers[odd + n / 2 * 2] + n % 2 * 16);
    columns_of(rows, columns);
    for (int n = 0; n < 4; ++n) sums[2 * n + odd] = _mm512_castsi512_ps(columns[n]);
  }
}
inline void write_sums(float* const* registers, const __m512* sums) {
  for (int odd = 0; odd < 2; ++odd) {
    __m512i columns[4], rows[4];
    for (int n = 0; n < 4; ++n) columns[n] = _mm512_castps_si512(sums[2 * n + odd]);
    rows_of_columns(columns, rows);
    for (int n = 0; n < 4; ++n) _mm512_store_si512(registers[odd + n / 2 * 2] + n % 2 * 16, rows[n]);
  }
}

/** The same of halves: register 0 rows 0 to 7, register 1 rows 8 to 15, pairs of columns. */
inline void read_half_sums(const uint32_t* const* registers, __m512* sums) {
  __m512i rows[4], pairs[4];
  for (int n = 0; n < 4; ++n) rows[n] = _mm512_load_si512(registers[n / 2] + n % 2 * 16);
  columns_of(rows, pairs);
  for (int n = 0; n < 4; ++n) {
    sums[2 * n] = low_halves_to_floats(pairs[n]);
    sums[2 * n + 1] = low_halves_to_floats(_mm512_srli_epi32(pairs[n], 16));
  }
}
/** Sums that are numbers. */
inline void write_half_sums(uint32_t* const* registers, const __m512* sums) {
  __m512i pairs[4], rows[4];
  for (int n = 0; n < 4; ++n) {
    const __m512i even = _mm512_cvtepu16_epi32(_mm512_cvtps_ph(sums[2 * n], _MM_FROUND_TO_NEAREST_INT));
    const __m512i odd = _mm512_cvtepu16_epi32(_mm512_cvtps_ph(sums[2 * n + 1], _MM_FROUND_TO_NEAREST_INT));
    pairs[n] = _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
  }
  rows_of_columns(pairs, rows);
  for (int n = 0; n < 4; ++n) _mm512_store_si512(registers[n / 2] + n % 2 * 16, rows[n]);
}
#else
struct RecentOperands {};
#endif

}  // namespace flashcore::emu::ptx
