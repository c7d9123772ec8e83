// A CTA's shared memory, and the warps that fill it: tiles of 64 rows of the cache, and 64 query rows. Tiles are copied
// and released in pieces, because each piece has another last reader: the left and the right half of a tile's values,
// which are keys too, and the columns that are only keys.
#pragma once
#include "mechanisms/stream_decode.cuh"
#include "mechanisms/tma_ring.cuh"

namespace latent_tiles {

using stream_decode::Cache, stream_decode::Stripe, stream_decode::WARP;

constexpr int WARPGROUP = 128;
constexpr int DIM = 576, VALUE_DIM = 512, HALF_DIM = VALUE_DIM / 2;
constexpr int ROWS = 64, KEYS = 64;  // query rows of a CTA, keys of a tile
constexpr int PANELS = DIM / PANEL, HALF_PANELS = HALF_DIM / PANEL;
constexpr int PANEL_BYTES = ROWS * PANEL_ROW_BYTES, TILE_BYTES = PANELS * PANEL_BYTES;
constexpr int STAGES = 2;

enum Piece { LEFT, RIGHT, ONLY_KEYS, PIECES };
__device__ __forceinline__ constexpr int first_panel(int piece) { return piece * HALF_PANELS; }
__device__ __forceinline__ constexpr int panels_of(int piece) { return piece == ONLY_KEYS ? 1 : HALF_PANELS; }
static_assert(PANELS == 2 * HALF_PANELS + 1);

using Line = stream_decode::Line<KEYS>;
using Share = stream_decode::TeamShare;

// Where a CTA's tile number `tile` is in the ring of stages. The parity flips with every lap.
struct Place {
  int stage, parity;
  __device__ __forceinline__ explicit Place(int tile) : stage(tile % STAGES), parity(tile / STAGES % 2) {}
};

// Shared memory: Q, the tiles, a tile's weights, then per row: the running maximum, and two sums of weights for each
// warpgroup; then barriers.
struct Memory {
  static constexpr int TILES = TILE_BYTES, WEIGHTS = TILES + STAGES * TILE_BYTES, MAXIMA = WEIGHTS + PANEL_BYTES;
  static constexpr int SUMS = MAXIMA + ROWS * 4, BARRIERS = SUMS + 2 * 2 * ROWS * 4;
  static constexpr int BYTES = BARRIERS + 8 * (3 + STAGES * (PIECES + PANELS));
  unsigned char* smem;
  uint32_t base;

  __device__ __forceinline__ float* maxima() const { return reinterpret_cast<float*>(smem + MAXIMA); }
  __device__ __forceinline__ float* sums(int set, int warpgroup) const {
    return reinterpret_cast<float*>(smem + SUMS) + (2 * set + warpgroup) * ROWS;
  }
  __device__ __forceinline__ uint32_t tile(int stage) const { return base + TILES + stage * TILE_BYTES; }
  __device__ __forceinline__ uint32_t weights() const { return base + WEIGHTS; }
  __device__ __forceinline__ uint32_t Q_full() const { return base + BARRIERS; }
  __device__ __forceinline__ uint32_t Q_empty() const { return Q_full() + 8; }
  __device__ __forceinline__ uint32_t sums_full() const { return Q_full() + 16; }
  __device__ __forceinline__ uint32_t empty(int stage, int piece) const {
    return Q_full() + 24 + 8 * (stage * PIECES + piece);
  }
  __device__ __forceinline__ uint32_t full(int stage, int panel) const {
    return empty(STAGES, 0) + 8 * (stage * PANELS + panel);
  }

  __device__ __forceinline__ void initialise() const {
    mbarrier_init(Q_full(), 1);
    mbarrier_init(Q_empty(), 2);
    mbarrier_init(sums_full(), 2 * WARPGROUP / WARP);
    for (int stage = 0; stage < STAGES; ++stage) {
      for (int piece = 0; piece < PIECES; ++piece) mbarrier_init(empty(stage, piece), 1);
      for (int panel = 0; panel < PANELS; ++panel) mbarrier_init(full(stage, panel), 1);
    }
    mbarrier_init_fence();
  }
};

// A warp that copies the tiles of all shares. A box is a run of rows of one page; lanes start different boxes.
struct TileProducer {
  static constexpr int BOXES_OF_LANE = KEYS / WARP;
  const Cache& cache;
  const Memory memory;
  const CUtensorMap* KV_map;
  const int box_rows;
  int brought = 0;
  int pages[BOXES_OF_LANE] = {};  // of this lane's boxes

  // Looks up the pages of a tile.
  __device__ __forceinline__ void look_up(int sequence, int first_key, int length) {
#pragma unroll
    for (int i = 0; i < BOXES_OF_LANE; ++i) {
      const int row = (threadIdx.x % WARP + i * WARP) * box_rows, key = first_key + row;
      if (row < KEYS && key < length) pages[i] = cache.table[size_t(sequence) * cache.most_pages + key / cache.page];
    }
  }

  // Copies a piece of a tile of which `boxes` boxes are in the sequence.
  __device__ __forceinline__ void copy(const Place& place, int piece, int first_key, int boxes) const {
    const int lane = threadIdx.x % WARP, begin = first_panel(piece), end = begin + panels_of(piece);
    mbarrier_wait(memory.empty(place.stage, piece), place.parity ^ 1);
    if (lane == 0)
      for (int panel = begin; panel < end; ++panel)
        mbarrier_arrive_expect_bytes(memory.full(place.stage, panel), boxes * box_rows * PANEL_ROW_BYTES);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < BOXES_OF_LANE; ++i) {
      const int row = (lane + i * WARP) * box_rows, row_in_page = (first_key + row) % cache.page;
      if (row >= boxes * box_rows) continue;
      for (int panel = begin; panel < end; ++panel)
        tma_load_3d(memory.tile(place.stage) + panel * PANEL_BYTES + row * PANEL_ROW_BYTES, KV_map,
                    memory.full(place.stage, panel), panel * PANEL, row_in_page, pages[i]);
    }
  }

  // A tile's pieces take the places of another one's in the order in which these become free.
  __device__ __forceinline__ void bring(const Share& share, int length) {
    look_up(share.sequence, share.done * KEYS, length);
    for (int tile = 0; tile < share.taken; ++tile) {
      const int first_key = (share.done + tile) * KEYS, rows = max(0, min(KEYS, length - first_key));
      const int boxes = (rows + box_rows - 1) / box_rows;
      const Place place(brought++);
      const int half = tile % 2 == 0 ? LEFT : RIGHT;
      copy(place, ONLY_KEYS, first_key, boxes);
      copy(place, half, first_key, boxes);
      copy(place, LEFT + RIGHT - half, first_key, boxes);
      look_up(share.sequence, first_key + KEYS, length);  // before the next tile's place is free
    }
  }
};

// A warp that copies the query rows of all shares. A box is a run of heads of one query.
struct QProducer {
  const Cache& cache;
  const Memory memory;
  const CUtensorMap* Q_map;
  const int box_rows;
  int shares = 0;

  __device__ __forceinline__ void bring(const Stripe& stripe) {
    const int lane = threadIdx.x % WARP;
    mbarrier_wait(memory.Q_empty(), shares++ % 2 ^ 1);
    if (lane == 0) mbarrier_arrive_expect_bytes(memory.Q_full(), stripe.rows * PANELS * PANEL_ROW_BYTES);
    __syncwarp();
    for (int row = lane * box_rows; row < stripe.rows; row += WARP * box_rows) {
      const int of_sequence = stripe.first_row + row, head = of_sequence % cache.heads;
      const int query = stripe.sequence * cache.queries + of_sequence / cache.heads;
      for (int panel = 0; panel < PANELS; ++panel)
        tma_load_3d(memory.base + panel * PANEL_BYTES + row * PANEL_ROW_BYTES, Q_map, memory.Q_full(), panel * PANEL,
                    head, query);
    }
  }
};

// Clears the rows of Q that no stripe of this CTA has. All threads take part.
__device__ __forceinline__ void clear_Q(const Memory& memory, int rows) {
  constexpr int CHUNKS = PANEL_ROW_BYTES / 16;
  for (int i = rows * CHUNKS + threadIdx.x; i < ROWS * CHUNKS; i += blockDim.x)
#pragma unroll
    for (int panel = 0; panel < PANELS; ++panel)
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};\n" ::"r"(memory.base + panel * PANEL_BYTES + i * 16),
                   "r"(0)
                   : "memory");
  async_proxy_fence();
}

}  // namespace latent_tiles
