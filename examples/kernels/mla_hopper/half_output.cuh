// Half of the columns of a stripe's output, in the registers of a warpgroup: thread t of it has two neighbouring
// columns in eight of the rows 16 w + g and 16 w + g + 8 (warp w, g = t % 32 / 4).
#pragma once
#include "latent_tiles.cuh"
#include "primitives/wgmma.cuh"

namespace latent_tiles {

using stream_decode::LN_2, stream_decode::NO_ROW_MAX;

constexpr int WGMMA_K = 16, OUTPUTS = HALF_DIM / 2;
constexpr int GROUP_MEETS = 4;  // the named barrier of the first warpgroup; the next one is the second's

// For stream_decode: the rows and columns of a part of O.
struct OutputTile {
  static constexpr int HEAD_DIM = VALUE_DIM, BLOCK_Q = ROWS;
};
using Part = stream_decode::Part<OutputTile>;

template <bool LEFT_HALF>
struct HalfOutput {
  static constexpr Piece PIECE = LEFT_HALF ? LEFT : RIGHT;
  const Memory memory;
  float O[OUTPUTS];
  float2 max_and_sum[2];  // of the thread's two rows, when a share is done

  __device__ __forceinline__ static int first_row() {
    return threadIdx.x % WARPGROUP / WARP * 16 + (threadIdx.x % WARP >> 2);
  }

  __device__ __forceinline__ uint32_t values(int stage) const {
    return memory.tile(stage) + first_panel(PIECE) * PANEL_BYTES;
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) O[i] = 0.0f;
  }

  __device__ __forceinline__ void rescale(const float (&alpha)[2]) {
    if (!__any_sync(0xffffffffu, alpha[0] != 1.0f || alpha[1] != 1.0f)) return;
#pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) O[i] *= alpha[i / 2 % 2];
  }

  // Starts the product of weights in registers with a tile's values.
  __device__ __forceinline__ void start_adding(const uint32_t (&P)[KEYS / WGMMA_K][4], int stage) {
    const uint64_t V_start = wgmma_descriptor(values(stage), PANEL_BYTES);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < KEYS / WGMMA_K; ++step)
      wgmma_m64n256k16_rs_bt(O, P[step], wgmma_descriptor_after(V_start, step * WGMMA_K * PANEL_ROW_BYTES), true);
    wgmma_commit();
  }

  // Starts the product of the weights in shared memory with a tile's values.
  __device__ __forceinline__ void start_adding(int stage) {
    const uint64_t P_start = wgmma_descriptor(memory.weights()), V_start = wgmma_descriptor(values(stage), PANEL_BYTES);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < KEYS / WGMMA_K; ++step)
      wgmma_m64n256k16_ss_bt(O, wgmma_descriptor_after(P_start, step * WGMMA_K * 2),
                             wgmma_descriptor_after(V_start, step * WGMMA_K * PANEL_ROW_BYTES), true);
    wgmma_commit();
  }

  // Clears a tile's values from row `row` on: after the sequence's end there may be NaN, which a weight of 0 does not
  // remove.
  __device__ __forceinline__ void clear_values(int stage, int row) const {
    for (int i = row * 8 + threadIdx.x % WARPGROUP; i < KEYS * 8; i += WARPGROUP)
#pragma unroll
      for (int panel = 0; panel < HALF_PANELS; ++panel)
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};\n" ::"r"(values(stage) + panel * PANEL_BYTES + i * 16),
                     "r"(0)
                     : "memory");
    async_proxy_fence();
    named_barrier_sync(GROUP_MEETS + !LEFT_HALF, WARPGROUP);
  }

  __device__ __forceinline__ void store_part(const Part& part, const Stripe& stripe) const {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first_row() + 8 * h;
      if (row >= stripe.rows) continue;
      float* const to = part.O + row * VALUE_DIM + (LEFT_HALF ? 0 : HALF_DIM) + 2 * (lane & 3);
#pragma unroll
      for (int n = 0; n < HALF_DIM / 8; ++n)
        *reinterpret_cast<float2*>(to + 8 * n) = make_float2(O[4 * n + 2 * h], O[4 * n + 2 * h + 1]);
      if (LEFT_HALF && (lane & 3) == 0) part.max_and_sum[row] = max_and_sum[h];
    }
  }

  // Stores O of a sequence that no other CTA has a part of. Neighbouring lanes trade pairs of columns, so that each has
  // four next to each other.
  __device__ __forceinline__ void store_whole(const Cache& cache, const Stripe& stripe) const {
    const int lane = threadIdx.x % WARP;
    const bool odd = lane & 1;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first_row() + 8 * h;
      const float norm = max_and_sum[h].y > 0.0f ? 1.0f / max_and_sum[h].y : 0.0f;
      Element* const to = cache.O + (stripe.row_of_Q(cache, 0) + row) * VALUE_DIM + (LEFT_HALF ? 0 : HALF_DIM) +
                          (odd ? 8 : 0) + (lane & 2) * 2;
#pragma unroll
      for (int n = 0; n < HALF_DIM / 8; n += 2) {
        const uint32_t first = pack_elements(O[4 * n + 2 * h] * norm, O[4 * n + 2 * h + 1] * norm);
        const uint32_t second = pack_elements(O[4 * n + 4 + 2 * h] * norm, O[4 * n + 5 + 2 * h] * norm);
        const uint32_t received = __shfl_xor_sync(0xffffffffu, odd ? first : second, 1);
        if (row < stripe.rows)
          *reinterpret_cast<uint2*>(to + 8 * n) = odd ? make_uint2(received, second) : make_uint2(first, received);
      }
      if (LEFT_HALF && (lane & 3) == 0 && row < stripe.rows) {
        const int r = stripe.first_row + row, head = r % cache.heads, query = r / cache.heads;
        cache.LSE[(size_t(stripe.sequence) * cache.heads + head) * cache.queries + query] =
            max_and_sum[h].y > 0.0f ? (max_and_sum[h].x + log2f(max_and_sum[h].y)) * LN_2 : -INFINITY;
      }
    }
  }

  __device__ __forceinline__ void store(const Cache& cache, const Stripe& stripe, const Share& share) const {
    if (share.taken == share.rounds)
      store_whole(cache, stripe);
    else
      store_part(Part(cache, blockIdx.x, share.done == 0, false), stripe);
  }
};

}  // namespace latent_tiles
