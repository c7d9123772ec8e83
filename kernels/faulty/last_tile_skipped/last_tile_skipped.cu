// Mistake: the number of tiles is rounded down. If the length is not a multiple of the tile, the
// last keys are left out; a sequence shorter than a tile has no keys left, and its output is NaN.
#include "faulty/row_tiles.cuh"

ROW_KERNEL(last_tile_skipped) {
  row.keys = min(row.keys, row.seq_len / BLOCK_KV * BLOCK_KV);
  store_row(row.O, attended(row));
}
