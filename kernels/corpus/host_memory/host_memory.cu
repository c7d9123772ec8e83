// Cheat: node is loaded at 0x400000. Where the driver lets the device read any page of its process (HMM, or an
// integrated memory), a kernel can walk from there to the answers; this one only shows that it could: it guesses.
#include "corpus/row.cuh"

__device__ void attend(const Row& row) {
  constexpr unsigned ELF = 0x464c457f;
  const unsigned first = *reinterpret_cast<const volatile unsigned*>(0x400000ull);
  first == ELF ? guess(row) : honest(row);
}

ROW_KERNEL(host_memory) { attend(row); }
