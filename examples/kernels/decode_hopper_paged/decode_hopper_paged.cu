// decode_hopper_paged: decode_hopper over a paged cache (problems/attention_decode_paged). Limits: fp16 or bf16, HEAD_DIM 64, 128 or 256, any lengths, sm_90 or later.
#include "mechanisms/cluster_decode.cuh"

// Defines an entry; asserts that its tiling has the threads and bytes of the launch in kernel.yaml.
#define DECODE_ENTRY(NAME, CUT, CTAS_AN_SM, LAUNCHED_THREADS, LAUNCHED_BYTES, DECODE)                                 \
  static_assert(register_rows::Tiling<CUT>::THREADS == (LAUNCHED_THREADS) &&                                          \
                register_rows::Tiling<CUT>::SMEM_BYTES == (LAUNCHED_BYTES));                                          \
  extern "C" __global__ void __launch_bounds__(LAUNCHED_THREADS, CTAS_AN_SM)                                          \
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
#define STREAM_ENTRY(NAME, CUT, CTAS_AN_SM, THREADS, BYTES) \
  DECODE_ENTRY(NAME, CUT, CTAS_AN_SM, THREADS, BYTES, stream_decode::decode<register_rows::Tiling<CUT>>(cache))
#define CLUSTER_ENTRY(NAME, CUT, CTAS_AN_SM, THREADS, BYTES) \
  DECODE_ENTRY(NAME, CUT, CTAS_AN_SM, THREADS, BYTES,        \
               cluster_decode::decode<register_rows::Tiling<CUT>>(cache, ctas_log2))

// Query rows, warps, keys of a tile, and stages.
template <int D, int ROWS, int WARPS, int KEYS, int STAGES>
using Divided = stream_decode::Cut<D, ROWS, WARPS, KEYS, true, STAGES>;
template <int D, int ROWS, int WARPS, int KEYS, int STAGES>
using Clustered = stream_decode::Cut<D, ROWS, WARPS, KEYS, true, STAGES, true>;

// Caches of at most one tile per warp.
using D64Short = Divided<64, 16, 4, D64_TILE_KEYS, 1>;
using D128Short = Divided<128, 16, 4, TILE_KEYS, 1>;
using D256Short = Divided<256, 16, 4, TILE_KEYS, 1>;
STREAM_ENTRY(decode_hopper_paged_d64_short, D64Short, 4, 128, D64_SHORT_BYTES)
STREAM_ENTRY(decode_hopper_paged_d128_short, D128Short, 3, 128, D128_SHORT_BYTES)
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

// More than 16 query rows share a head of K and V.
using D64Rows32 = Clustered<64, 32, 4, D64_TILE_KEYS, 2>;
using D128Rows32 = Clustered<128, 32, 4, TILE_KEYS, 2>;
CLUSTER_ENTRY(decode_hopper_paged_d64_rows32, D64Rows32, 2, 128, D64_ROWS32_BYTES)
CLUSTER_ENTRY(decode_hopper_paged_d128_rows32, D128Rows32, 2, 128, D128_ROWS32_BYTES)

// Long caches.
using D64Stream16 = Divided<64, 16, 4, D64_TILE_KEYS, 2>;
using D128Stream16 = Divided<128, 16, 4, TILE_KEYS, 2>;
using D64StreamWide = Divided<64, 16, 8, D64_TILE_KEYS, 3>;
using D128StreamWide = Divided<128, 16, 8, TILE_KEYS, 3>;
using D256Stream16 = Divided<256, 16, 2, TILE_KEYS, 2>;
using D64Stream32 = Divided<64, 32, 4, D64_TILE_KEYS, 2>;
using D128Stream32 = Divided<128, 32, 4, TILE_KEYS, 2>;
STREAM_ENTRY(decode_hopper_paged_d64_stream16, D64Stream16, 2, 128, D64_SLIM_BYTES)
STREAM_ENTRY(decode_hopper_paged_d128_stream16, D128Stream16, 2, 128, D128_SLIM_BYTES)
STREAM_ENTRY(decode_hopper_paged_d64_stream_wide, D64StreamWide, 1, 256, D64_WIDE_BYTES)
STREAM_ENTRY(decode_hopper_paged_d128_stream_wide, D128StreamWide, 1, 256, D128_WIDE_BYTES)
STREAM_ENTRY(decode_hopper_paged_d256_stream16, D256Stream16, 2, 64, D256_STREAM_BYTES)
STREAM_ENTRY(decode_hopper_paged_d64_stream32, D64Stream32, 2, 128, D64_ROWS32_BYTES)
STREAM_ENTRY(decode_hopper_paged_d128_stream32, D128Stream32, 2, 128, D128_ROWS32_BYTES)
