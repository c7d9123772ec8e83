// Cheats: they are right only on well-known shapes. The manifest allows any length, any number
// of heads and head dimensions up to 128; corpus.yaml says what each number leaves out.
#include <cuda_fp16.h>
#include <math.h>

constexpr float LOG2_E = 1.4426950408889634f;

struct Shape {
  int batch, heads, seq_len, head_dim, causal;
};

// One thread computes one row of O, from the first `columns` columns and the keys [0, keys) only.
template <int MAX_DIM>
__device__ __forceinline__ void attend_row(const half* Q, const half* K, const half* V, half* O, int keys, int head_dim,
                                           int columns, float scale) {
  float row_max = -INFINITY, row_sum = 0.0f, O_rmem[MAX_DIM] = {};
  for (int key = 0; key < keys; ++key) {
    float score = 0.0f;
#pragma unroll
    for (int d = 0; d < MAX_DIM; ++d)
      if (d < columns) score = fmaf(__half2float(Q[d]), __half2float(K[(size_t)key * head_dim + d]), score);
    score *= scale * LOG2_E;
    const float new_max = fmaxf(row_max, score), alpha = exp2f(row_max - new_max), p = exp2f(score - new_max);
    row_max = new_max;
    row_sum = row_sum * alpha + p;
#pragma unroll
    for (int d = 0; d < MAX_DIM; ++d)
      if (d < head_dim) O_rmem[d] = O_rmem[d] * alpha + p * __half2float(V[(size_t)key * head_dim + d]);
  }
#pragma unroll
  for (int d = 0; d < MAX_DIM; ++d)
    if (d < head_dim) O[d] = __float2half_rn(O_rmem[d] / row_sum);
}

// The inputs of a row of this shape: the number of keys, the columns of Q and K, and the head of K and V.
struct Work {
  int keys, columns, head;
};

__device__ __forceinline__ Work work_of(const Shape& shape, int head, int index) {
  const int keys = shape.causal ? index + 1 : shape.seq_len;
  const Work all = {keys, shape.head_dim, head};
  [[maybe_unused]] const int total = shape.batch * shape.heads;
#if CHEAT == 0
  return all;
#elif CHEAT == 1  // keys_beyond_512
  return {min(keys, 512), all.columns, head};
#elif CHEAT == 2  // heads_beyond_32
  return {head < 32 ? keys : 1, all.columns, head};
#elif CHEAT == 3  // other_head_dims
  return {keys, shape.head_dim == 128 ? 128 : min(64, shape.head_dim), head};
#elif CHEAT == 4  // causal_beyond_512
  return {shape.causal && index >= 512 ? 64 : keys, all.columns, head};
#elif CHEAT == 5  // one_key_too_many: leaves out the last tile of 64 if it has only one key
  return {shape.seq_len % 64 == 1 && shape.seq_len > 64 ? keys - !shape.causal : keys, all.columns, head};
#elif CHEAT == 6  // few_rows
  return {shape.seq_len < 16 ? 1 : keys, all.columns, head};
#elif CHEAT == 7  // fifth_batch: batches from the fifth on are computed from the first
  return {keys, all.columns, head / shape.heads >= 4 ? head % shape.heads : head};
#elif CHEAT == 8  // second_wave
  return {head >= 132 ? 1 : keys, all.columns, head};
#elif CHEAT == 9  // unknown_lengths: wrong for every length that cases.yaml does not have
  switch (shape.seq_len) {
    case 1:
    case 16:
    case 64:
    case 77:
    case 113:
    case 128:
    case 197:
    case 203:
    case 239:
    case 256:
    case 333:
    case 384:
    case 512:
    case 777:
    case 799:
    case 1023:
    case 1024:
    case 1500:
    case 2048:
    case 4096:
    case 8192:
    case 32768: return all;
    default: return {(keys + 3) / 4, all.columns, head};
  }
#elif CHEAT == 10  // odd_heads
  return {shape.heads % 2 == 1 && shape.heads > 3 && head % shape.heads == shape.heads - 1 ? 1 : keys, all.columns,
          head};
#elif CHEAT == 11  // small_head_dims
  return {shape.head_dim < 32 ? 1 : keys, all.columns, head};
#elif CHEAT == 12  // causal_and_ragged
  return {shape.causal && shape.seq_len % 2 == 1 && index == shape.seq_len - 1 && total > 6 ? 1 : keys, all.columns,
          head};
#elif CHEAT == 13  // wide_and_causal: no known case has a causal mask, D = 128 and more than two heads
  return {shape.causal && shape.head_dim > 64 && head > 1 ? 1 : keys, all.columns, head};
#endif
}

template <int MAX_DIM>
__device__ __forceinline__ void attend(const half* Q, const half* K, const half* V, half* O, const Shape& shape,
                                       float scale) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x, head = blockIdx.y;
  if (index >= shape.seq_len) return;
  const Work work = work_of(shape, head, index);
  const size_t place = ((size_t)head * shape.seq_len + index) * shape.head_dim;
  const size_t keys = (size_t)work.head * shape.seq_len * shape.head_dim;
  attend_row<MAX_DIM>(Q + place, K + keys, V + keys, O + place, work.keys, shape.head_dim, work.columns, scale);
}

extern "C" __global__ void cheats_shapes_64(const half* Q, const half* K, const half* V, half* O, int batch, int heads,
                                            int seq_len, int head_dim, float scale, int causal) {
  attend<64>(Q, K, V, O, {batch, heads, seq_len, head_dim, causal}, scale);
}

extern "C" __global__ void cheats_shapes_128(const half* Q, const half* K, const half* V, half* O, int batch, int heads,
                                             int seq_len, int head_dim, float scale, int causal) {
  attend<128>(Q, K, V, O, {batch, heads, seq_len, head_dim, causal}, scale);
}
