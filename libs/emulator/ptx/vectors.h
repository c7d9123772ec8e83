// Functions for the processor's own vector instructions, which no other file of the engine names. If
// FLASHCORE_WIDE_VECTORS is not defined (AVX2, NEON or no vectors), there are no types of 16 words. Algorithms then use
// plain loops, which the compiler vectorizes.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512CD__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__)
#define FLASHCORE_WIDE_VECTORS 1
#endif
#define FLASHCORE_OPERATION inline __attribute__((always_inline))

namespace flashcore::emu::ptx::vectors {

// --- how subnormal floats are treated ---------------------------------------------------------------------------------

#if defined(__x86_64__)
using FloatMode = unsigned;
constexpr FloatMode FLUSHES = 0x8040;
FLASHCORE_OPERATION FloatMode float_mode() { return _mm_getcsr(); }
FLASHCORE_OPERATION void set_float_mode(FloatMode mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
using FloatMode = uint64_t;
constexpr FloatMode FLUSHES = 1ull << 24;
FLASHCORE_OPERATION FloatMode float_mode() {
  FloatMode mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
FLASHCORE_OPERATION void set_float_mode(FloatMode mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }
#else
using FloatMode = unsigned;
constexpr FloatMode FLUSHES = 0;
FLASHCORE_OPERATION FloatMode float_mode() { return 0; }
FLASHCORE_OPERATION void set_float_mode(FloatMode) {}
#endif

// --- eight halves -----------------------------------------------------------------------------------------------------

#if defined(__F16C__)
#define FLASHCORE_EIGHT_HALVES 1
FLASHCORE_OPERATION void eight_halves_to_floats(const uint16_t* halves, float* floats) {
  _mm256_storeu_ps(floats, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves))));
}
/** Rounds to nearest even. */
FLASHCORE_OPERATION void eight_floats_to_halves(const float* floats, uint16_t* halves) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(halves), _mm256_cvtps_ph(_mm256_loadu_ps(floats), 0));
}
#endif

#if defined(FLASHCORE_WIDE_VECTORS)

// --- vectors of 64 bytes; +, -, << and so on are operators
// ------------------------------------------------------------

typedef uint32_t Words __attribute__((vector_size(64)));
typedef float Floats __attribute__((vector_size(64)));
typedef uint16_t Shorts __attribute__((vector_size(64)));
typedef uint64_t Longs __attribute__((vector_size(64)));

#define FLASHCORE_BITS(vector) ((__m512i)(vector))

FLASHCORE_OPERATION Words words_at(const void* place) { return reinterpret_cast<Words>(_mm512_loadu_si512(place)); }
FLASHCORE_OPERATION Longs longs_at(const void* place) { return reinterpret_cast<Longs>(_mm512_loadu_si512(place)); }
FLASHCORE_OPERATION Floats floats_at(const void* place) { return _mm512_loadu_ps(place); }
FLASHCORE_OPERATION void put(void* place, Words words) { _mm512_storeu_si512(place, FLASHCORE_BITS(words)); }
FLASHCORE_OPERATION void put(void* place, Longs longs) { _mm512_storeu_si512(place, FLASHCORE_BITS(longs)); }
FLASHCORE_OPERATION void put(void* place, Floats floats) { _mm512_storeu_ps(place, floats); }

FLASHCORE_OPERATION Words all_words(uint32_t word) {
  return reinterpret_cast<Words>(_mm512_set1_epi32(static_cast<int>(word)));
}
FLASHCORE_OPERATION Shorts all_shorts(uint16_t value) {
  return reinterpret_cast<Shorts>(_mm512_set1_epi16(static_cast<short>(value)));
}
FLASHCORE_OPERATION Longs all_longs(uint64_t value) {
  return reinterpret_cast<Longs>(_mm512_set1_epi64(static_cast<int64_t>(value)));
}
FLASHCORE_OPERATION Floats all_floats(float value) { return _mm512_set1_ps(value); }

/** Reinterprets the bits. */
FLASHCORE_OPERATION Words as_words(Floats floats) { return reinterpret_cast<Words>(floats); }
FLASHCORE_OPERATION Words as_words(Shorts shorts) { return reinterpret_cast<Words>(shorts); }
FLASHCORE_OPERATION Floats as_floats(Words words) { return reinterpret_cast<Floats>(words); }
FLASHCORE_OPERATION Shorts as_shorts(Words words) { return reinterpret_cast<Shorts>(words); }
FLASHCORE_OPERATION Longs as_longs(Words words) { return reinterpret_cast<Longs>(words); }
FLASHCORE_OPERATION Words as_words(Longs longs) { return reinterpret_cast<Words>(longs); }

// --- comparisons: one bit per element
// ---------------------------------------------------------------------------------

FLASHCORE_OPERATION uint32_t which_equal(Words a, Words b) {
  return _mm512_cmpeq_epi32_mask(FLASHCORE_BITS(a), FLASHCORE_BITS(b));
}
FLASHCORE_OPERATION uint32_t which_equal(Shorts a, Shorts b) {
  return _mm512_cmpeq_epi16_mask(FLASHCORE_BITS(a), FLASHCORE_BITS(b));
}
FLASHCORE_OPERATION uint32_t which_differ(Words a, Words b) {
  return _mm512_cmpneq_epi32_mask(FLASHCORE_BITS(a), FLASHCORE_BITS(b));
}
FLASHCORE_OPERATION uint32_t which_above(Words a, Words b) {
  return _mm512_cmpgt_epu32_mask(FLASHCORE_BITS(a), FLASHCORE_BITS(b));
}
FLASHCORE_OPERATION uint32_t which_at_least(Words a, Words b) {
  return _mm512_cmpge_epu32_mask(FLASHCORE_BITS(a), FLASHCORE_BITS(b));
}
/** The elements that have one of these bits set. */
FLASHCORE_OPERATION uint32_t which_have(Words words, Words bits) {
  return _mm512_test_epi32_mask(FLASHCORE_BITS(words), FLASHCORE_BITS(bits));
}
FLASHCORE_OPERATION uint32_t which_above(Longs a, Longs b) {
  return _mm512_cmpgt_epu64_mask(FLASHCORE_BITS(a), FLASHCORE_BITS(b));
}
FLASHCORE_OPERATION uint32_t which_have(Longs longs, Longs bits) {
  return _mm512_test_epi64_mask(FLASHCORE_BITS(longs), FLASHCORE_BITS(bits));
}
/** The elements that have their highest bit set. */
FLASHCORE_OPERATION uint32_t which_negative(Words words) { return _mm512_movepi32_mask(FLASHCORE_BITS(words)); }

// --- arithmetic that has no operator ----------------------------------------------------------------------------------

FLASHCORE_OPERATION Words larger(Words a, Words b) {
  return reinterpret_cast<Words>(_mm512_max_epu32(FLASHCORE_BITS(a), FLASHCORE_BITS(b)));
}
FLASHCORE_OPERATION Shorts larger(Shorts a, Shorts b) {
  return reinterpret_cast<Shorts>(_mm512_max_epu16(FLASHCORE_BITS(a), FLASHCORE_BITS(b)));
}
FLASHCORE_OPERATION Words larger_bytes(Words a, Words b) {
  return reinterpret_cast<Words>(_mm512_max_epu8(FLASHCORE_BITS(a), FLASHCORE_BITS(b)));
}
/** a - b byte by byte. A byte is 0 if b's is larger. */
FLASHCORE_OPERATION Words less_bytes(Words a, Words b) {
  return reinterpret_cast<Words>(_mm512_subs_epu8(FLASHCORE_BITS(a), FLASHCORE_BITS(b)));
}
/** a + b where `of` is not 0, and 0 elsewhere. */
FLASHCORE_OPERATION Shorts sum_where(Shorts of, Shorts a, Shorts b) {
  return reinterpret_cast<Shorts>(_mm512_maskz_add_epi16(_mm512_test_epi16_mask(FLASHCORE_BITS(of), FLASHCORE_BITS(of)),
                                                         FLASHCORE_BITS(a), FLASHCORE_BITS(b)));
}
/** a - b where `of` is not 0, and `otherwise` elsewhere. */
FLASHCORE_OPERATION Shorts difference_where(Shorts of, Shorts a, Shorts b, Shorts otherwise) {
  return reinterpret_cast<Shorts>(_mm512_mask_sub_epi16(FLASHCORE_BITS(otherwise),
                                                        _mm512_test_epi16_mask(FLASHCORE_BITS(of), FLASHCORE_BITS(of)),
                                                        FLASHCORE_BITS(a), FLASHCORE_BITS(b)));
}
/** Negative where a + b overflowed. `sum` is a + b. */
FLASHCORE_OPERATION Words overflow_of(Words a, Words b, Words sum) {
  return reinterpret_cast<Words>(
      _mm512_ternarylogic_epi32(FLASHCORE_BITS(a), FLASHCORE_BITS(b), FLASHCORE_BITS(sum), 0x42));
}
/** a * b + c, rounded once. */
FLASHCORE_OPERATION Floats fused(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }

// --- conversions ------------------------------------------------------------------------------------------------------

/** Converts to signed integers, truncating toward zero. */
FLASHCORE_OPERATION Words cut(Floats floats) { return reinterpret_cast<Words>(_mm512_cvttps_epi32(floats)); }
/** Converts signed integers to floats, truncating toward zero. */
FLASHCORE_OPERATION Floats cut_to_floats(Words words) {
  return _mm512_cvt_roundepi32_ps(FLASHCORE_BITS(words), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}
FLASHCORE_OPERATION Floats floats_of_halves_at(const uint16_t* halves) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
}
/** Converts the halves in the lower parts of words. floats_of_upper() converts those in the upper parts. */
FLASHCORE_OPERATION Floats floats_of_lower(Words pairs) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(FLASHCORE_BITS(pairs)));
}
FLASHCORE_OPERATION Floats floats_of_upper(Words pairs) { return floats_of_lower(pairs >> 16); }
/** Converts the first 16 halves in order. floats_of_last() converts the last 16. */
FLASHCORE_OPERATION Floats floats_of_first(Words halves) {
  return _mm512_cvtph_ps(_mm512_castsi512_si256(FLASHCORE_BITS(halves)));
}
FLASHCORE_OPERATION Floats floats_of_last(Words halves) {
  return _mm512_cvtph_ps(_mm512_extracti64x4_epi64(FLASHCORE_BITS(halves), 1));
}
/** Rounds to nearest even, to halves in the lower parts of words. */
FLASHCORE_OPERATION Words halves_of_floats(Floats floats) {
  return reinterpret_cast<Words>(_mm512_cvtepu16_epi32(_mm512_cvtps_ph(floats, _MM_FROUND_TO_NEAREST_INT)));
}
FLASHCORE_OPERATION void put_first_eight(float* place, Floats floats) {
  _mm256_storeu_ps(place, _mm512_castps512_ps256(floats));
}
FLASHCORE_OPERATION void put_last_eight(float* place, Floats floats) {
  _mm256_storeu_ps(place, _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(floats), 1)));
}

// --- order ------------------------------------------------------------------------------------------------------------

/** In each quarter: words 0 of a and b, then words 1. interleaved_high() takes words 2, then words 3. */
FLASHCORE_OPERATION Words interleaved_low(Words a, Words b) {
  return reinterpret_cast<Words>(_mm512_unpacklo_epi32(FLASHCORE_BITS(a), FLASHCORE_BITS(b)));
}
FLASHCORE_OPERATION Words interleaved_high(Words a, Words b) {
  return reinterpret_cast<Words>(_mm512_unpackhi_epi32(FLASHCORE_BITS(a), FLASHCORE_BITS(b)));
}
/** In each quarter: the first two words of a, then those of b. joined_high() takes the last two. */
FLASHCORE_OPERATION Words joined_low(Words a, Words b) {
  return reinterpret_cast<Words>(_mm512_unpacklo_epi64(FLASHCORE_BITS(a), FLASHCORE_BITS(b)));
}
FLASHCORE_OPERATION Words joined_high(Words a, Words b) {
  return reinterpret_cast<Words>(_mm512_unpackhi_epi64(FLASHCORE_BITS(a), FLASHCORE_BITS(b)));
}
/** Selects from 32 words (`low` followed by `high`) by the lower five bits of `which`. */
FLASHCORE_OPERATION Words chosen(Words low, Words high, Words which) {
  return reinterpret_cast<Words>(
      _mm512_permutex2var_epi32(FLASHCORE_BITS(low), FLASHCORE_BITS(which), FLASHCORE_BITS(high)));
}
/** Eight copies of the first word, then eight copies of the ninth. */
FLASHCORE_OPERATION Words first_of_eights(Words words) {
  const Words eights = {0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8};
  return reinterpret_cast<Words>(_mm512_permutexvar_epi32(FLASHCORE_BITS(eights), FLASHCORE_BITS(words)));
}
/** Four copies of word `N` in each quarter. */
template <int N>
FLASHCORE_OPERATION Words word_of_quarters(Words words) {
  return reinterpret_cast<Words>(
      _mm512_shuffle_epi32(FLASHCORE_BITS(words), static_cast<_MM_PERM_ENUM>(N | N << 2 | N << 4 | N << 6)));
}
/**
 * Loads rows of 16 bytes: four different rows, or one row into the first two quarters and another into the last two.
 */
FLASHCORE_OPERATION Words rows_at(const char* first, const char* second, const char* third, const char* fourth) {
  const auto row = [](const char* place) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(place)); };
  __m512i rows = _mm512_castsi128_si512(row(first));
  rows = _mm512_inserti32x4(rows, row(second), 1);
  rows = _mm512_inserti32x4(rows, row(third), 2);
  return reinterpret_cast<Words>(_mm512_inserti32x4(rows, row(fourth), 3));
}
FLASHCORE_OPERATION Words rows_at(const char* first, const char* second) {
  const auto row = [](const char* place) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(place)));
  };
  return reinterpret_cast<Words>(_mm512_mask_mov_epi64(row(first), 0xf0, row(second)));
}
/** For each word, a mask of the earlier words with the same value. */
FLASHCORE_OPERATION Words equal_before(Words words) {
  return reinterpret_cast<Words>(_mm512_conflict_epi32(FLASHCORE_BITS(words)));
}

#endif

}  // namespace flashcore::emu::ptx::vectors
