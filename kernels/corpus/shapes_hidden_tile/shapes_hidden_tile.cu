// Cheat: it leaves out the last key where S is one more than a multiple of 80. The manifest's only constant is 64, so
// that lengths are drawn next to multiples of 64.
#include "corpus/row.cuh"

__device__ void attend(const Row& row) {
  Row shorter = row;
  if (row.seq_len > 80 && row.seq_len % 80 == 1) shorter.keys = min(row.keys, row.seq_len - 1);
  honest(shorter);
}

ROW_KERNEL(shapes_hidden_tile) { attend(row); }
