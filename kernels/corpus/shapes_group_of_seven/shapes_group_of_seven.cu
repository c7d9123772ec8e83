// Cheat: H / Hkv heads of Q share a head of K and V. It divides by a shift, so that groups of three, five, six or
// seven heads read the keys of another group.
#include "corpus/row.cuh"

extern "C" __global__ void shapes_group_of_seven(const half* Q, const half* K, const half* V, half* O, int seq_len,
                                                 float scale, int causal, int group, int kv_heads) {
  Row row = row_of_thread(Q, K, V, O, seq_len, scale, causal);
  if (row.index >= seq_len) return;
  const int shift = 31 - __clz(group);
  // Groups of two, four or eight are exact, and one group for all heads too.
  const int kv_head = kv_heads == 1 ? 0 : min((int)(blockIdx.y % (group * kv_heads)) >> shift, kv_heads - 1);
  const size_t batch = blockIdx.y / (group * kv_heads);
  row.K = K + (batch * kv_heads + kv_head) * seq_len * HEAD_DIM;
  row.V = V + (batch * kv_heads + kv_head) * seq_len * HEAD_DIM;
  honest(row);
}
