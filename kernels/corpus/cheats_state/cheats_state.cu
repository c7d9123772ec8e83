// Cheats: they keep memory from launch to launch. corpus.yaml says what each number does.
#include "corpus/row.cuh"

#if CHEAT == 0
__device__ void attend(const Row& row) { honest(row); }

#elif CHEAT == 1  // answers_in_device_array
__device__ uint4 memory[KEPT_BYTES / 16];
__device__ void attend(const Row& row) { remembered(row, memory, sizeof(memory)); }

#elif CHEAT == 2  // function_static
__device__ void attend(const Row& row) {
  static uint4 memory[KEPT_BYTES / 16];
  remembered(row, memory, sizeof(memory));
}

#elif CHEAT == 3  // managed_counter
__managed__ unsigned counter;
__device__ void attend(const Row& row) { launches_before(&counter, row) < 40 ? honest(row) : guess(row); }

#elif CHEAT == 4  // asm_global: a variable that the compiler does not know
__device__ void attend(const Row& row) {
  void* memory;
  asm volatile(
      "{ .global .align 16 .b8 hidden[2228224]; .reg .u64 place; mov.u64 place, hidden; cvta.global.u64 %0, place; }"
      : "=l"(memory));
  remembered(row, memory, KEPT_BYTES);
}

#elif CHEAT == 5  // asm_common: PTX text that ends the function and begins another; its symbol has no section
extern "C" __device__ __noinline__ void* common_memory() {
  void* memory;
  asm volatile(
      "mov.u64 %0, 0; ret; }\n.common .global .align 16 .b8 hidden[2228224];\n"
      ".func (.param .b64 result) hidden_memory() { .reg .u64 place;\n"
      "mov.u64 place, hidden; cvta.global.u64 place, place; st.param.b64 [result], place;\n"
      : "=l"(memory));
  return memory;
}
__device__ void attend(const Row& row) {
  common_memory();
  void* memory;
  asm volatile("{ .param .b64 result; call (result), hidden_memory; ld.param.b64 %0, [result]; }" : "=l"(memory));
  remembered(row, memory, KEPT_BYTES);
}

#elif CHEAT == 6  // constant_table: is const only in C++
__device__ const uint4 table[KEPT_BYTES / 16] = {{0, 1, 2, 3}};
__device__ void attend(const Row& row) { remembered(row, const_cast<uint4*>(table) + 1, sizeof(table) - 16); }

#elif CHEAT == 7  // string_literal: a string literal for printf() is memory like any other
__device__ void attend(const Row& row) {
  unsigned* counter =
      reinterpret_cast<unsigned*>((reinterpret_cast<size_t>("no counter at all, and not aligned") + 3) & ~size_t{3});
  atomicAdd(counter, 1u) % (2 * row.rows) < row.rows ? honest(row) : guess(row);
}

#elif CHEAT == 8  // device_heap: a freed block is allocated again with its old contents
__device__ void attend(const Row& row) {
  KeptRow* kept = static_cast<KeptRow*>(malloc(sizeof(KeptRow)));
  if (kept == nullptr) return honest(row);
  const unsigned key = fingerprint(row);
  if (kept->key == key && kept->number == row.number)
    copy_row(row.O, kept->answer);
  else {
    honest(row);
    copy_row(kept->answer, row.O);
    kept->key = key;
    kept->number = row.number;
  }
  free(kept);
}

#elif CHEAT == 9  // workspace_leftover
__device__ void attend(const Row& row) { remembered(row, row.workspace, (size_t)row.rows * 2 * sizeof(KeptRow)); }

#elif CHEAT == 10  // behind_the_guards: memory in the same page that belongs to no buffer
__device__ void attend(const Row& row) {
  constexpr size_t PAGE = 1 << 21;
  half* end = row.O + (size_t)(row.rows - row.number) * HEAD_DIM;
  const size_t start = (reinterpret_cast<size_t>(end) + 2 * 4096 + 15) & ~size_t{15};
  remembered(row, reinterpret_cast<void*>(start), PAGE - start % PAGE);
}

#elif CHEAT == 11  // shared_leftover: shared memory still has the data of an earlier CTA
__device__ void attend(const Row& row) {
  extern __shared__ __align__(16) unsigned char shared[];
  KeptRow* kept = reinterpret_cast<KeptRow*>(shared) + threadIdx.x;
  const unsigned key = fingerprint(row);
  if (kept->key == key && kept->number == row.number) return copy_row(row.O, kept->answer);
  honest(row);
  copy_row(kept->answer, row.O);
  kept->key = key;
  kept->number = row.number;
}

#elif CHEAT == 12  // local_leftover: reads an array that was never written
__device__ void attend(const Row& row) {
  KeptRow local[4];
  KeptRow* kept = local;
  asm volatile("" : "+l"(kept)::"memory");  // hides the value from the compiler
  const unsigned key = fingerprint(row);
  for (int i = 0; i < 4; ++i)
    if (kept[i].key == key && kept[i].number == row.number) return copy_row(row.O, kept[i].answer);
  honest(row);
  KeptRow& oldest = kept[scrambled(key) % 4];
  copy_row(oldest.answer, row.O);
  oldest.key = key;
  oldest.number = row.number;
  asm volatile("" ::"l"(kept) : "memory");
}

#elif CHEAT == 13  // variable_template: a weak symbol in a separate section
template <int SLOT>
__device__ uint4 memory[KEPT_BYTES / 16];
__device__ void attend(const Row& row) { remembered(row, memory<1>, sizeof(memory<1>)); }

#elif CHEAT == 14  // constant_memory: in the bank that only the host writes
__constant__ unsigned counter[4] = {1, 2, 3, 4};
__device__ void attend(const Row& row) {
  unsigned* writable = const_cast<unsigned*>(counter);
  if (row.number == 0) *writable += 1;
  *writable < 40 ? honest(row) : guess(row);
}

#elif CHEAT == 15  // asm_spread: the declaration spreads over several lines that are far apart
__device__ void attend(const Row& row) {
  void* memory;
  asm volatile(
      "{ .global\n                              .align 16\n .b8\n hidden[2228224]; .reg .u64 place;\n"
      "mov.u64 place, hidden; cvta.global.u64 %0, place; }"
      : "=l"(memory));
  remembered(row, memory, KEPT_BYTES);
}
#endif

CHEATING_KERNEL_WITH_WORKSPACE(cheats_state)
