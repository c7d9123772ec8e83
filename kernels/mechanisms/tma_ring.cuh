// A ring of stages for tiles of K and V between one thread that starts TMA copies and the warpgroups that read the
// tiles, and the tile of Q.
#pragma once
#include <cstdint>

#include "primitives/mbarrier.cuh"
#include "primitives/tma.cuh"

constexpr int PANEL = 64;  // columns of a tile as TMA writes it: 128 bytes, the widest swizzle
constexpr int PANEL_ROW_BYTES = 128;

// The barriers of a CTA, by address. full: the bytes have arrived. empty: every reader is done.
template <int STAGES, int CONSUMERS, int READERS>
struct RingBarriers {
  static constexpr int BYTES = 8 * (2 + 4 * STAGES);
  uint32_t base;
  __device__ __forceinline__ uint32_t Q_full() const { return base; }
  __device__ __forceinline__ uint32_t K_full(int stage) const { return base + 8 + 8 * stage; }
  __device__ __forceinline__ uint32_t V_full(int stage) const { return base + 8 + 8 * (STAGES + stage); }
  __device__ __forceinline__ uint32_t Q_empty() const { return base + 8 + 16 * STAGES; }
  __device__ __forceinline__ uint32_t K_empty(int stage) const { return Q_empty() + 8 + 8 * stage; }
  __device__ __forceinline__ uint32_t V_empty(int stage) const { return Q_empty() + 8 + 8 * (STAGES + stage); }

  // Called by the thread that will start the copies. CONSUMERS warpgroups read Q, and READERS of them read a tile of
  // keys. (With a barrier and a fence per lane of a whole warp, (2,8,512,64,n) took 6.7 instead of 6.1 us, H200.)
  __device__ __forceinline__ void initialise() const {
    mbarrier_init(Q_full(), 1);
    mbarrier_init(Q_empty(), CONSUMERS);
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(K_full(stage), 1);
      mbarrier_init(V_full(stage), 1);
      mbarrier_init(K_empty(stage), READERS);
      mbarrier_init(V_empty(stage), READERS);
    }
    mbarrier_init_fence();
  }
};

// A position in the ring of stages. The parity flips with every lap.
template <int STAGES>
struct RingPlace {
  int stage = 0, parity = 0;
  __device__ __forceinline__ void step(int places) {  // at most one lap
    stage += places;
    if (stage >= STAGES) stage -= STAGES, parity ^= 1;
  }
};

// Copies ROWS rows of PANELS x 64 columns, panel by panel,
// from first_row of a head on. Rows past the end become zeros.
template <int ROWS, int PANELS>
__device__ __forceinline__ void load_tile(uint32_t tile_smem, const CUtensorMap* map, uint32_t full, int first_row,
                                          int head) {
  mbarrier_arrive_expect_bytes(full, PANELS * ROWS * PANEL_ROW_BYTES);
#pragma unroll
  for (int panel = 0; panel < PANELS; ++panel)
    tma_load_3d(tile_smem + panel * ROWS * PANEL_ROW_BYTES, map, full, panel * PANEL, first_row, head);
}

// As above, with a map that has a separate dimension for batches.
template <int ROWS, int PANELS>
__device__ __forceinline__ void load_tile(uint32_t tile_smem, const CUtensorMap* map, uint32_t full, int first_row,
                                          int head, int batch) {
  mbarrier_arrive_expect_bytes(full, PANELS * ROWS * PANEL_ROW_BYTES);
#pragma unroll
  for (int panel = 0; panel < PANELS; ++panel)
    tma_load_4d(tile_smem + panel * ROWS * PANEL_ROW_BYTES, map, full, panel * PANEL, first_row, head, batch);
}
