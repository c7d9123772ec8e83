// Addresses and words of 32 lanes at once. With halves.h and products.h the only files that have a processor's own
// instructions; each function has a plain loop for processors without AVX-512.
#pragma once
#include <cstdint>
#include <cstring>

#include "halves.h"
#include "warp.h"
#if defined(__AVX512F__) && defined(__AVX512BW__)
#include <immintrin.h>
#define FLASHCORE_VECTOR_LANES 1
#endif

namespace flashcore::emu::ptx {

enum class Pattern : uint8_t { Uniform, Contiguous, Scattered };

/** offsets = a + add; whether all of them are at most `last` and have no bit of `low`. */
inline bool offsets_inside(const uint32_t* a, uint32_t add, uint32_t last, uint32_t low, uint32_t* offsets) {
#if defined(FLASHCORE_VECTOR_LANES)
  const __m512i more = _mm512_set1_epi32(static_cast<int>(add)), end = _mm512_set1_epi32(static_cast<int>(last));
  const __m512i bits = _mm512_set1_epi32(static_cast<int>(low));
  const __m512i first = _mm512_add_epi32(_mm512_loadu_si512(a), more);
  const __m512i second = _mm512_add_epi32(_mm512_loadu_si512(a + 16), more);
  _mm512_storeu_si512(offsets, first);
  _mm512_storeu_si512(offsets + 16, second);
  return !(_mm512_cmpgt_epu32_mask(_mm512_max_epu32(first, second), end) |
           _mm512_test_epi32_mask(_mm512_or_si512(first, second), bits));
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

/** at = a + add; whether all of them lie in [first, last] and have no bit of `low`. */
inline bool addresses_inside(const uint64_t* a, uint64_t add, uint64_t first, uint64_t last, uint64_t low,
                             uint64_t* at) {
#if defined(FLASHCORE_VECTOR_LANES)
  const __m512i more = _mm512_set1_epi64(static_cast<int64_t>(add)),
                bits = _mm512_set1_epi64(static_cast<int64_t>(low));
  const __m512i from = _mm512_set1_epi64(static_cast<int64_t>(first)),
                to = _mm512_set1_epi64(static_cast<int64_t>(last));
  __mmask8 outside = 0;
  for (int n = 0; n < LANES; n += 8) {
    const __m512i here = _mm512_add_epi64(_mm512_loadu_si512(a + n), more);
    _mm512_storeu_si512(at + n, here);
    outside |=
        _mm512_cmplt_epu64_mask(here, from) | _mm512_cmpgt_epu64_mask(here, to) | _mm512_test_epi64_mask(here, bits);
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
#if defined(FLASHCORE_VECTOR_LANES)
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i start = _mm512_set1_epi32(static_cast<int>(offsets[0])),
                each = _mm512_set1_epi32(static_cast<int>(step));
  const __m512i low = _mm512_sub_epi32(_mm512_loadu_si512(offsets), start);
  const __m512i high = _mm512_sub_epi32(_mm512_loadu_si512(offsets + 16), start);
  if (!_mm512_test_epi32_mask(_mm512_or_si512(low, high), _mm512_set1_epi32(-1))) return Pattern::Uniform;
  const __m512i wanted = _mm512_mullo_epi32(lanes, each);
  if (_mm512_cmpneq_epi32_mask(low, wanted)) return Pattern::Scattered;
  const __m512i rest = _mm512_add_epi32(wanted, _mm512_slli_epi32(each, 4));
  return _mm512_cmpneq_epi32_mask(high, rest) ? Pattern::Scattered : Pattern::Contiguous;
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

/** Lanes whose word is `wanted`. */
inline uint32_t lanes_with(const uint32_t* words, uint32_t wanted) {
#if defined(FLASHCORE_VECTOR_LANES)
  const __m512i value = _mm512_set1_epi32(static_cast<int>(wanted));
  return static_cast<uint32_t>(_mm512_cmpeq_epi32_mask(_mm512_loadu_si512(words), value)) |
         static_cast<uint32_t>(_mm512_cmpeq_epi32_mask(_mm512_loadu_si512(words + 16), value)) << 16;
#else
  uint32_t lanes = 0;
#pragma GCC ivdep
  for (int k = 0; k < LANES; ++k) lanes |= words[k] == wanted ? 1u << k : 0u;
  return lanes;
#endif
}

/** At least the first two lanes of each address, and as few more as is quickly found. */
inline uint32_t two_of_each(const uint32_t* offsets) {
#if defined(FLASHCORE_VECTOR_LANES) && defined(__AVX512CD__)
  // Of each half of the warp: earlier lanes with the same address, as bits.
  const __m512i low = _mm512_conflict_epi32(_mm512_loadu_si512(offsets));
  const __m512i high = _mm512_conflict_epi32(_mm512_loadu_si512(offsets + 16));
  const __m512i one = _mm512_set1_epi32(1);
  const uint32_t more = static_cast<uint32_t>(_mm512_test_epi32_mask(low, _mm512_sub_epi32(low, one))) |
                        static_cast<uint32_t>(_mm512_test_epi32_mask(high, _mm512_sub_epi32(high, one))) << 16;
  return ~more;
#else
  uint32_t uneven = 0;
  for (int k = 0; k < LANES; ++k) uneven |= offsets[k] ^ offsets[0];
  return uneven ? ~0u : 3u;
#endif
}

/** to[lane] = from[lanes[lane] & 31]; none of them may overlap. */
inline void permute_lanes(const uint32_t* from, const uint32_t* lanes, uint32_t* to) {
#if defined(FLASHCORE_VECTOR_LANES)
  const __m512i low = _mm512_loadu_si512(from), high = _mm512_loadu_si512(from + 16);
  _mm512_storeu_si512(to, _mm512_permutex2var_epi32(low, _mm512_loadu_si512(lanes), high));
  _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi32(low, _mm512_loadu_si512(lanes + 16), high));
#else
  for (int k = 0; k < LANES; ++k) to[k] = from[lanes[k] & 31];
#endif
}

/** Rows of 16 bytes, one a lane, to four registers. `at` gives a lane's address. */
template <class At>
inline void rows_to_registers(const At& at, uint32_t* const* registers) {
#if defined(FLASHCORE_VECTOR_LANES)
  const auto row = [&](int lane) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at(lane))); };
  for (int begin = 0; begin < LANES; begin += 16) {
    __m512i rows[4];
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) {
      rows[n] = _mm512_castsi128_si512(row(begin + n));
      rows[n] = _mm512_inserti32x4(rows[n], row(begin + n + 4), 1);
      rows[n] = _mm512_inserti32x4(rows[n], row(begin + n + 8), 2);
      rows[n] = _mm512_inserti32x4(rows[n], row(begin + n + 12), 3);
    }
    const __m512i low01 = _mm512_unpacklo_epi32(rows[0], rows[1]), high01 = _mm512_unpackhi_epi32(rows[0], rows[1]);
    const __m512i low23 = _mm512_unpacklo_epi32(rows[2], rows[3]), high23 = _mm512_unpackhi_epi32(rows[2], rows[3]);
    _mm512_storeu_si512(registers[0] + begin, _mm512_unpacklo_epi64(low01, low23));
    _mm512_storeu_si512(registers[1] + begin, _mm512_unpackhi_epi64(low01, low23));
    _mm512_storeu_si512(registers[2] + begin, _mm512_unpacklo_epi64(high01, high23));
    _mm512_storeu_si512(registers[3] + begin, _mm512_unpackhi_epi64(high01, high23));
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
 * Rows of 16 bytes at base + addresses[lane] + add, to four registers, of which one may be that of the addresses; false,
 * and nothing is done, where one is no multiple of 16 or does not end at `end` or before.
 */
inline bool shared_rows_to_registers(const char* base, uint32_t end, const uint32_t* addresses, uint32_t add,
                                     uint32_t* const* registers) {
#if defined(FLASHCORE_VECTOR_LANES)
  if (end < 16) return false;
  const __m512i more = _mm512_set1_epi32(static_cast<int>(add));
  const __m512i low = _mm512_add_epi32(_mm512_loadu_si512(addresses), more);
  const __m512i high = _mm512_add_epi32(_mm512_loadu_si512(addresses + 16), more);
  if (_mm512_cmpgt_epu32_mask(_mm512_max_epu32(low, high), _mm512_set1_epi32(static_cast<int>(end - 16))) |
      _mm512_test_epi32_mask(_mm512_or_si512(low, high), _mm512_set1_epi32(15)))
    return false;
  // Eight lanes each with one row.
  const __m512i eights = _mm512_set_epi32(8, 8, 8, 8, 8, 8, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0);
  if (!(_mm512_cmpneq_epi32_mask(low, _mm512_permutexvar_epi32(eights, low)) |
        _mm512_cmpneq_epi32_mask(high, _mm512_permutexvar_epi32(eights, high)))) {
    for (int begin = 0; begin < LANES; begin += 16) {
      const auto row = [&](int lane) {
        return _mm512_broadcast_i32x4(
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(base + (addresses[lane] + add))));
      };
      const __m512i rows = _mm512_mask_mov_epi64(row(begin), 0xf0, row(begin + 8));
      _mm512_storeu_si512(registers[0] + begin, _mm512_shuffle_epi32(rows, _MM_PERM_AAAA));
      _mm512_storeu_si512(registers[1] + begin, _mm512_shuffle_epi32(rows, _MM_PERM_BBBB));
      _mm512_storeu_si512(registers[2] + begin, _mm512_shuffle_epi32(rows, _MM_PERM_CCCC));
      _mm512_storeu_si512(registers[3] + begin, _mm512_shuffle_epi32(rows, _MM_PERM_DDDD));
    }
    return true;
  }
  // All within 128 bytes.
  const uint32_t first = addresses[0] + add;
  const __m512i start = _mm512_set1_epi32(static_cast<int>(first)), size = _mm512_set1_epi32(128);
  const __m512i a = _mm512_sub_epi32(low, start), b = _mm512_sub_epi32(high, start);
  if (end - first < 128 || _mm512_cmpge_epu32_mask(_mm512_max_epu32(a, b), size)) {
    rows_to_registers([&](int lane) { return base + (addresses[lane] + add); }, registers);
    return true;
  }
  const __m512i near = _mm512_loadu_si512(base + first), far = _mm512_loadu_si512(base + first + 64);
  const bool alike = !_mm512_cmpneq_epi32_mask(a, b);  // the second half of the warp reads what the first one does
  __m512i from_a = _mm512_srli_epi32(a, 2), from_b = _mm512_srli_epi32(b, 2);
  for (int n = 0; n < 4; ++n) {
    const __m512i words = _mm512_permutex2var_epi32(near, from_a, far);
    _mm512_storeu_si512(registers[n], words);
    _mm512_storeu_si512(registers[n] + 16, alike ? words : _mm512_permutex2var_epi32(near, from_b, far));
    from_a = _mm512_add_epi32(from_a, _mm512_set1_epi32(1));
    from_b = _mm512_add_epi32(from_b, _mm512_set1_epi32(1));
  }
  return true;
#else
  alignas(64) uint32_t offsets[LANES];
  if (end < 16 || !offsets_inside(addresses, add, end - 16, 15, offsets)) return false;
  rows_to_registers([&](int lane) { return base + offsets[lane]; }, registers);
  return true;
#endif
}

/** Whether each eight lanes' words, at addresses[lane] + add, lie side by side, and all of them below `end`. */
inline bool eights_of_words(uint32_t end, const uint32_t* addresses, uint32_t add) {
#if defined(FLASHCORE_VECTOR_LANES)
  if (end < 4) return false;
  const __m512i more = _mm512_set1_epi32(static_cast<int>(add));
  const __m512i low = _mm512_add_epi32(_mm512_loadu_si512(addresses), more);
  const __m512i high = _mm512_add_epi32(_mm512_loadu_si512(addresses + 16), more);
  const __m512i eights = _mm512_set_epi32(8, 8, 8, 8, 8, 8, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0);
  const __m512i steps = _mm512_set_epi32(28, 24, 20, 16, 12, 8, 4, 0, 28, 24, 20, 16, 12, 8, 4, 0);
  return !(_mm512_cmpgt_epu32_mask(_mm512_max_epu32(low, high), _mm512_set1_epi32(static_cast<int>(end - 4))) |
           _mm512_test_epi32_mask(_mm512_or_si512(low, high), _mm512_set1_epi32(3)) |
           _mm512_cmpneq_epi32_mask(_mm512_sub_epi32(low, _mm512_permutexvar_epi32(eights, low)), steps) |
           _mm512_cmpneq_epi32_mask(_mm512_sub_epi32(high, _mm512_permutexvar_epi32(eights, high)), steps));
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

/** Four registers to rows of 16 bytes, lane after lane. */
template <class At>
inline void registers_to_rows(const uint32_t* const* registers, const At& at) {
#if defined(FLASHCORE_VECTOR_LANES)
  for (int begin = 0; begin < LANES; begin += 16) {
    const __m512i a = _mm512_loadu_si512(registers[0] + begin), b = _mm512_loadu_si512(registers[1] + begin);
    const __m512i c = _mm512_loadu_si512(registers[2] + begin), d = _mm512_loadu_si512(registers[3] + begin);
    const __m512i ab_low = _mm512_unpacklo_epi32(a, b), ab_high = _mm512_unpackhi_epi32(a, b);
    const __m512i cd_low = _mm512_unpacklo_epi32(c, d), cd_high = _mm512_unpackhi_epi32(c, d);
    // rows[n]: of lanes n, n + 4, n + 8, n + 12
    const __m512i rows[4] = {_mm512_unpacklo_epi64(ab_low, cd_low), _mm512_unpackhi_epi64(ab_low, cd_low),
                             _mm512_unpacklo_epi64(ab_high, cd_high), _mm512_unpackhi_epi64(ab_high, cd_high)};
    alignas(64) char t[4][64];
    for (int n = 0; n < 4; ++n) _mm512_storeu_si512(t[n], rows[n]);
    for (int lane = 0; lane < 16; ++lane) memcpy(at(begin + lane), t[lane % 4] + lane / 4 * 16, 16);
  }
#else
  for (int lane = 0; lane < LANES; ++lane) {
    const uint32_t row[4] = {registers[0][lane], registers[1][lane], registers[2][lane], registers[3][lane]};
    memcpy(at(lane), row, sizeof row);
  }
#endif
}

#if defined(FLASHCORE_VECTOR_LANES)
inline __attribute__((always_inline)) __m512 factor(const char* registers, uint32_t slot, int half) {
  if (half == 0) return _mm512_load_ps(registers + slot);
  const __m512i pairs = _mm512_load_si512(registers + slot);
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(half == 1 ? pairs : _mm512_srli_epi32(pairs, 16)));
}
#endif

/** to = c + all a * b of the chain, each fused, in order; `c` and `to` may be one register. */
inline void multiply_add_chain(const char* registers, const Chain& chain, const Link* links, float* to) {
#if defined(FLASHCORE_VECTOR_LANES)
  __m512 low = _mm512_load_ps(registers + chain.c), high = _mm512_load_ps(registers + chain.c + 64);
  if (chain.floats) {
    for (const Link* link = links; link != links + chain.count; ++link) {
      const char *a = registers + link->a, *b = registers + link->b;
      low = _mm512_fmadd_ps(_mm512_load_ps(a), _mm512_load_ps(b), low);
      high = _mm512_fmadd_ps(_mm512_load_ps(a + 64), _mm512_load_ps(b + 64), high);
    }
  } else {
    for (const Link* link = links; link != links + chain.count; ++link) {
      const int a = link->a_half, b = link->b_half;
      low = _mm512_fmadd_ps(factor(registers, link->a, a), factor(registers, link->b, b), low);
      high = _mm512_fmadd_ps(factor(registers, link->a + 64, a), factor(registers, link->b + 64, b), high);
    }
  }
  _mm512_store_ps(to, low);
  _mm512_store_ps(to + 16, high);
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

/** Four such chains of floats at once: what they have in common is read once. For all lanes. */
inline void multiply_add_four(char* registers, const Chain* chains, const Link* links) {
  const uint32_t count = chains[0].count;
#if defined(FLASHCORE_VECTOR_LANES)
  for (uint32_t half = 0; half < 128; half += 64) {
    __m512 sums[4];
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) sums[n] = _mm512_load_ps(registers + half + chains[n].c);
    for (uint32_t at = 0; at < count; ++at) {
      const __m512 a = _mm512_load_ps(registers + half + links[at].a);
#pragma GCC unroll 4
      for (uint32_t n = 0; n < 4; ++n)
        sums[n] = _mm512_fmadd_ps(a, _mm512_load_ps(registers + half + links[n * count + at].b), sums[n]);
    }
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) _mm512_store_ps(registers + half + chains[n].d, sums[n]);
  }
#else
  for (uint32_t n = 0; n < 4; ++n)
    multiply_add_chain(registers, chains[n], links + n * count, reinterpret_cast<float*>(registers + chains[n].d));
#endif
}

}  // namespace flashcore::emu::ptx
