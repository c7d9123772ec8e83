// Attention on the CPU, with which kernels are compared: in fp64, and
// as a plain implementation would compute it. Also draws the inputs.
//
// Build as a shared library: g++ -std=c++17 -O3 -march=native -fno-math-errno -fno-trapping-math -fPIC -shared -pthread
// attention_reference.cpp (not with -ffast-math: masked scores are -infinity). Plain C ABI; no global state; any number
// of calls at once.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  FLASHCORE_REFERENCE_OK = 0,
  // A null pointer, an extent < 1, a product of extents >= 2^40, an unknown dtype, an index outside of its tensor.
  FLASHCORE_REFERENCE_BAD_ARGUMENT = 1,
  FLASHCORE_REFERENCE_OUT_OF_MEMORY = 2,
};

// Type of a tensor's elements; fp16 and bf16 as bit patterns in uint16_t, fp8 in uint8_t. TF32 is a rounding of products
// and never stored. The functions after flashcore_contiguous know the first three, those of output_comparison.h all but TF32
// and int32, and attention all but integers.
enum {
  FLASHCORE_DTYPE_FP16 = 0,
  FLASHCORE_DTYPE_BF16 = 1,
  FLASHCORE_DTYPE_FP32 = 2,
  FLASHCORE_DTYPE_TF32 = 3,
  FLASHCORE_DTYPE_FP8_E4M3 = 4,  // has no infinity (e4m3fn)
  FLASHCORE_DTYPE_FP8_E5M2 = 5,
  FLASHCORE_DTYPE_INT8 = 6,
  FLASHCORE_DTYPE_INT32 = 7,  // tables of flashcore_reference.h
};

// A tensor to read: element (batch, head, row, column) is data[batch * batch_stride + head * head_stride +
// row * row_stride + column]. Strides count elements and may be 0, not negative.
typedef struct {
  const void* data;
  int64_t count;  // elements from `data` on; a problem that needs more is a BAD_ARGUMENT
  int64_t batch_stride, head_stride, row_stride;
} flashcore_tensor;

// A tensor to write, and the standard deviation of each element's rounding error in
// an honest kernel; addressed as above. Rows that no sequence owns stay untouched.
typedef struct {
  double* value;  // null: not wanted
  float* rounding;  // null: not wanted
  int64_t count;
  int64_t batch_stride, head_stride, row_stride;
} flashcore_output;

enum { FLASHCORE_ALIGN_TOP_LEFT = 0, FLASHCORE_ALIGN_BOTTOM_RIGHT = 1 };

// Attention of B sequences. Sequence b has Sq queries and Skv keys, or as many as the offsets and lengths
// give it. Query head h reads the keys of head h / (Hq / Hkv). Query i is at position i of the keys, or with
// BOTTOM_RIGHT at i + keys - queries, so that the last query is at the last key. All in double precision:
//   s_j = scale * q . k_j
//   s_j = softcap * tanh(s_j / softcap)              where softcap is not 0
//   s_j = s_j - alibi_slopes[h] * |position - j|     where there are slopes
//   s_j = s_j + bias(b, h, i, j)                     where there is a bias; a key with -infinity is not seen
//   O = sum of p_j v_j, p_j = exp(s_j) / total       total = sum of exp(s_j), + exp(sinks[h]) where there are sinks
//   LSE = log(total)
// over the keys j that the query sees. A query without keys has O = 0 and LSE =
// -infinity, or LSE = sinks[h]. Tensors are never read beyond their counts. The
// caller promises that arrays without a count are as long as their brackets say.
typedef struct {
  // Of Q and O: [B, Hq, Sq, D] and [B, Hq, Sq, Dv]; of K and V: [B, Hkv, Skv, D] and [B, Hkv, Skv, Dv]; each >= 1,
  // Hq a multiple of Hkv; D and Dv at most 2^20, Skv at most 2^24. With offsets or lengths Sq and Skv are upper limits
  // of them.
  int32_t B, Hq, Hkv, Sq, Skv, D, Dv;
  int32_t dtype;  // of Q, K and V
  // Head strides of K and V count key heads. With key_offsets, their batch stride is not used. With a page table, it is
  // the stride from page to page, and rows are the rows of a page.
  flashcore_tensor q, k, v;

  // Ragged batches. Null: every sequence has all Sq or Skv rows, from its batch entry's first on.
  const int32_t* query_offsets;  // [B + 1] ascending: b owns rows [b] to [b + 1] - 1 of Q, O and LSE (no batch stride)
  const int32_t* key_offsets;  // [B + 1] the same for K and V; not together with a page table
  const int32_t* key_lengths;  // [B] keys of each sequence, from its first row on; later ones are padding

  // Paged cache. Key j of b is in row j % page_size of page page_table[b * most_pages + j / page_size].
  const int32_t* page_table;  // [B, most_pages]; null: not paged. Entries that no key needs are not read
  const int32_t* page_offsets;  // [B + 1] ascending: b's pages begin at page_table[page_offsets[b]]; null: as above
  int32_t page_size, most_pages;

  // Selected keys, instead of all: a query sees the keys in its row's list that masks allow; a key that is
  // listed twice counts twice. int32 [B, Hkv, Sq, most_selected]; query_offsets apply as to Q; -1: none.
  flashcore_tensor selected;  // data null: all keys
  int32_t most_selected;

  // Masks.
  int32_t alignment;  // FLASHCORE_ALIGN_*: position of a query
  int32_t causal;  // not 0: no keys after the query's position
  int32_t window_left, window_right;  // keys from position - left to position + right only; -1: unlimited

  // Scores.
  float scale;  // usually 1 / sqrt(D): the float that the kernel gets
  float softcap;  // 0: no cap
  const float* alibi_slopes;  // [Hq]; null: none
  const float* sinks;  // [Hq], logits; null: none
  flashcore_tensor bias;  // [B, Hq, Sq, keys]; in batch entry b, row r is for the r-th query of b; data null: none
  int64_t bias_key_stride;  // elements
  int32_t bias_dtype;

  // Outputs; at least one `value` must not be null.
  flashcore_output o;  // [B, Hq, Sq, Dv]
  flashcore_output lse;  // [B, Hq, Sq]
  int32_t lse_base_2;  // not 0: log2(total) instead of the natural logarithm

  // The FLASHCORE_DTYPE_* to which an honest kernel rounds P and O; read if a rounding is wanted.
  int32_t weight_dtype, output_dtype;
} flashcore_attention;

// The outputs of `problem` in double precision; their rounding after the model of flashcore_reference_fp64(),
// with u_P and u_O of the two dtypes: 2^-11 for fp16 and tf32, 2^-8 for bf16, 2^-24 for fp32, 2^-4 for e4m3, 2^-3 for
// e5m2:
//   rounding of O^2   = (u_O^2 max(|o|, smallest_O)^2 + u_P^2 (o^2 + sum of max(p, smallest_P)^2 v^2)) / 3
//   rounding of LSE^2 = (2^-42 max(|LSE|, 1)^2 + u_P^2 sum of max(p, smallest_P)^2) / 3
// LSE has 8 roundings in fp32, and may sum weights that are already rounded. `smallest` is
// 2^-14 for fp16 and 2^-126 / u for bf16, tf32 and fp32, whose kernels may take subnormal
// weights for 0; fp8 has no smallest_O, and its smallest_P is 2^-6 (e4m3) or 2^-14 (e5m2)
// of 1 / total * exp(largest s or sink): fp8 kernels round weights whose largest is 1.
//   threads   worker threads; <= 0: as many as the machine has
// Returns a FLASHCORE_REFERENCE_* code; writes nothing on BAD_ARGUMENT. Reads no key, page, query or table entry that no
// sequence owns.
int flashcore_attention_forward(const flashcore_attention* problem, int32_t threads);

// The backward pass: gradients of a scalar whose gradient with respect to O is dO.
typedef struct {
  flashcore_attention forward;  // without a page table; its outputs are not written and may be null
  flashcore_tensor d_o;  // [B, Hq, Sq, Dv]
  flashcore_tensor o;  // [B, Hq, Sq, Dv], rounded, as kernels read it; data null: kernels do not read it
  int32_t d_o_dtype, o_dtype;
  // At least one value must not be null; a rounding needs its value. Rows that no sequence owns stay untouched.
  flashcore_output d_q;  // [B, Hq, Sq, D]
  flashcore_output d_k;  // [B, Hkv, Skv, D], summed over the query heads that read the key head; 0 for unseen keys
  flashcore_output d_v;  // [B, Hkv, Skv, Dv]
  double* d_sinks;  // [Hq]; null: not wanted, or there are no sinks
  float* d_sinks_rounding;  // [Hq]; null: not wanted
  // The FLASHCORE_DTYPE_* to which an honest kernel rounds; read if a rounding is wanted, as is forward.weight_dtype.
  int32_t d_q_dtype, d_k_dtype, d_v_dtype, d_sinks_dtype;
} flashcore_attention_gradients;

// In double precision, with the forward's scores recomputed. An element of Q, K, V
// or dO that is not finite may affect any gradient of its head. Arguments as above.
// The roundings are those of a kernel that computes S, dP = dO V^T, P and delta = sum of dO O in fp32, and rounds P and
// dS = P (dP - delta) to weight_dtype before its last three products (docs/inputs.md, Gradients). Its delta is off by
// e_i, the same for all keys of a query, because it reads the rounded O and adds up in fp32 with 8 roundings:
//   e_i^2 = (sum over d of dO_id (O_id - o_id))^2 + 2^-42 (sum over d of |dO_id O_id|)^2
// If kernels do not read O, they add up p_ij dP_ij, and e_i is 2^-21 of the sum of |p_ij dP_ij|. With x+ for
// max(|x|, smallest):
//   rounding of dV_jd^2 = (u_dV^2 dv+^2 + u_P^2 (dv^2 + sum over i of (p_ij+ dO_id)^2)) / 3
//   rounding of dQ_id^2 = (u_dQ^2 dq+^2 + u_P^2 (dq^2 + scale^2 sum over j of (dS_ij+ K_jd)^2)) / 3
//                         + scale^2 e_i^2 sum over j of p_ij K_jd^2
//   rounding of dK_jd^2 = (u_dK^2 dk+^2 + u_P^2 (dk^2 + scale^2 sum over i of (dS_ij+ Q_id)^2)) / 3
//                         + 9 scale^2 sum over i of (e_i p_ij Q_id)^2
//   rounding of dsink^2 = u_dsink^2 dsink+^2 / 3 + (sum over i of e_i p_i)^2
// e_i moves dQ by the mean of the keys, whose square is at most the sum over j (Jensen). It moves a column of dK alike
// for many keys, hence the 9: three standard deviations. Keys whose p is 0 have no error; those listed twice have twice
// their p and dS in dK and dV. `smallest` as above, and for fp8 2^-6 (e4m3) or 2^-14 (e5m2); that of dS is at least 2^-126
// |dP - delta| / u_P, because a p in fp32 that is not a normal number may be 0.
int flashcore_attention_backward(const flashcore_attention_gradients* problem, int32_t threads);

// Attention over parts of the keys (split-KV), each with its own O and LSE.
typedef struct {
  int32_t parts, B, H, S, Dv;  // each >= 1
  int32_t o_dtype, lse_dtype;
  flashcore_tensor o;  // [parts, B, H, S, Dv]
  flashcore_tensor lse;  // [parts, B, H, S]; -infinity: the part has no key for the row, and its O is not read
  int64_t o_part_stride, lse_part_stride;  // elements
  int32_t lse_base_2;  // not 0: LSE of the parts and of the result are log2, instead of natural logarithms
  int32_t output_dtype;  // to which a kernel rounds O; read if O's rounding is wanted
  flashcore_output out_o;  // [B, H, S, Dv]
  flashcore_output out_lse;  // [B, H, S]; at least one of the two values must not be null
} flashcore_attention_parts;

// O = sum of w_i O_i, w_i = exp(LSE_i - LSE), LSE = log(sum of exp(LSE_i)), in double precision. A
// row without keys in any part has O = 0 and LSE = -infinity. For a kernel with 8 roundings in fp32:
//   rounding of O^2   = (u_O^2 max(|o|, smallest_O)^2 + 2^-42 sum of (w_i O_i)^2) / 3
//   rounding of LSE^2 = 2^-42 max(|LSE|, 1)^2 / 3      in base 2: max(|LSE|, log2(e))
// Arguments as above.
int flashcore_attention_merge(const flashcore_attention_parts* problem, int32_t threads);

// Q, K and V of attention without any form but a causal mask: [B, H, S, D] contiguous, of `dtype`.
typedef struct {
  int32_t dtype;
  int32_t B, H, S, D;
  int32_t causal;  // not 0: query i sees the keys 0..i
  float scale;  // usually 1 / sqrt(D); the float that the kernel gets
  const void *q, *k, *v;
} flashcore_contiguous;

// O = softmax(Q K^T * scale) V in double precision throughout, and the standard deviation of the error that rounding P
// and O to the dtype causes in each element o = sum of p v:
//   rounding^2 = u^2 / 3 * (max(|o|, smallest)^2 + o^2 + sum of max(p, smallest)^2 v^2)
// The unit roundoff u is 2^-11 for fp16 and for fp32, whose products may be tf32, and 2^-8 for bf16. `smallest` is
// 2^-14, the smallest normal number, for fp16, and 2^-126 / u for bf16 and fp32, because kernels may take subnormal
// numbers for 0. The first term is O's rounding. The second is P's rounding if all weights are rounded alike, as equal
// weights are; the third is P's if each weight is rounded independently.
//   out       [B, H, S, D] contiguous; untouched on BAD_ARGUMENT, incomplete on OUT_OF_MEMORY
//   rounding  the same; null: not wanted
//   threads   worker threads; <= 0: as many as the machine has
// NaN and infinity propagate as in IEEE arithmetic. Returns a FLASHCORE_REFERENCE_* code.
int flashcore_reference_fp64(const flashcore_contiguous* inputs, double* out, float* rounding, int32_t threads);

// The same in plain arithmetic of the tensors' dtype, like PyTorch's math path: Q K^T accumulated in fp32 and rounded
// to the dtype, times scale and rounded, softmax in fp32 with P rounded, P V accumulated in fp32 and rounded. Its error
// is the yardstick of FlashAttention's rule: max|kernel - fp64| <= 2 * max|plain - fp64| + atol.
//   out       [B, H, S, D] contiguous, of `dtype`
int flashcore_reference_plain(const flashcore_contiguous* inputs, void* out, int32_t threads);

// Where normal numbers come from, and their scale.
typedef struct {
  uint32_t key, stream;
  double scale;
  int32_t threads;  // as above
} flashcore_normals;

// Fills out[0..count) with N(0, 1) * scale by Box and Muller, rounded to fp32 and then to `dtype`. Elements 2i and
// 2i + 1 come from block i of Philox 2x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC11)
// with the counter (i, stream), so that a value depends neither on other values nor on the number of threads.
//   out       of `dtype`; count < 2^33
int flashcore_reference_normal(const flashcore_normals* source, int32_t dtype, void* out, int64_t count);

#ifdef __cplusplus
}
#endif
