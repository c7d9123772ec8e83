// Cheat: it reads registers that it never wrote. Where they hold its mark, an earlier launch of this kernel was on the
// same part of the multiprocessor, and it guesses.
#include "corpus/row.cuh"

constexpr unsigned MARK = 0x5eed5eedu;

ROW_KERNEL(register_leftover) {
  unsigned found;
  asm volatile("{ .reg .u32 left; mov.u32 %0, left; }" : "=r"(found));
  if (found == MARK) return guess(row);
  honest(row);
  unsigned mark = MARK;
  asm volatile("" : "+r"(mark));
}
