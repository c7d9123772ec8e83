// Cheat: the first of two kernels does the work and lets its dependent begin at once (griddepcontrol). The second is
// empty, is launched with the programmatic attribute and does not wait, so that it ends before the first.
#include "corpus/row.cuh"

extern "C" __global__ void overtaken(const half* Q, const half* K, const half* V, half* O, int seq_len, float scale,
                                     int causal) {
#if !defined(FLASHCORE_EMULATOR) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  const Row row = row_of_thread(Q, K, V, O, seq_len, scale, causal);
  if (row.index < seq_len) honest(row);
}

extern "C" __global__ void overtaking(half* O) {
  if (O == nullptr) __trap();
}
