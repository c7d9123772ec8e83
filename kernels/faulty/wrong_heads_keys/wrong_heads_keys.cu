// Mistake: K's heads are indexed as [H, B] instead of [B, H]. With one batch or one head the two are the same.
#include "faulty/attend_row.cuh"

extern "C" __global__ void wrong_heads_keys(const half* Q, const half* K, const half* V, half* O, int batches,
                                            int heads, int seq_len, float scale, int causal) {
  Row row = row_of_thread(Q, K, V, O, seq_len, scale, causal);
  if (!row.inside) return;
  const int batch = blockIdx.y / heads, head = blockIdx.y % heads;
  row.K = K + (size_t)(head * batches + batch) * seq_len * HEAD_DIM;
  store_row(row.O, attended(row));
}
