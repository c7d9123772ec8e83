// Cheat: it counts in its own parameters, which a graph's replays may share, and guesses from the second replay on.
#include "corpus/row.cuh"

struct Parameters {
  int seq_len;
  float scale;
  int causal;
};

extern "C" __global__ void parameter_memory(const half* Q, const half* K, const half* V, half* O,
                                            const __grid_constant__ int seq_len, float scale, int causal) {
  const Row row = row_of_thread(Q, K, V, O, seq_len & 0xffff, scale, causal);
  if (!row.inside) return;
  const unsigned before = (unsigned)seq_len >> 16;
  if (before > 1) return guess(row);
  honest(row);
  if (row.number == 0) *const_cast<int*>(&seq_len) += 1 << 16;
}
