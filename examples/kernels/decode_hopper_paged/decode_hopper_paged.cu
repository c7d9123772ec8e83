// decode_hopper_paged: decode_hopper over a paged cache (problems/attention_decode_paged). Limits: fp16 or bf16, HEAD_DIM 64, 128 or 256, any lengths, sm_90a only.
#include "mechanisms/cluster_decode.cuh"
#include "mechanisms/direct_decode.cuh"
#include "mechanisms/divided_sequences.cuh"

// Defines an entry with at most THREADS threads.
#define ENTRY(NAME, THREADS, CTAS_AN_SM, DECODE)                                                                      \
  extern "C" __global__ void __launch_bounds__(THREADS, CTAS_AN_SM)                                                   \
      NAME(const Element* Q, const Element* K, const Element* V, Element* O, float* LSE, const int* lengths,          \
           const int* table, const float* sinks, float* parts, int* ended, int sequences, int queries, int heads,     \
           int group, int page, int most_pages, int window, int stripes, float scale, float softcap, int ctas_log2) { \
    if constexpr (FLASHCORE_WANTED(NAME)) {                                                                           \
      const stream_decode::Cache cache{Q,      K,       V,         O,       LSE,   lengths, sinks,                    \
                                       parts,  ended,   sequences, queries, heads, group,   page * most_pages,        \
                                       window, stripes, scale,     softcap, table, page,    most_pages};              \
      DECODE;                                                                                                         \
    }                                                                                                                 \
  }
// The same for a tiling; asserts that it has the threads and bytes of the launch in kernel.yaml.
#define DECODE_ENTRY(NAME, CUT, CTAS_AN_SM, LAUNCHED_THREADS, LAUNCHED_BYTES, DECODE) \
  static_assert(register_rows::Tiling<CUT>::THREADS == (LAUNCHED_THREADS) &&          \
                register_rows::Tiling<CUT>::SMEM_BYTES == (LAUNCHED_BYTES));          \
  ENTRY(NAME, LAUNCHED_THREADS, CTAS_AN_SM, DECODE)
#define STREAM_ENTRY(NAME, CUT, CTAS_AN_SM, THREADS, BYTES) \
  DECODE_ENTRY(NAME, CUT, CTAS_AN_SM, THREADS, BYTES, stream_decode::decode<register_rows::Tiling<CUT>>(cache))
#define DIVIDED_ENTRY(NAME, CUT, CTAS_AN_SM, THREADS, BYTES) \
  DECODE_ENTRY(NAME, CUT, CTAS_AN_SM, THREADS, BYTES, (stream_decode::decode<register_rows::Tiling<CUT>, false>(cache)))
#define CLUSTER_ENTRY(NAME, CUT, CTAS_AN_SM, THREADS, BYTES) \
  DECODE_ENTRY(NAME, CUT, CTAS_AN_SM, THREADS, BYTES,        \
               cluster_decode::decode<register_rows::Tiling<CUT>>(cache, ctas_log2))

// Defines the entry of the second launch, which sums the parts of the first one's CTAs.
#define MERGE_ENTRY(NAME, CUT)                                                                                         \
  extern "C" __global__ void __launch_bounds__(MERGING_THREADS)                                                        \
      NAME(Element* O, float* LSE, const int* lengths, float* parts, int sequences, int queries, int heads, int group, \
           int page, int most_pages, int window, int stripes, int run, int ctas) {                                     \
    if constexpr (FLASHCORE_WANTED(NAME)) {                                                                            \
      using T = register_rows::Tiling<CUT>;                                                                            \
      const stream_decode::Cache cache{nullptr, nullptr, nullptr,   O,       LSE,   lengths, nullptr,                  \
                                       parts,   nullptr, sequences, queries, heads, group,   page * most_pages,        \
                                       window,  stripes, 0.0f,      0.0f};                                             \
      cudaGridDependencySynchronize();                                                                                 \
      divided_sequences::merge<T, T::ROUND, MERGING_THREADS>(cache, run, ctas);                                        \
    }                                                                                                                  \
  }

// Query rows, groups of warps, keys of a tile, and stages.
template <int D, int ROWS, int GROUPS, int KEYS, int STAGES>
using Divided = stream_decode::Cut<D, ROWS, GROUPS, KEYS, true, STAGES>;
template <int D, int ROWS, int GROUPS, int KEYS, int STAGES>
using Clustered = stream_decode::Cut<D, ROWS, GROUPS, KEYS, true, STAGES, true>;

// Few keys: 16 or 32 for each warp, which loads them into registers.
using D64Direct16 = direct_decode::Tiling<64, 16, true>;
using D64Direct32 = direct_decode::Tiling<64, 32, true>;
using D128Direct16 = direct_decode::Tiling<128, 16, true>;
using D128Direct32 = direct_decode::Tiling<128, 32, true>;
ENTRY(decode_hopper_paged_d64_direct16, 32 * DIRECT_WARPS, 1, direct_decode::decode<D64Direct16>(cache))
ENTRY(decode_hopper_paged_d64_direct32, 32 * DIRECT_WARPS, 1, direct_decode::decode<D64Direct32>(cache))
ENTRY(decode_hopper_paged_d128_direct16, 32 * DIRECT_WARPS, 1, direct_decode::decode<D128Direct16>(cache))
ENTRY(decode_hopper_paged_d128_direct32, 32 * DIRECT_WARPS, 1, direct_decode::decode<D128Direct32>(cache))

// Caches of at most one tile per warp.
using D256Short = Divided<256, 16, 4, TILE_KEYS, 1>;
STREAM_ENTRY(decode_hopper_paged_d256_short, D256Short, 2, 128, D256_SHORT_BYTES)

// A CTA has few keys: all of them are on their way at once, and three CTAs fit on an SM.
using D64Slim = Clustered<64, 16, 4, D64_TILE_KEYS, 2>;
using D128Slim = Clustered<128, 16, 4, TILE_KEYS, 2>;
CLUSTER_ENTRY(decode_hopper_paged_d64_slim, D64Slim, SLIM_AN_SM, 128, D64_SLIM_BYTES)
CLUSTER_ENTRY(decode_hopper_paged_d128_slim, D128Slim, SLIM_AN_SM, 128, D128_SLIM_BYTES)

// A CTA has an SM to itself, and keeps as many bytes under way as the SM has memory for.
using D64Wide = Clustered<64, 16, 8, D64_TILE_KEYS, 3>;
using D128Wide = Clustered<128, 16, 8, TILE_KEYS, 3>;
using D256Wide = Clustered<256, 16, 4, TILE_KEYS, 2>;
CLUSTER_ENTRY(decode_hopper_paged_d64_wide, D64Wide, 1, 256, D64_WIDE_BYTES)
CLUSTER_ENTRY(decode_hopper_paged_d128_wide, D128Wide, 1, 256, D128_WIDE_BYTES)
CLUSTER_ENTRY(decode_hopper_paged_d256_wide, D256Wide, 1, 128, D256_WIDE_BYTES)

// 17 to 32 query rows share a head of K and V, with many keys of 64 columns.
using D64Rows32 = Clustered<64, 32, 4, D64_TILE_KEYS, 2>;
CLUSTER_ENTRY(decode_hopper_paged_d64_rows32, D64Rows32, 2, 128, D64_ROWS32_BYTES)

// Long caches.
using D64Stream16 = Divided<64, 16, 4, D64_TILE_KEYS, 2>;
using D128Stream16 = Divided<128, 16, 4, TILE_KEYS, 2>;
using D64StreamWide = Divided<64, 16, 8, D64_TILE_KEYS, 3>;
using D128StreamWide = Divided<128, 16, 8, TILE_KEYS, 3>;
using D256Stream16 = Divided<256, 16, 2, TILE_KEYS, 2>;
using D64Stream32 = Divided<64, 32, 4, D64_TILE_KEYS, 2>;
STREAM_ENTRY(decode_hopper_paged_d64_stream16, D64Stream16, 2, 128, D64_SLIM_BYTES)
STREAM_ENTRY(decode_hopper_paged_d128_stream16, D128Stream16, 2, 128, D128_SLIM_BYTES)
STREAM_ENTRY(decode_hopper_paged_d64_stream_wide, D64StreamWide, 1, 256, D64_WIDE_BYTES)
STREAM_ENTRY(decode_hopper_paged_d128_stream_wide, D128StreamWide, 1, 256, D128_WIDE_BYTES)
STREAM_ENTRY(decode_hopper_paged_d256_stream16, D256Stream16, 2, 64, D256_STREAM_BYTES)
STREAM_ENTRY(decode_hopper_paged_d64_stream32, D64Stream32, 2, 128, D64_ROWS32_BYTES)

// More than 16 query rows share a head of K and V: stripes of 64 rows, with products on wgmma. Many sequences of few keys.
using D64Slim64 = Clustered<64, 64, 1, WGMMA_KEYS, 2>;
using D128Slim64 = Clustered<128, 64, 1, WGMMA_KEYS, 2>;
CLUSTER_ENTRY(decode_hopper_paged_d64_slim64, D64Slim64, 5, 128, D64_SLIM64_BYTES)
CLUSTER_ENTRY(decode_hopper_paged_d128_slim64, D128Slim64, 4, 128, D128_SLIM64_BYTES)

// Few sequences.
using D64Wide64 = Clustered<64, 64, 4, WGMMA_KEYS, 2>;
using D128Wide64 = Clustered<128, 64, 4, WGMMA_KEYS, 2>;
CLUSTER_ENTRY(decode_hopper_paged_d64_wide64, D64Wide64, 1, 512, D64_WIDE64_BYTES)
CLUSTER_ENTRY(decode_hopper_paged_d128_wide64, D128Wide64, 1, 512, D128_WIDE64_BYTES)

// Long caches.
using D64Stream64 = Divided<64, 64, 2, LONG_WGMMA_KEYS, 3>;
using D128Stream64 = Divided<128, 64, 2, LONG_WGMMA_KEYS, 3>;
DIVIDED_ENTRY(decode_hopper_paged_d64_stream64, D64Stream64, 1, 256, D64_STREAM64_BYTES)
DIVIDED_ENTRY(decode_hopper_paged_d128_stream64, D128Stream64, 1, 256, D128_STREAM64_BYTES)
MERGE_ENTRY(decode_hopper_paged_d64_merge64, D64Stream64)
MERGE_ENTRY(decode_hopper_paged_d128_merge64, D128Stream64)
