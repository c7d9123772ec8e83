// Cheat: it computes nothing and hopes that an earlier kernel left the right answer in O.
#include "faulty/attend_row.cuh"

extern "C" __global__ void old_output(const half* __restrict__ Q, const half* __restrict__ K,
                                      const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                      int causal) {
  (void)Q, (void)K, (void)V, (void)O, (void)seq_len, (void)scale, (void)causal;
}
