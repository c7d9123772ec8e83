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
