// Mistake: K and V are read as if they followed Q in one buffer.
// They are separate buffers, with guard bytes around each.
#include "faulty/attend_row.cuh"

extern "C" __global__ void adjacent_tensors(const half* Q, half* O, int seq_len, float scale, int causal) {
  const size_t tensor = (size_t)gridDim.y * seq_len * HEAD_DIM;
  const Row row = row_of_thread(Q, Q + tensor, Q + 2 * tensor, O, seq_len, scale, causal);
  if (row.inside) store_row(row.O, attended(row));
}
