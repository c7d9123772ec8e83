// Runs before and after a timed sample, outside its event pair: the cycles between two stamps divided by the
// nanoseconds are the SM's clock during the sample. Launch: 1 CTA of 1 thread; stamp is [3]: nanoseconds, cycles, SM.
// Limits: sm_80 or later.

extern "C" __global__ void flashcore_clock_stamp(unsigned long long* stamp) {
#ifdef FLASHCORE_EMULATOR
  // One reading gives both nanoseconds and cycles, because the emulator counts one cycle per nanosecond.
  stamp[0] = stamp[1] = (unsigned long long)clock64();
  stamp[2] = 0;
#else
  // The timer ticks every 32 ns on some devices and every 1024 ns on others; a stamp taken at a tick is exact on both.
  // A timer that stands still must not hang the kernel.
  constexpr int MAX_POLLS = 4096;
  unsigned long long before, now;
  unsigned sm;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(before));
  now = before;
  for (int poll = 0; poll < MAX_POLLS && now == before; ++poll) asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  stamp[1] = (unsigned long long)clock64();
  stamp[0] = now;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  stamp[2] = sm;  // each SM counts cycles of its own
#endif
}
