// 32 halves to 32 floats and back: the one file with a processor's own instructions.
#pragma once
#include <cstdint>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Last: its names for kernels are macros that the standard library's headers do not survive.
#include "../include/flashcore_emulator/half_bits.h"
#undef __noinline__

namespace flashcore::emu::ptx {

inline void floats_of(const uint16_t* halves, float* floats, int count) {
#if defined(__AVX512F__)
  for (; count >= 16; count -= 16, halves += 16, floats += 16)
    _mm512_storeu_ps(floats, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves))));
#endif
#if defined(__F16C__)
  for (; count >= 8; count -= 8, halves += 8, floats += 8)
    _mm256_storeu_ps(floats, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves))));
#endif
  for (int i = 0; i < count; ++i) floats[i] = half_to_float(halves[i]);
}

/** Of pairs of halves the low ones and the high ones. */
inline void floats_of_pairs(const uint32_t* pairs, float* low, float* high, int count) {
#if defined(__AVX512F__)
  for (; count >= 16; count -= 16, pairs += 16, low += 16, high += 16) {
    const __m512i both = _mm512_loadu_si512(pairs);
    const __m512 l = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(both));
    const __m512 h = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(both, 16)));
    _mm512_storeu_ps(low, l);
    _mm512_storeu_ps(high, h);
  }
#endif
  alignas(64) uint16_t halves[2][32];
  for (int i = 0; i < count; ++i) halves[0][i] = static_cast<uint16_t>(pairs[i]);
  for (int i = 0; i < count; ++i) halves[1][i] = static_cast<uint16_t>(pairs[i] >> 16);
  floats_of(halves[0], low, count);
  floats_of(halves[1], high, count);
}

/**
 * 32 words at base + addresses[lane] + offset, where all of them lie in the 128 bytes from lane 0's on, and those below
 * `end`; false, and nothing is read, where they do not, or the processor can't choose among them at once.
 */
inline bool words_nearby(const char* base, uint32_t end, const uint32_t* addresses, uint32_t offset, uint32_t* words) {
#if defined(__AVX512F__)
  const uint32_t first = addresses[0] + offset;
  if (first > end || end - first < 128 || (first & 3)) return false;
  const __m512i start = _mm512_set1_epi32(static_cast<int>(addresses[0])), size = _mm512_set1_epi32(128);
  const __m512i a = _mm512_sub_epi32(_mm512_loadu_si512(addresses), start);
  const __m512i b = _mm512_sub_epi32(_mm512_loadu_si512(addresses + 16), start);
  const auto outside = _mm512_cmpge_epu32_mask(a, size) | _mm512_cmpge_epu32_mask(b, size) |
                       _mm512_test_epi32_mask(_mm512_or_si512(a, b), _mm512_set1_epi32(3));
  if (outside) return false;
  const __m512i low = _mm512_loadu_si512(base + first), high = _mm512_loadu_si512(base + first + 64);
  _mm512_storeu_si512(words, _mm512_permutex2var_epi32(low, _mm512_srli_epi32(a, 2), high));
  _mm512_storeu_si512(words + 16, _mm512_permutex2var_epi32(low, _mm512_srli_epi32(b, 2), high));
  return true;
#else
  (void)base, (void)end, (void)addresses, (void)offset, (void)words;
  return false;
#endif
}

/** Rounded to nearest even; a NaN becomes 0x7fff, as a GPU writes it. */
inline void halves_of(const float* floats, uint16_t* halves, int count) {
  int i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(halves + i), _mm256_cvtps_ph(_mm256_loadu_ps(floats + i), 0));
#endif
  for (; i < count; ++i) halves[i] = float_to_half(floats[i]);
  for (i = 0; i < count; ++i) halves[i] = floats[i] != floats[i] ? 0x7fff : halves[i];
}

/** While it lives, subnormal floats are read and written as 0, as .ftz wants it. */
class FlushSubnormals {
 public:
  explicit FlushSubnormals(bool on) {
#if defined(__x86_64__)
    saved_ = _mm_getcsr();
    _mm_setcsr(on ? saved_ | 0x8040 : saved_ & ~0x8040u);
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved_));
    const uint64_t wanted = on ? saved_ | 1ull << 24 : saved_ & ~(1ull << 24);
    __asm__ volatile("msr fpcr, %0" : : "r"(wanted));
#else
    (void)on;
#endif
  }
  ~FlushSubnormals() {
#if defined(__x86_64__)
    _mm_setcsr(saved_);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(saved_));
#endif
  }
  FlushSubnormals(const FlushSubnormals&) = delete;

 private:
#if defined(__aarch64__)
  uint64_t saved_;
#else
  unsigned saved_ = 0;
#endif
};

}  // namespace flashcore::emu::ptx
