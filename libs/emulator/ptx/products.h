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

/** Exponents of halves, each plus 15, subnormal ones 1; of zeros -128. As bytes. Whether one is infinite or no number. */
inline __attribute__((always_inline)) __m256i exponents_of_halves(__m512i halves, bool& special) {
  const __m512i magnitudes = _mm512_and_si512(halves, _mm512_set1_epi16(0x7fff));
  const __m512i exponents = _mm512_max_epu16(_mm512_srli_epi16(magnitudes, 10), _mm512_set1_epi16(1));
  special |= _mm512_cmpeq_epi16_mask(exponents, _mm512_set1_epi16(31)) != 0;
  const __mmask32 zeros = _mm512_testn_epi16_mask(magnitudes, magnitudes);
  return _mm512_cvtepi16_epi8(_mm512_mask_mov_epi16(exponents, zeros, _mm512_set1_epi16(-128)));
}

inline __attribute__((always_inline)) __m512 low_halves_to_floats(__m512i pairs) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(pairs));
}

/** A of 16 x 16 halves. */
struct LeftOperand {
  __m512 columns[16];
  __m256i exponents[8];  // of two columns: a pair of bytes a row
  bool special = false;

  /** Registers: rows 0 to 7, rows 8 to 15, and those of columns 8 to 15. */
  void read(const uint32_t* const* registers) {
    for (int part = 0; part < 2; ++part) {
      __m512i rows[4], pairs[4];
      for (int n = 0; n < 4; ++n) rows[n] = _mm512_load_si512(registers[2 * part + n / 2] + n % 2 * 16);
      columns_of(rows, pairs);
      for (int n = 0; n < 4; ++n) {
        const int pair = 4 * part + n;
        exponents[pair] = exponents_of_halves(pairs[n], special);
        columns[2 * pair] = low_halves_to_floats(pairs[n]);
        columns[2 * pair + 1] = low_halves_to_floats(_mm512_srli_epi32(pairs[n], 16));
      }
    }
  }
};

/** B of 16 x 8 halves, column after column. */
struct RightOperand {
  alignas(64) float numbers[8][16];
  alignas(64) int16_t exponents[8][8];  // of two rows: a pair of bytes
  bool special = false;

  /** Registers: depth 0 to 7, depth 8 to 15. */
  void read(const uint32_t* const* registers) {
    for (int part = 0; part < 2; ++part)
      for (int half = 0; half < 2; ++half) {
        const __m512i halves = _mm512_load_si512(registers[part] + 16 * half);
        const __m512 first = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
        const __m512 second = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
        const __m256i own = exponents_of_halves(halves, special);
        const int column = 4 * half;
        _mm256_store_ps(&numbers[column][8 * part], _mm512_castps512_ps256(first));
        _mm256_store_ps(&numbers[column + 1][8 * part],
                        _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(first), 1)));
        _mm256_store_ps(&numbers[column + 2][8 * part], _mm512_castps512_ps256(second));
        _mm256_store_ps(&numbers[column + 3][8 * part],
                        _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(second), 1)));
        alignas(32) int64_t columns[4];
        _mm256_store_si256(reinterpret_cast<__m256i*>(columns), own);
        for (int n = 0; n < 4; ++n) memcpy(&exponents[column + n][4 * part], &columns[n], 8);
      }
  }
};

/** sums[8 columns] += a * b. False, and nothing is changed, where the arithmetic of small numbers does not do. */
inline bool multiply_halves(const LeftOperand& a, const RightOperand& b, __m512* sums) {
  constexpr int KEPT = 25, HIGHEST = 100, LOWEST = -100;
  if (a.special || b.special) return false;
  __m512 results[8];
  __mmask16 unfit = 0;
  for (int c = 0; c < 8; ++c) {
    __m256i pairs = _mm256_set1_epi8(-128);
    for (int k = 0; k < 8; ++k)
      pairs = _mm256_max_epi8(pairs, _mm256_adds_epi8(a.exponents[k], _mm256_set1_epi16(b.exponents[c][k])));
    // The larger of a row's two bytes; both summands had 15 too many.
    const __m512i words = _mm512_cvtepi16_epi32(_mm256_max_epi8(pairs, _mm256_slli_epi16(pairs, 8)));
    const __m512i products = _mm512_sub_epi32(_mm512_srai_epi32(words, 8), _mm512_set1_epi32(30));
    const __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(sums[c]), _mm512_set1_epi32(0x7fffffff));
    const __m512i own = _mm512_sub_epi32(_mm512_srli_epi32(magnitude, 23), _mm512_set1_epi32(127));
    const __m512i top = _mm512_max_epi32(_mm512_max_epi32(products, own), _mm512_set1_epi32(LOWEST));
    unfit |= _mm512_cmpgt_epi32_mask(top, _mm512_set1_epi32(HIGHEST));
    const __m512 scale =
        _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_sub_epi32(_mm512_set1_epi32(KEPT + 127), top), 23));
    const __m512 unit =
        _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(top, _mm512_set1_epi32(127 - KEPT)), 23));
    __m512i first = _mm512_cvttps_epi32(_mm512_mul_ps(sums[c], scale)), second = _mm512_setzero_si512();
#pragma GCC unroll 16
    for (int k = 0; k < 8; ++k) {
      const __m512 low = _mm512_mul_ps(a.columns[k], _mm512_set1_ps(b.numbers[c][k]));
      const __m512 high = _mm512_mul_ps(a.columns[k + 8], _mm512_set1_ps(b.numbers[c][k + 8]));
      first = _mm512_add_epi32(first, _mm512_cvttps_epi32(_mm512_mul_ps(low, scale)));
      second = _mm512_add_epi32(second, _mm512_cvttps_epi32(_mm512_mul_ps(high, scale)));
    }
    const __m512i sum = _mm512_add_epi32(first, second);
    // A sum of 17 terms below 2^27 each may not fit.
    unfit |= _mm512_movepi32_mask(_mm512_and_si512(_mm512_xor_si512(first, sum), _mm512_xor_si512(second, sum)));
    results[c] = _mm512_mul_ps(_mm512_cvt_roundepi32_ps(sum, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC), unit);
  }
  if (unfit) return false;
  for (int c = 0; c < 8; ++c) sums[c] = results[c];
  return true;
}

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
#endif

}  // namespace flashcore::emu::ptx
