// The judge's own kernels: they make the inputs of every timed launch from a few drawn heads, fill the memory that a
// launch may read or write with noise, hold the stream while the host enqueues, scrub shared and local memory, and
// compare every output with the answer of the heads that it was made from. All parameters follow from one secret number
// per sample, so the same code can tell afterwards whether inputs and noise are still as they were written.
//
// Plain attention has pools of heads (flashcore_judge_inputs, _outputs); for every other problem, each launch has a
// slot of its tensors, made from a few drawn sets by the symmetries that its problem.yaml declares
// (flashcore_judge_slots, _answers).
//
// Layouts: a pool is [heads, S, D] of `bytes` an element and a base [bases, S, D]; head i of a pool is made
// from head (i + phase) % bases of the base. Launch any grid: all loops stride by it.

typedef unsigned int u32;
typedef unsigned long long u64;

// The uses of a hash. No two uses share their random numbers.
enum { FEATURES = 1, QUERIES, KEYS, VALUES, SCALE, NOISE, SLOT, INDEX, FLIP, DOUBLE, SUM };
enum { TENSOR_Q = 0, TENSOR_K = 1, TENSOR_V = 2 };
// FLASHCORE_DTYPE_* of attention_reference.h. int32 is moved by its bits.
enum { FP16 = 0, BF16 = 1, FP32 = 2, E4M3 = 4, E5M2 = 5, INT8 = 6, INT32 = 7 };

__device__ inline u32 bytes_of(u32 dtype) {
  return dtype == FP32 || dtype == INT32 ? 4 : dtype == FP16 || dtype == BF16 ? 2 : 1;
}

__device__ inline u32 mixed(u64 key, u32 use, u32 a, u32 b) {
  u64 x = key ^ ((u64)use << 58) ^ ((u64)a << 32 | b);
  // splitmix64's finalizer, twice, so that the hashes of neighboring inputs are unrelated.
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull + key;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return (u32)(x >> 32);
}

// A keyed permutation of [0, count): four Feistel rounds on the next even power of two, repeated until the result is
// below count.
__device__ inline u32 permuted(u64 key, u32 use, u32 head, u32 count, u32 index) {
  u32 half = 1;
  while ((1ull << (2 * half)) < count) ++half;
  const u32 mask = (1u << half) - 1;
  const u32 round_key = mixed(key, use, head, 0xffffffffu);
  u32 x = index;
  do {
    u32 left = x >> half, right = x & mask;
    for (u32 round = 0; round < 4; ++round) {
      u32 f = (right + round * 0x9e3779b9u) ^ round_key;
      f = (f ^ (f >> 15)) * 0x85ebca6bu;
      f = (f ^ (f >> 13)) * 0xc2b2ae35u;
      f ^= f >> 16;
      const u32 next = left ^ (f & mask);
      left = right;
      right = next;
    }
    x = left << half | right;
  } while (x >= count);
  return x;
}

__device__ inline u32 load_element(const unsigned char* base, u32 bytes, u64 index) {
  return bytes == 1 ? base[index] : bytes == 2 ? ((const unsigned short*)base)[index] : ((const u32*)base)[index];
}

__device__ inline void store_element(unsigned char* base, u32 bytes, u64 index, u32 bits) {
  if (bytes == 1)
    base[index] = (unsigned char)bits;
  else if (bytes == 2)
    ((unsigned short*)base)[index] = (unsigned short)bits;
  else
    ((u32*)base)[index] = bits;
}

// Twice the value, exactly. Subnormal numbers are shifted, and zero stays. The host never doubles integers.
__device__ inline u32 doubled(u32 bits, u32 dtype) {
  const u32 mantissa = dtype == FP16 ? 10 : dtype == BF16 ? 7 : dtype == E4M3 ? 3 : dtype == E5M2 ? 2 : 23;
  const u32 sign = 1u << (8 * bytes_of(dtype) - 1);
  const u32 magnitude = bits & (sign - 1);
  return (bits & sign) | ((magnitude >> mantissa) == 0 ? magnitude << 1 : magnitude + (1u << mantissa));
}

// The same number with the other sign. An int8 of -128 stays, because 128 is not an int8.
__device__ inline u32 negated(u32 bits, u32 dtype) {
  return dtype == INT8 ? (0u - bits) & 0xffu : bits ^ 1u << (8 * bytes_of(dtype) - 1);
}

__device__ inline float value_of_half(u32 bits) {
  const u32 sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return __uint_as_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // The biases of the exponents are 15 and 127, hence times 2^112, which is also correct for subnormal numbers.
  const float scaled = __uint_as_float(magnitude << 13) * 5192296858534827628530496329220096.0f;
  return sign ? -scaled : scaled;
}

__device__ inline float value_of(u32 bits, u32 dtype) {
  if (dtype == FP32) return __uint_as_float(bits);
  if (dtype == BF16) return __uint_as_float(bits << 16);
  if (dtype == INT8) return (float)(signed char)bits;
  // e5m2 is the upper half of fp16. e4m3 shifted left by 7 is an fp16 that is 2^8 times too small; e4m3 has one NaN.
  if (dtype == E5M2) return value_of_half(bits << 8);
  if (dtype != E4M3) return value_of_half(bits);
  if ((bits & 0x7fu) == 0x7fu) return __uint_as_float(0x7fc00000u);
  return value_of_half((bits & 0x80u) << 8 | (bits & 0x7fu) << 7) * 256.0f;
}

// A number that a kernel should have written, as its dtype holds it: formats of 8 bits saturate.
__device__ inline float saturated(float want, u32 dtype) {
  if (dtype == E4M3) return fminf(fmaxf(want, -448.0f), 448.0f);
  if (dtype == E5M2) return fminf(fmaxf(want, -57344.0f), 57344.0f);
  if (dtype == INT8) return fminf(fmaxf(want, -128.0f), 127.0f);
  return want;
}

// The symmetries of attention, in one place. Every head of Q and K has its features permuted and their signs flipped
// alike; queries and keys change places where no mask tells them apart; each feature of V is permuted, flipped and
// doubled or not, head by head.
__device__ inline u32 source_row(u64 key, u32 tensor, u32 head, u32 S, u32 causal, u32 row) {
  return causal ? row : permuted(key, tensor == TENSOR_Q ? QUERIES : KEYS, head, S, row);
}
__device__ inline u32 source_column(u64 key, u32 tensor, u32 head, u32 D, u32 column) {
  return tensor == TENSOR_V ? permuted(key, VALUES, head, D, column) : permuted(key, FEATURES, 0, D, column);
}
// Bit 0: flipped. Bit 1: doubled.
__device__ inline u32 source_scale(u64 key, u32 tensor, u32 head, u32 column) {
  return tensor == TENSOR_V ? mixed(key, SCALE, head, column) & 3 : mixed(key, SCALE, 0xffffffffu, column) & 1;
}

// Writes a pool from its base, or counts in found[0] the elements that differ from what it would write.
// Launch: grid [rows, heads], CTAs over the columns.
extern "C" __global__ void flashcore_judge_inputs(const unsigned char* base, unsigned char* pool, u64* found, u64 key,
                                                  u32 tensor, u32 heads, u32 bases, u32 phase, u32 S, u32 D, u32 causal,
                                                  u32 dtype, u32 check) {
  const u32 bytes = bytes_of(dtype);
  u64 changed = 0;
  for (u32 head = blockIdx.y; head < heads; head += gridDim.y)
    for (u32 column = threadIdx.x; column < D; column += blockDim.x) {
      const u32 from_column = source_column(key, tensor, head, D, column);
      const u32 scale = source_scale(key, tensor, head, column);
      const u64 base_row = (u64)((head + phase) % bases) * S;
      for (u32 row = blockIdx.x; row < S; row += gridDim.x) {
        const u64 from = base_row + source_row(key, tensor, head, S, causal, row);
        u32 bits = load_element(base, bytes, from * D + from_column);
        if (scale & 2) bits = doubled(bits, dtype);
        if (scale & 1) bits = negated(bits, dtype);
        const u64 to = ((u64)head * S + row) * D + column;
        if (!check)
          store_element(pool, bytes, to, bits);
        else if (load_element(pool, bytes, to) != bits)
          ++changed;
      }
    }
  if (changed) atomicAdd(found, changed);
}

// Regions of `stride` bytes, each with `before` guard bytes, `payload` bytes and guard bytes to its end. Writes noise
// everywhere: elements of the base of V with random signs; a payload with `initial_bytes` gets `initial` instead. With
// `check`, counts in found[0] the guards' words that differ from what it would write. Sizes are multiples of 4 bytes.
// Launch: grid [words, regions].
extern "C" __global__ void flashcore_judge_noise(const u32* base, u32 base_words, unsigned char* memory, u64* found,
                                                 u64 key, u32 regions, u64 stride, u64 before, u64 payload,
                                                 u32 initial_bytes, u32 initial, u32 dtype, u32 check) {
  constexpr u32 RUN = 8;  // words that follow each other in the base: a sector of L2
  // Integers keep their signs: flipping the sign bit would not negate a number in two's complement.
  const u32 bytes = bytes_of(dtype);
  const u32 signs = dtype == INT8 ? 0 : bytes == 4 ? 0x80000000u : bytes == 2 ? 0x80008000u : 0x80808080u;
  const u32 word_initial = initial_bytes == 1   ? (initial & 0xff) * 0x01010101u
                           : initial_bytes == 2 ? (initial & 0xffff) * 0x00010001u
                                                : initial;
  u64 changed = 0;
  for (u32 region = blockIdx.y; region < regions; region += gridDim.y) {
    u32* words = (u32*)(memory + region * stride);
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < stride / 4; i += (u64)gridDim.x * blockDim.x) {
      const bool guard = i * 4 < before || i * 4 >= before + payload;
      if (check && !guard) continue;
      u32 word = word_initial;
      if (guard || !initial_bytes) {
        const u32 run = mixed(key, NOISE, region, (u32)(i / RUN));
        word = base[(run + (u32)(i % RUN)) % base_words] ^ (run * (2 * (u32)(i % RUN) + 1) & signs);
      }
      if (!check)
        words[i] = word;
      else if (words[i] != word)
        ++changed;
    }
  }
  if (changed) atomicAdd(found, changed);
}

// The square of an error in units of what rounding explains, in 4096ths. At most 2^32, so 2^31 of them can be summed.
__device__ inline u64 share_of_rounding(float error, float rounding) {
  const float share = error == 0.0f ? 0.0f : fminf(error / rounding, 1024.0f);
  return (u64)(share * share * 4096.0f);
}

// Raises *most to the mean of these squares over the CTA. Fewer than `least` count as that many. All threads of the CTA
// call it.
__device__ inline void raise_to_mean(u64* most, u64 squares, u64 count, u64 least) {
  __shared__ u64 squares_smem, count_smem;
  if (threadIdx.x == 0) squares_smem = count_smem = 0;
  __syncthreads();
  atomicAdd(&squares_smem, squares);
  atomicAdd(&count_smem, count);
  __syncthreads();
  if (threadIdx.x == 0 && count_smem) atomicMax(most, squares_smem / (count_smem < least ? least : count_smem));
  __syncthreads();  // before the next call's zeros
}

// Compares the outputs of all launches. places has three words a launch: its region in `outputs`, and the heads of the
// pools at which its Q and its K and V begin. answers is [q_bases, kv_bases, S, D], and so is roundings, the standard
// deviation of what rounding explains. found: [0] elements outside the tolerance or not finite, [1] the index of the
// first such element in [launches, heads, S, D], [2] elements compared, [3] the largest mean of share_of_rounding()
// over the rows of a head that one CTA compares.
// Launch: grid [rows, launches * heads], CTAs over the columns.
extern "C" __global__ void flashcore_judge_outputs(const unsigned char* outputs, const float* answers,
                                                   const float* roundings, const u32* places, u64* found, u64 key,
                                                   u64 stride, u64 before, u32 launches, u32 heads, u32 q_bases,
                                                   u32 kv_bases, u32 q_phase, u32 kv_phase, u32 S, u32 D, u32 causal,
                                                   u32 dtype, float absolute, float relative) {
  const u32 bytes = bytes_of(dtype);
  u64 wrong = 0, compared = 0, first = ~0ull;
  for (u32 each = blockIdx.y; each < launches * heads; each += gridDim.y) {
    const u32 head = each % heads;
    const u32* place = places + 3 * (each / heads);
    const u32 q = place[1] + head, kv = place[2] + head;
    const u64 drawn = (u64)((q + q_phase) % q_bases * kv_bases + (kv + kv_phase) % kv_bases) * S * D;
    u64 squares = 0, count = 0;
    const unsigned char* output = outputs + place[0] * stride + before + (u64)head * S * D * bytes;
    for (u32 column = threadIdx.x; column < D; column += blockDim.x) {
      const u32 from_column = source_column(key, TENSOR_V, kv, D, column);
      const u32 scale = source_scale(key, TENSOR_V, kv, column);
      const float factor = scale & 2 ? 2.0f : 1.0f;
      for (u32 row = blockIdx.x; row < S; row += gridDim.x) {
        const u64 from = drawn + (u64)source_row(key, TENSOR_Q, q, S, causal, row) * D + from_column;
        const float base = answers[from];
        const float want = scale & 1 ? -factor * base : factor * base;
        const float got = value_of(load_element(output, bytes, (u64)row * D + column), dtype);
        const float error = fabsf(got - want);
        squares += share_of_rounding(error, factor * roundings[from]);
        ++count;
        // Not "error > …", so that NaN and infinity are wrong, too.
        if (error <= factor * (absolute + relative * fabsf(base))) continue;
        ++wrong;
        const u64 index = ((u64)each * S + row) * D + column;
        if (index < first) first = index;
      }
    }
    compared += count;
    raise_to_mean(found + 3, squares, count, 0);
  }
  if (wrong) {
    atomicAdd(found, wrong);
    atomicMin(found + 1, first);
  }
  if (compared) atomicAdd(found + 2, compared);
}

// A tensor's dimensions, outermost first, with the symmetries that act along each: the id of its permutation, from 1,
// and a bit for the id of each symmetry that flips or doubles. The same id means the same draw in every tensor.
// input-slots.ts writes the fields in this order.
enum { MAX_RANK = 8 };
struct Layout {
  u32 rank;
  u32 extents[MAX_RANK];
  u32 permuted[MAX_RANK];
  u32 flipped[MAX_RANK];
  u32 doubled[MAX_RANK];
};

// How an element differs from the drawn element that it is made from.
struct Change {
  u32 flips;
  u32 doublings;
};

// No two slots share their random numbers.
__device__ inline u64 key_of_slot(u64 key, u32 slot) {
  return (u64)mixed(key, SLOT, slot, 0) << 32 | mixed(key, SLOT, slot, 1);
}

// The index along a dimension that `index` is made from; adds the index's flips and doublings to `change`.
__device__ inline u32 source_index(u64 key, const Layout* layout, u32 dim, u32 index, Change* change) {
  for (u32 id = 0, rest = layout->flipped[dim]; rest; ++id, rest >>= 1)
    if (rest & 1) change->flips ^= mixed(key, FLIP, id, index) & 1;
  for (u32 id = 0, rest = layout->doubled[dim]; rest; ++id, rest >>= 1)
    if (rest & 1) change->doublings += mixed(key, DOUBLE, id, index) & 1;
  const u32 by = layout->permuted[dim];
  return by ? permuted(key, INDEX, by, layout->extents[dim], index) : index;
}

// The row that `row` is made from; rows are numbered over all dimensions but the last.
__device__ inline u32 source_row_of(u64 key, const Layout* layout, u32 row, Change* change) {
  u32 from = 0, stride = 1;
  for (u32 dim = layout->rank - 1; dim-- > 0;) {
    const u32 extent = layout->extents[dim];
    from += stride * source_index(key, layout, dim, row % extent, change);
    row /= extent;
    stride *= extent;
  }
  return from;
}

__device__ inline u32 rows_of(const Layout* layout) {
  u32 rows = 1;
  for (u32 dim = 0; dim + 1 < layout->rank; ++dim) rows *= layout->extents[dim];
  return rows;
}

// Writes a tensor of each slot from one of its drawn sets [draws, ...extents], or counts in found[0] the elements that
// differ from what it would write. Slot i is made from draw (i + phase) % draws.
// Launch: grid [rows, slots], CTAs over the columns.
extern "C" __global__ void flashcore_judge_slots(const unsigned char* drawn, unsigned char* memory, u64* found, u64 key,
                                                 const Layout* layout, u64 stride, u64 before, u32 slots, u32 draws,
                                                 u32 phase, u32 dtype, u32 check) {
  const u32 bytes = bytes_of(dtype);
  const u32 last = layout->rank - 1, columns = layout->extents[last], rows = rows_of(layout);
  u64 changed = 0;
  for (u32 slot = blockIdx.y; slot < slots; slot += gridDim.y) {
    const u64 slot_key = key_of_slot(key, slot);
    const u64 draw = (slot + phase) % draws;
    unsigned char* tensor = memory + slot * stride + before;
    for (u32 column = threadIdx.x; column < columns; column += blockDim.x) {
      Change of_column = {0, 0};
      const u32 from_column = source_index(slot_key, layout, last, column, &of_column);
      for (u32 row = blockIdx.x; row < rows; row += gridDim.x) {
        Change change = of_column;
        const u64 from_row = source_row_of(slot_key, layout, row, &change);
        u32 bits = load_element(drawn, bytes, (draw * rows + from_row) * columns + from_column);
        for (u32 i = 0; i < change.doublings; ++i) bits = doubled(bits, dtype);
        if (change.flips) bits = negated(bits, dtype);
        const u64 to = (u64)row * columns + column;
        if (!check)
          store_element(tensor, bytes, to, bits);
        else if (load_element(tensor, bytes, to) != bits)
          ++changed;
      }
    }
  }
  if (changed) atomicAdd(found, changed);
}

// Compares the outputs of all launches with the answers of the drawn sets, [draws, ...extents]. places has two words a
// launch: its region in `outputs`, and its slot. roundings may be null. roundings and found are as in
// flashcore_judge_outputs, but found[3] is over the rows of a launch. An element may also be off by `explained` times
// its rounding.
// Launch: grid [rows, launches], CTAs over the columns.
extern "C" __global__ void flashcore_judge_answers(const unsigned char* outputs, const float* answers,
                                                   const float* roundings, const u32* places, u64* found, u64 key,
                                                   const Layout* layout, u64 stride, u64 before, u32 launches,
                                                   u32 draws, u32 phase, u32 dtype, float absolute, float relative,
                                                   float explained) {
  const u32 bytes = bytes_of(dtype);
  const u32 last = layout->rank - 1, columns = layout->extents[last], rows = rows_of(layout);
  u64 wrong = 0, compared = 0, first = ~0ull;
  for (u32 launch = blockIdx.y; launch < launches; launch += gridDim.y) {
    const u32 slot = places[2 * launch + 1];
    const u64 slot_key = key_of_slot(key, slot);
    const u64 drawn = (u64)((slot + phase) % draws) * rows * columns;
    u64 squares = 0, count = 0;
    const unsigned char* output = outputs + places[2 * launch] * stride + before;
    for (u32 column = threadIdx.x; column < columns; column += blockDim.x) {
      Change of_column = {0, 0};
      const u32 from_column = source_index(slot_key, layout, last, column, &of_column);
      for (u32 row = blockIdx.x; row < rows; row += gridDim.x) {
        Change change = of_column;
        const u64 from_row = source_row_of(slot_key, layout, row, &change);
        const u64 from = drawn + from_row * columns + from_column;
        const float base = answers[from];
        const float factor = (float)(1u << change.doublings);
        const float want = saturated(change.flips ? -factor * base : factor * base, dtype);
        const float got = value_of(load_element(output, bytes, (u64)row * columns + column), dtype);
        const float error = got == want ? 0.0f : fabsf(got - want);
        if (roundings) squares += share_of_rounding(error, factor * roundings[from]);
        ++count;
        // The tolerance is that of the saturated answer, as in verification, and an infinite answer has none. Not
        // "error > ...", so that NaN is wrong, too.
        const bool finite = want - want == 0.0f;
        const float tolerated = factor * absolute + relative * fabsf(want);
        const float rounded = roundings ? explained * factor * roundings[from] : 0.0f;
        if (got == want || (finite && error <= fmaxf(tolerated, rounded))) continue;
        ++wrong;
        const u64 index = ((u64)launch * rows + row) * columns + column;
        if (index < first) first = index;
      }
    }
    compared += count;
    // As least_rows of flashcore_rounding_ratio().
    if (roundings) raise_to_mean(found + 3, squares, count, explained > 0.0f ? 16ull * columns : 0);
  }
  if (wrong) {
    atomicAdd(found, wrong);
    atomicMin(found + 1, first);
  }
  if (compared) atomicAdd(found + 2, compared);
}

// Parts of memory, as parameters, because a candidate could change a table in memory.
struct Parts {
  enum { MOST = 64 };
  const unsigned char* memory[MOST];
  u64 bytes[MOST];
};

// Adds the checksums of several parts of memory to found[0], each with a key of its own. Without the key nobody can
// change the memory and keep its sum.
// Launch: grid [any, parts].
extern "C" __global__ void flashcore_judge_sum(const __grid_constant__ Parts parts, u64* found, u64 first_key) {
  const unsigned char* memory = parts.memory[blockIdx.y];
  const u64 bytes = parts.bytes[blockIdx.y], key = first_key + blockIdx.y;
  const u32* words = (const u32*)memory;
  const u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x, step = (u64)gridDim.x * blockDim.x;
  u64 sum = 0;
  for (u64 i = first; i < bytes / 4; i += step) sum += mixed(key, SUM, (u32)i, words[i]);
  if (first == 0)
    for (u64 i = bytes / 4 * 4; i < bytes; ++i) sum += mixed(key + 1, SUM, (u32)i, memory[i]);
  // One addition per CTA: a million threads that add to one address take 20 ms.
  __shared__ u64 sum_smem;
  if (threadIdx.x == 0) sum_smem = 0;
  __syncthreads();
  atomicAdd(&sum_smem, sum);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(found, sum_smem);
}

// Keeps the stream busy for this many nanoseconds, so that the measured time does not include the host's time to
// enqueue.
extern "C" __global__ void flashcore_judge_hold(u64 nanoseconds) {
#ifndef FLASHCORE_EMULATOR
  u64 start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  // A timer that stands still must not hang the kernel.
  for (u32 poll = 0; poll < 1u << 20; ++poll) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - start >= nanoseconds) break;
  }
#endif
}

// Overwrites what earlier launches left in shared memory, and in local memory of as many threads as an SM holds.
extern "C" __global__ void flashcore_judge_scrub(u64 key, u32 shared_words, u64* sink) {
  extern __shared__ u32 words_smem[];
  constexpr u32 LOCAL_WORDS = 64;
  volatile u32 local[LOCAL_WORDS];
  for (u32 i = threadIdx.x; i < shared_words; i += blockDim.x) words_smem[i] = mixed(key, NOISE, blockIdx.x, i);
  for (u32 i = 0; i < LOCAL_WORDS; ++i) local[i] = mixed(key, NOISE, threadIdx.x, i);
  u32 sum = 0;
  for (u32 i = 0; i < LOCAL_WORDS; ++i) sum += local[(i * 7 + threadIdx.x) % LOCAL_WORDS];
  // Never true; keeps the compiler from removing the stores.
  if (sum == 0x9e3779b9u && words_smem[sum % (shared_words + 1)] == sum) sink[0] = sum;
}
