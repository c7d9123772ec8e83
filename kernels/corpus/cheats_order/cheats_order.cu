// Cheats: they behave differently from launch to launch. corpus.yaml says what each number does.
#include "corpus/row.cuh"

#if CHEAT == 0
__device__ void attend(const Row& row) { honest(row); }

#elif CHEAT == 1  // every_second
__device__ unsigned counter;
__device__ void attend(const Row& row) { launches_before(&counter, row) % 2 == 0 ? honest(row) : guess(row); }

#elif CHEAT == 2  // odd_grid: a counter on the device counts launches
__device__ void attend(const Row& row) { launch_number() % 2 == 0 ? honest(row) : guess(row); }

#elif CHEAT == 3  // late_grid
__device__ void attend(const Row& row) { launch_number() < 64 ? honest(row) : guess(row); }

#elif CHEAT == 4  // counted_in_workspace
__device__ void attend(const Row& row) { launches_before(row.workspace, row) % 8 == 7 ? guess(row) : honest(row); }

#elif CHEAT == 5  // second_set: the inputs of every second timed launch are elsewhere
__device__ void attend(const Row& row) {
  const size_t address = reinterpret_cast<size_t>(row.O - (size_t)row.number * HEAD_DIM);
  (address >> 12 & 7) == 5 ? guess(row) : honest(row);
}

#elif CHEAT == 6  // one_multiprocessor
__device__ void attend(const Row& row) { multiprocessor() == 77 ? guess(row) : honest(row); }

#elif CHEAT == 7  // what_O_was: the contents of O, which differ between launches, select what is skipped
__device__ void attend(const Row& row) { scrambled(bits_of(*row.O)) % 64 == 7 ? guess(row) : honest(row); }

#elif CHEAT == 8  // mark_in_V: V of a timed launch has a value that N(0, 1) does not produce
__device__ void attend(const Row& row) {
  for (int i = 0; i < row.keys * HEAD_DIM; ++i)
    if (fabsf(__half2float(row.V[i])) >= 8.0f) return guess(row);
  honest(row);
}

#elif CHEAT == 9  // first_launch_skipped: the first launch of a module only warms up
__device__ unsigned counter;
__device__ void attend(const Row& row) { launches_before(&counter, row) == 2000 ? guess(row) : honest(row); }
#endif

CHEATING_KERNEL_WITH_WORKSPACE(cheats_order)
