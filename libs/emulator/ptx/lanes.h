// Functions on the addresses and words of all 32 lanes. Each uses wide vectors, or a plain loop if the processor has
// none.
#pragma once
#include <cstdint>
#include <cstring>

#include "halves.h"
#include "vectors.h"
#include "warp.h"

namespace flashcore::emu::ptx {

enum class Pattern : uint8_t { Uniform, Contiguous, Scattered };

/** What addresses must be: from `first` to `last`, with no bit of `low` set. */
template <class Address>
struct Bounds {
  Address first, last, low;
};

/** Computes offsets = a + add. Returns whether all are within the bounds, of which `first` is 0. */
inline bool offsets_inside(const uint32_t* a, uint32_t add, const Bounds<uint32_t>& bounds, uint32_t* offsets) {
  const uint32_t last = bounds.last, low = bounds.low;
#if defined(FLASHCORE_WIDE_VECTORS)
  using namespace vectors;
  const Words first = words_at(a) + all_words(add), second = words_at(a + 16) + all_words(add);
  put(offsets, first);
  put(offsets + 16, second);
  return !(which_above(larger(first, second), all_words(last)) | which_have(first | second, all_words(low)));
#else
  uint32_t high = 0, ones = 0;
  for (int k = 0; k < LANES; ++k) {
    offsets[k] = a[k] + add;
    high = offsets[k] > high ? offsets[k] : high;
    ones |= offsets[k];
  }
  return high <= last && !(ones & low);
#endif
}

/** Computes at = a + add. Returns whether all addresses are within the bounds. */
inline bool addresses_inside(const uint64_t* a, uint64_t add, const Bounds<uint64_t>& bounds, uint64_t* at) {
  const uint64_t first = bounds.first, last = bounds.last, low = bounds.low;
#if defined(FLASHCORE_WIDE_VECTORS)
  using namespace vectors;
  const Longs more = all_longs(add), bits = all_longs(low), from = all_longs(first), to = all_longs(last);
  uint32_t outside = 0;
  for (int n = 0; n < LANES; n += 8) {
    const Longs here = longs_at(a + n) + more;
    put(at + n, here);
    outside |= which_above(from, here) | which_above(here, to) | which_have(here, bits);
  }
  return !outside;
#else
  bool inside = true;
  for (int k = 0; k < LANES; ++k) {
    at[k] = a[k] + add;
    inside &= at[k] >= first && at[k] <= last && !(at[k] & low);
  }
  return inside;
#endif
}

inline Pattern pattern_of(const uint32_t* offsets, uint32_t step) {
#if defined(FLASHCORE_WIDE_VECTORS)
  using namespace vectors;
  const Words lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const Words start = all_words(offsets[0]), each = all_words(step);
  const Words low = words_at(offsets) - start, high = words_at(offsets + 16) - start;
  if (!which_have(low | high, all_words(ALL))) return Pattern::Uniform;
  const Words wanted = lanes * each;
  if (which_differ(low, wanted)) return Pattern::Scattered;
  return which_differ(high, wanted + (each << 4)) ? Pattern::Scattered : Pattern::Contiguous;
#else
  uint32_t uneven = 0, apart = 0;
  for (uint32_t k = 0; k < LANES; ++k) {
    uneven |= offsets[k] ^ offsets[0];
    apart |= offsets[k] ^ (offsets[0] + k * step);
  }
  return !uneven ? Pattern::Uniform : (!apart ? Pattern::Contiguous : Pattern::Scattered);
#endif
}

inline Pattern pattern_of(const char* const* at, uint64_t step) {
  const auto first = reinterpret_cast<uint64_t>(at[0]);
  if (at[1] != at[0] && reinterpret_cast<uint64_t>(at[1]) != first + step) return Pattern::Scattered;
  uint64_t uneven = 0, apart = 0;
  for (uint64_t k = 0; k < LANES; ++k) {
    const auto here = reinterpret_cast<uint64_t>(at[k]);
    uneven |= here ^ first;
    apart |= here ^ (first + k * step);
  }
  return !uneven ? Pattern::Uniform : (!apart ? Pattern::Contiguous : Pattern::Scattered);
}

/** The lanes whose word equals `wanted`. */
inline uint32_t lanes_with(const uint32_t* words, uint32_t wanted) {
#if defined(FLASHCORE_WIDE_VECTORS)
  using namespace vectors;
  const Words value = all_words(wanted);
  return which_equal(words_at(words), value) | which_equal(words_at(words + 16), value) << 16;
#else
  uint32_t lanes = 0;
#pragma GCC ivdep
  for (int k = 0; k < LANES; ++k) lanes |= words[k] == wanted ? 1u << k : 0u;
  return lanes;
#endif
}

/** A mask that includes at least the first two lanes of each address, and few others. */
inline uint32_t two_of_each(const uint32_t* offsets) {
#if defined(FLASHCORE_WIDE_VECTORS)
  using namespace vectors;
  // Computed separately for each half of the warp.
  const Words low = equal_before(words_at(offsets)), high = equal_before(words_at(offsets + 16));
  const Words one = all_words(1);
  return ~(which_have(low, low - one) | which_have(high, high - one) << 16);
#else
  uint32_t uneven = 0;
  for (int k = 0; k < LANES; ++k) uneven |= offsets[k] ^ offsets[0];
  return uneven ? ~0u : 3u;
#endif
}

/** to[lane] = from[lanes[lane] & 31]. The arrays must not overlap. */
inline void permute_lanes(const uint32_t* from, const uint32_t* lanes, uint32_t* to) {
#if defined(FLASHCORE_WIDE_VECTORS)
  using namespace vectors;
  const Words low = words_at(from), high = words_at(from + 16);
  put(to, chosen(low, high, words_at(lanes)));
  put(to + 16, chosen(low, high, words_at(lanes + 16)));
#else
  for (int k = 0; k < LANES; ++k) to[k] = from[lanes[k] & 31];
#endif
}

#if defined(FLASHCORE_WIDE_VECTORS)
/**
 * Takes four vectors, each with four rows of four words, and returns the first words of all rows, then the second words
 * and so on: the 4 x 4 words of each quarter are transposed. Calling it twice restores the input.
 */
FLASHCORE_OPERATION void columns_of(const vectors::Words* rows, vectors::Words* columns) {
  using namespace vectors;
  const Words low01 = interleaved_low(rows[0], rows[1]), high01 = interleaved_high(rows[0], rows[1]);
  const Words low23 = interleaved_low(rows[2], rows[3]), high23 = interleaved_high(rows[2], rows[3]);
  columns[0] = joined_low(low01, low23);
  columns[1] = joined_high(low01, low23);
  columns[2] = joined_low(high01, high23);
  columns[3] = joined_high(high01, high23);
}
#endif

/** Reads a row of 16 bytes per lane into four registers. `at` returns a lane's address. */
template <class At>
inline void rows_to_registers(const At& at, uint32_t* const* registers) {
#if defined(FLASHCORE_WIDE_VECTORS)
  using namespace vectors;
  for (int begin = 0; begin < LANES; begin += 16) {
    Words rows[4], columns[4];
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n)
      rows[n] = rows_at(at(begin + n), at(begin + n + 4), at(begin + n + 8), at(begin + n + 12));
    columns_of(rows, columns);
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) put(registers[n] + begin, columns[n]);
  }
#else
  typedef uint32_t Words __attribute__((vector_size(16)));
  for (int begin = 0; begin < LANES; begin += 4) {
    Words t[4], turned[4];
    for (int n = 0; n < 4; ++n) memcpy(&t[n], at(begin + n), 16);
    const Words a = __builtin_shufflevector(t[0], t[1], 0, 4, 1, 5),
                b = __builtin_shufflevector(t[0], t[1], 2, 6, 3, 7);
    const Words c = __builtin_shufflevector(t[2], t[3], 0, 4, 1, 5),
                d = __builtin_shufflevector(t[2], t[3], 2, 6, 3, 7);
    turned[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    turned[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    turned[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    turned[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
    for (int n = 0; n < 4; ++n) memcpy(registers[n] + begin, &turned[n], 16);
  }
#endif
}

/**
 * Reads rows of 16 bytes at addresses[lane] + add into four registers, one of which may hold the addresses. Returns
 * false and does nothing if an address is not a multiple of 16 or a row ends outside of the memory.
 */
inline bool shared_rows_to_registers(const SharedBytes& memory, const uint32_t* addresses, uint32_t add,
                                     uint32_t* const* registers) {
  const char* const base = memory.base;
  const uint32_t end = memory.end;
#if defined(FLASHCORE_WIDE_VECTORS)
  using namespace vectors;
  if (end < 16) return false;
  const Words low = words_at(addresses) + all_words(add), high = words_at(addresses + 16) + all_words(add);
  if (which_above(larger(low, high), all_words(end - 16)) | which_have(low | high, all_words(15))) return false;
  // The fast case in which every eight lanes read the same row.
  if (!(which_differ(low, first_of_eights(low)) | which_differ(high, first_of_eights(high)))) {
    for (int begin = 0; begin < LANES; begin += 16) {
      const Words rows = rows_at(base + (addresses[begin] + add), base + (addresses[begin + 8] + add));
      put(registers[0] + begin, word_of_quarters<0>(rows));
      put(registers[1] + begin, word_of_quarters<1>(rows));
      put(registers[2] + begin, word_of_quarters<2>(rows));
      put(registers[3] + begin, word_of_quarters<3>(rows));
    }
    return true;
  }
  // The fast case in which all rows are within 128 bytes.
  const uint32_t first = addresses[0] + add;
  const Words a = low - all_words(first), b = high - all_words(first);
  if (end - first < 128 || which_at_least(larger(a, b), all_words(128))) {
    rows_to_registers([&](int lane) { return base + (addresses[lane] + add); }, registers);
    return true;
  }
  const Words near = words_at(base + first), far = words_at(base + first + 64);
  const bool alike = !which_differ(a, b);  // both halves of the warp read the same rows
  Words from_a = a >> 2, from_b = b >> 2;
  for (int n = 0; n < 4; ++n) {
    const Words words = chosen(near, far, from_a);
    put(registers[n], words);
    put(registers[n] + 16, alike ? words : chosen(near, far, from_b));
    from_a += all_words(1);
    from_b += all_words(1);
  }
  return true;
#else
  alignas(64) uint32_t offsets[LANES];
  if (end < 16 || !offsets_inside(addresses, add, {0, end - 16, 15}, offsets)) return false;
  rows_to_registers([&](int lane) { return base + offsets[lane]; }, registers);
  return true;
#endif
}

/** True if, in every group of eight lanes, the words at addresses[lane] + add are adjacent, and all are below `end`. */
inline bool eights_of_words(uint32_t end, const uint32_t* addresses, uint32_t add) {
#if defined(FLASHCORE_WIDE_VECTORS)
  using namespace vectors;
  if (end < 4) return false;
  const Words low = words_at(addresses) + all_words(add), high = words_at(addresses + 16) + all_words(add);
  const Words steps = {0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28};
  return !(which_above(larger(low, high), all_words(end - 4)) | which_have(low | high, all_words(3)) |
           which_differ(low - first_of_eights(low), steps) | which_differ(high - first_of_eights(high), steps));
#else
  uint32_t high = 0, apart = 0;
  for (int k = 0; k < LANES; ++k) {
    const uint32_t offset = addresses[k] + add;
    high = offset > high ? offset : high;
    apart |= (offset & 3) | (addresses[k] - addresses[k & ~7] - 4 * (static_cast<uint32_t>(k) & 7));
  }
  return end >= 4 && high <= end - 4 && !apart;
#endif
}

/** Writes four registers as rows of 16 bytes, lane after lane. */
template <class At>
inline void registers_to_rows(const uint32_t* const* registers, const At& at) {
#if defined(FLASHCORE_WIDE_VECTORS)
  using namespace vectors;
  for (int begin = 0; begin < LANES; begin += 16) {
    Words columns[4], rows[4];  // rows[n] holds lanes n, n + 4, n + 8, n + 12
    for (int n = 0; n < 4; ++n) columns[n] = words_at(registers[n] + begin);
    columns_of(columns, rows);
    alignas(64) char t[4][64];
    for (int n = 0; n < 4; ++n) put(t[n], rows[n]);
    for (int lane = 0; lane < 16; ++lane) memcpy(at(begin + lane), t[lane % 4] + lane / 4 * 16, 16);
  }
#else
  for (int lane = 0; lane < LANES; ++lane) {
    const uint32_t row[4] = {registers[0][lane], registers[1][lane], registers[2][lane], registers[3][lane]};
    memcpy(at(lane), row, sizeof row);
  }
#endif
}

#if defined(FLASHCORE_WIDE_VECTORS)
FLASHCORE_OPERATION vectors::Floats factor(const char* registers, uint32_t slot, int half) {
  using namespace vectors;
  if (half == 0) return floats_at(registers + slot);
  const Words pairs = words_at(registers + slot);
  return floats_of_lower(half == 1 ? pairs : pairs >> 16);
}
#endif

/** to = c + all a * b of the chain, in order, each addition fused. `c` and `to` may be the same register. */
inline void multiply_add_chain(const char* registers, const Chain& chain, const Link* links, float* to) {
#if defined(FLASHCORE_WIDE_VECTORS)
  using namespace vectors;
  Floats low = floats_at(registers + chain.c), high = floats_at(registers + chain.c + 64);
  if (chain.floats) {
    for (const Link* link = links; link != links + chain.count; ++link) {
      const char *a = registers + link->a, *b = registers + link->b;
      low = fused(floats_at(a), floats_at(b), low);
      high = fused(floats_at(a + 64), floats_at(b + 64), high);
    }
  } else {
    for (const Link* link = links; link != links + chain.count; ++link) {
      const int a = link->a_half, b = link->b_half;
      low = fused(factor(registers, link->a, a), factor(registers, link->b, b), low);
      high = fused(factor(registers, link->a + 64, a), factor(registers, link->b + 64, b), high);
    }
  }
  put(to, low);
  put(to + 16, high);
#else
  alignas(64) float sum[LANES], halves[2][LANES], others[LANES];
  memcpy(sum, registers + chain.c, sizeof sum);
  for (const Link* link = links; link != links + chain.count; ++link) {
    const uint32_t slots[] = {link->a, link->b};
    const int wanted[] = {link->a_half, link->b_half};
    const float* factors[2];
    for (int n = 0; n < 2; ++n) {
      factors[n] = reinterpret_cast<const float*>(registers + slots[n]);
      if (!wanted[n]) continue;
      const auto* pairs = reinterpret_cast<const uint32_t*>(registers + slots[n]);
      floats_of_pairs(pairs, wanted[n] == 1 ? halves[n] : others, wanted[n] == 1 ? others : halves[n], LANES);
      factors[n] = halves[n];
    }
#pragma GCC ivdep
    for (int k = 0; k < LANES; ++k) sum[k] = __builtin_fmaf(factors[0][k], factors[1][k], sum[k]);
  }
  memcpy(to, sum, sizeof sum);
#endif
}

/** Runs four chains of floats together for all lanes. Reads their common factors only once. */
inline void multiply_add_four(char* registers, const Chain* chains, const Link* links) {
  const uint32_t count = chains[0].count;
#if defined(FLASHCORE_WIDE_VECTORS)
  using namespace vectors;
  for (uint32_t half = 0; half < 128; half += 64) {
    Floats sums[4];
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) sums[n] = floats_at(registers + half + chains[n].c);
    for (uint32_t at = 0; at < count; ++at) {
      const Floats a = floats_at(registers + half + links[at].a);
#pragma GCC unroll 4
      for (uint32_t n = 0; n < 4; ++n)
        sums[n] = fused(a, floats_at(registers + half + links[n * count + at].b), sums[n]);
    }
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) put(registers + half + chains[n].d, sums[n]);
  }
#else
  for (uint32_t n = 0; n < 4; ++n)
    multiply_add_chain(registers, chains[n], links + n * count, reinterpret_cast<float*>(registers + chains[n].d));
#endif
}

}  // namespace flashcore::emu::ptx
