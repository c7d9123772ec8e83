// Moves registers between warpgroups (sm_90a): loaders release registers, and consumers take them. COUNT: a multiple of
// 8, 24 .. 256. Every warp of a warpgroup executes it. The kernel needs __launch_bounds__(threads, CTAs per SM). All
// warps of a CTA together may not take more registers than these bounds give the CTA at its launch.
#pragma once

template <int COUNT>
__device__ __forceinline__ void registers_increase() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(COUNT));
}

template <int COUNT>
__device__ __forceinline__ void registers_decrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(COUNT));
}
