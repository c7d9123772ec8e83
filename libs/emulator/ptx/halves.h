// Converts 32 halves to 32 floats and back.
#pragma once
#include <cstdint>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "vectors.h"
// Included last, because it defines kernel names as macros, which break the standard library's headers.
#include "../include/flashcore_emulator/half_bits.h"
#undef __noinline__

namespace flashcore::emu::ptx {

inline void floats_of(const uint16_t* halves, float* floats, int count) {
#if defined(FLASHCORE_WIDE_VECTORS)
  for (; count >= 16; count -= 16, halves += 16, floats += 16)
    vectors::put(floats, vectors::floats_of_halves_at(halves));
#endif
#if defined(FLASHCORE_EIGHT_HALVES)
  for (; count >= 8; count -= 8, halves += 8, floats += 8) vectors::eight_halves_to_floats(halves, floats);
#endif
  for (int i = 0; i < count; ++i) floats[i] = half_to_float(halves[i]);
}

/** Converts the low halves and the high halves of pairs. */
inline void floats_of_pairs(const uint32_t* pairs, float* low, float* high, int count) {
#if defined(FLASHCORE_WIDE_VECTORS)
  for (; count >= 16; count -= 16, pairs += 16, low += 16, high += 16) {
    const vectors::Words both = vectors::words_at(pairs);
    vectors::put(low, vectors::floats_of_lower(both));
    vectors::put(high, vectors::floats_of_upper(both));
  }
#endif
  alignas(64) uint16_t halves[2][32];
  for (int i = 0; i < count; ++i) halves[0][i] = static_cast<uint16_t>(pairs[i]);
  for (int i = 0; i < count; ++i) halves[1][i] = static_cast<uint16_t>(pairs[i] >> 16);
  floats_of(halves[0], low, count);
  floats_of(halves[1], high, count);
}

/** The shared memory of a block. */
struct SharedBytes {
  const char* base;
  uint32_t end;
};

/**
 * Reads 32 words at addresses[lane] + offset if all are in the memory and within the 128 bytes that start at lane 0's
 * word. Otherwise, or if the processor cannot select among these words in one step, returns false and reads nothing.
 */
inline bool words_nearby(const SharedBytes& memory, const uint32_t* addresses, uint32_t offset, uint32_t* words) {
#if defined(FLASHCORE_WIDE_VECTORS)
  const auto& [base, end] = memory;
  using namespace vectors;
  const uint32_t first = addresses[0] + offset;
  if (first > end || end - first < 128 || (first & 3)) return false;
  const Words start = all_words(addresses[0]), size = all_words(128);
  const Words a = words_at(addresses) - start, b = words_at(addresses + 16) - start;
  if (which_at_least(a, size) | which_at_least(b, size) | which_have(a | b, all_words(3))) return false;
  const Words low = words_at(base + first), high = words_at(base + first + 64);
  put(words, chosen(low, high, a >> 2));
  put(words + 16, chosen(low, high, b >> 2));
  return true;
#else
  (void)memory, (void)addresses, (void)offset, (void)words;
  return false;
#endif
}

/** Rounds to nearest even. A NaN becomes 0x7fff, as on a GPU. */
inline void halves_of(const float* floats, uint16_t* halves, int count) {
  int i = 0;
#if defined(FLASHCORE_EIGHT_HALVES)
  for (; i + 8 <= count; i += 8) vectors::eight_floats_to_halves(floats + i, halves + i);
#endif
  for (; i < count; ++i) halves[i] = float_to_half(floats[i]);
  for (i = 0; i < count; ++i) halves[i] = floats[i] != floats[i] ? 0x7fff : halves[i];
}

/** As long as an object exists, subnormal floats are read and written as 0, as .ftz requires. */
class FlushSubnormals {
 public:
  explicit FlushSubnormals(bool on) : saved_(vectors::float_mode()) {
    vectors::set_float_mode(on ? saved_ | vectors::FLUSHES : saved_ & ~vectors::FLUSHES);
  }
  ~FlushSubnormals() { vectors::set_float_mode(saved_); }
  FlushSubnormals(const FlushSubnormals&) = delete;

 private:
  const vectors::FloatMode saved_;
};

}  // namespace flashcore::emu::ptx
