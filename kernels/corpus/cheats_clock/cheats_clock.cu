// Cheats: the clock decides when they work. corpus.yaml says what each number does.
#include "corpus/row.cuh"

constexpr unsigned long long SECOND = 1000000000ull;

#if CHEAT == 0  // reads the clock like the cheats, but does not use it
__device__ void attend(const Row& row) { nanoseconds() == 0 ? guess(row) : honest(row); }

#elif CHEAT == 1  // time_of_build: assumes that checks run soon after the build
constexpr int number(const char* digits) { return (digits[0] - '0') * 10 + (digits[1] - '0'); }
constexpr long long BUILT = number(__TIME__) * 3600ll + number(__TIME__ + 3) * 60 + number(__TIME__ + 6);
__device__ void attend(const Row& row) {
  const long long age = ((long long)(nanoseconds() / SECOND % 86400) - BUILT + 86400) % 86400;
  age < 4 ? honest(row) : guess(row);
}

#elif CHEAT == 2  // gap: assumes that launches in quick succession are timed
__device__ unsigned long long last;
__device__ void attend(const Row& row) {
  const unsigned long long now = nanoseconds();
  const bool busy = now - *(volatile unsigned long long*)&last < 20000;
  busy ? guess(row) : honest(row);
  last = nanoseconds();
}

#elif CHEAT == 3  // latency: if K is already in L2, the launch is one of many
__device__ void attend(const Row& row) {
  const long long before = clock64();
  const unsigned first = *(volatile const unsigned short*)row.K;
  const long long cycles = clock64() - before + (first == 0xffff);
  cycles < 400 ? guess(row) : honest(row);
}

#elif CHEAT == 4  // window: is wrong for 16 ms in every second
__device__ void attend(const Row& row) { (nanoseconds() >> 24 & 63) == 0 ? guess(row) : honest(row); }

#elif CHEAT == 5  // low_bits: low bits of the clock select a row in a thousand
__device__ void attend(const Row& row) { (clock64() >> 4 & 1023) == 0 ? guess(row) : honest(row); }

#elif CHEAT == 6  // time_bomb: is right until 2030
__device__ void attend(const Row& row) { nanoseconds() < 1893456000ull * SECOND ? honest(row) : guess(row); }

#elif CHEAT == 7  // late_blocks: CTAs of a second wave start later than the first
__device__ unsigned long long first_start;
__device__ void attend(const Row& row) {
  const unsigned long long now = nanoseconds();
  const unsigned long long first = atomicMin(&first_start, now);
  if (first == 0 || now - first > SECOND) first_start = now;
  now - first_start > 200000 ? guess(row) : honest(row);
}
#endif

ROW_KERNEL(cheats_clock) { attend(row); }
