// decode_mma: decoding on mma.sync, over a contiguous cache of ragged sequences (problems/attention_decode).
// Limits: fp16 or bf16, HEAD_DIM 64, 128 or 256, any lengths, sm_80 or later.
#include "mechanisms/stream_decode.cuh"

// Defines an entry; asserts that its tiling has the threads and bytes of the launch in kernel.yaml.
#define DECODE_MMA_ENTRY(NAME, CUT, CTAS, LAUNCHED_THREADS, LAUNCHED_BYTES)                                        \
  static_assert(register_rows::Tiling<CUT>::THREADS == (LAUNCHED_THREADS) &&                                       \
                register_rows::Tiling<CUT>::SMEM_BYTES == (LAUNCHED_BYTES));                                       \
  extern "C" __global__ void __launch_bounds__(LAUNCHED_THREADS, CTAS)                                             \
      NAME(const Element* Q, const Element* K, const Element* V, Element* O, float* LSE, const int* lengths,       \
           const float* sinks, float* parts, int* ended, int sequences, int queries, int heads, int group,         \
           int capacity, int window, int stripes, float scale, float softcap) {                                    \
    if constexpr (FLASHCORE_WANTED(NAME))                                                                          \
      stream_decode::decode<register_rows::Tiling<CUT>>({Q, K, V, O, LSE, lengths, sinks, parts, ended, sequences, \
                                                         queries, heads, group, capacity, window, stripes, scale,  \
                                                         softcap});                                                \
  }

using D64Rows16 = stream_decode::Cut<64, 16, 4, D64_TILE_KEYS>;
using D64Rows32 = stream_decode::Cut<64, 32, 4, D64_TILE_KEYS>;
using D128Rows16 = stream_decode::Cut<128, 16, 4, D128_TILE_KEYS>;
using D128Rows32 = stream_decode::Cut<128, 32, 4, D128_TILE_KEYS>;
using D256Rows16 = stream_decode::Cut<256, 16, 2, D256_TILE_KEYS>;
using D64Short = stream_decode::Cut<64, 16, 4, D64_TILE_KEYS, false, 1>;
using D128Short = stream_decode::Cut<128, 16, 4, D128_TILE_KEYS, false, 1>;
using D256Short = stream_decode::Cut<256, 16, 4, D256_TILE_KEYS, false, 1>;
DECODE_MMA_ENTRY(decode_mma_d64_short, D64Short, 4, 128, D64_SHORT_BYTES)
DECODE_MMA_ENTRY(decode_mma_d64_rows16, D64Rows16, CTAS_AN_SM, 128, D64_ROWS16_BYTES)
DECODE_MMA_ENTRY(decode_mma_d64_rows32, D64Rows32, CTAS_AN_SM, 128, D64_ROWS32_BYTES)
DECODE_MMA_ENTRY(decode_mma_d128_short, D128Short, 3, 128, D128_SHORT_BYTES)
DECODE_MMA_ENTRY(decode_mma_d128_rows16, D128Rows16, CTAS_AN_SM, 128, D128_ROWS16_BYTES)
DECODE_MMA_ENTRY(decode_mma_d128_rows32, D128Rows32, CTAS_AN_SM, 128, D128_ROWS32_BYTES)
DECODE_MMA_ENTRY(decode_mma_d256_short, D256Short, 2, 128, D256_SHORT_BYTES)
DECODE_MMA_ENTRY(decode_mma_d256_rows16, D256Rows16, CTAS_AN_SM, 64, D256_ROWS16_BYTES)
