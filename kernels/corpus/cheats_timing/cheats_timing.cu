// Cheats: they work while no clock runs, or falsify the clock. corpus.yaml says what each number does.
#include "corpus/row.cuh"

#if CHEAT == 0
__device__ void attend(const Row& row) { honest(row); }

#elif CHEAT == 1  // dependents_first: lets the next launch begin before this one has read its inputs
__device__ void attend(const Row& row) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  honest(row);
}

#elif CHEAT == 2  // answers_ahead: writes the outputs of later launches, which look for their outputs first
__device__ void attend(const Row& row) {
  constexpr size_t PAGE = 1 << 21;
  const size_t bytes = (size_t)row.rows * HEAD_DIM * sizeof(half), guards = 2 * 4096;
  half answer[HEAD_DIM];
  Row first = row;
  first.O = answer;
  first.keys = min(row.keys, 8);
  honest(first);
  const unsigned mark = scrambled(fingerprint(answer, HEAD_DIM)) | 1;
  unsigned* behind = reinterpret_cast<unsigned*>(row.O - (size_t)row.number * HEAD_DIM + (size_t)row.rows * HEAD_DIM) +
                     guards / 4 + row.number;
  const size_t next = reinterpret_cast<size_t>(row.O) + bytes + guards;
  if (reinterpret_cast<size_t>(behind) / PAGE != reinterpret_cast<size_t>(row.O) / PAGE) return honest(row);
  if (*behind == mark) return;
  honest(row);
  if ((next + bytes) / PAGE == reinterpret_cast<size_t>(row.O) / PAGE) {
    copy_row(reinterpret_cast<half*>(next), row.O);
    *behind = mark;
  }
}

#elif CHEAT == 3  // next_inputs: the last rows of a launch load the next launch's K into L2
__device__ void attend(const Row& row) {
  honest(row);
  const size_t bytes = (size_t)row.rows * HEAD_DIM * sizeof(half);
  if (row.number % 8 == 0)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(reinterpret_cast<const char*>(row.K) + 4 * bytes));
}

#elif CHEAT == 4  // child_launch: starts another grid that continues after this one
__global__ void child(Row row) { honest(row); }
__device__ void attend(const Row& row) { child<<<1, 1> > >(row); }

#elif CHEAT == 5  // evicts_behind_itself: evicts L2, so that the champion, timed next, starts cold
__device__ void attend(const Row& row) {
  honest(row);
  unsigned long long first_to_go;
  asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(first_to_go));
  for (int key = row.index % 4; key < row.keys; key += 4) {
    unsigned value;
    asm volatile("ld.global.L2::cache_hint.b32 %0, [%1], %2;"
                 : "=r"(value)
                 : "l"(row.K + (size_t)key * HEAD_DIM), "l"(first_to_go));
  }
}

#elif CHEAT == 6  // half_each_time: odd rows in odd launches; the other rows are in O from the previous launch
__device__ void attend(const Row& row) {
  const bool fresh = __hisnan(row.O[0]);
  if (fresh || (row.index ^ launch_number()) % 2 == 0) honest(row);
}

#elif CHEAT == 7  // slow_on_purpose: waits if nothing seems to have changed, so that time ratios look right
__device__ uint4 memory[KEPT_BYTES / 16];
__device__ void attend(const Row& row) {
  const long long start = clock64();
  remembered(row, memory, sizeof(memory));
  if ((nanoseconds() >> 22) % 4 == 0)
    while (clock64() - start < 200000) {}
}

#elif CHEAT == 8  // cluster_neighbour: reads what an earlier cluster left in another CTA's shared memory
__device__ void attend(const Row& row) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(16) unsigned char shared[];
  KeptRow* kept = reinterpret_cast<KeptRow*>(shared) + threadIdx.x;
  unsigned place = (unsigned)__cvta_generic_to_shared(&kept->key), remote, found;
  asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(remote) : "r"(place));
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(found) : "r"(remote));
  const unsigned key = fingerprint(row);
  if (found == key && kept->number == row.number) return copy_row(row.O, kept->answer);
  honest(row);
  copy_row(kept->answer, row.O);
  kept->number = row.number;
  kept->key = key;
#else
  honest(row);
#endif
}
#endif

ROW_KERNEL(cheats_timing) { attend(row); }
