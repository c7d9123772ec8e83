// Attention on the CPU, to judge kernels by: exact in fp64, and once more as a plain implementation would compute
// it; and inputs to judge them on. Tensors are fp16, bf16 or fp32.
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
  FLASHCORE_REFERENCE_BAD_ARGUMENT = 1,  // a null pointer, a dimension < 1, B*H*S*D >= 2^40, or no such dtype
  FLASHCORE_REFERENCE_OUT_OF_MEMORY = 2,
};

// What an element of a tensor is; fp16 and bf16 as bit patterns in uint16_t.
enum { FLASHCORE_DTYPE_FP16 = 0, FLASHCORE_DTYPE_BF16 = 1, FLASHCORE_DTYPE_FP32 = 2 };

// O = softmax(Q K^T * scale) V in double precision throughout.
//   q, k, v   [B, H, S, D] contiguous, of `dtype`
//   out       [B, H, S, D] contiguous; untouched on BAD_ARGUMENT, incomplete on OUT_OF_MEMORY
//   scale     usually 1 / sqrt(D); the float that the kernel gets
//   causal    not 0: query i sees the keys 0..i
//   threads   worker threads; <= 0: as many as the machine has
// NaN and infinity in the inputs travel as in IEEE arithmetic. Returns a FLASHCORE_REFERENCE_* code.
int flashcore_reference_fp64(int32_t dtype, const void* q, const void* k, const void* v, double* out, int32_t B,
                             int32_t H, int32_t S, int32_t D, float scale, int32_t causal, int32_t threads);

// The same in plain arithmetic of the tensors' dtype, as PyTorch's math path does it: Q K^T accumulated in fp32 and
// rounded to it, times scale and rounded, softmax in fp32 with P rounded, P V accumulated in fp32 and rounded. Its
// error is the yardstick of FlashAttention's rule: max|kernel - fp64| <= 2 * max|plain - fp64| + atol.
//   out       [B, H, S, D] contiguous, of `dtype`
int flashcore_reference_plain(int32_t dtype, const void* q, const void* k, const void* v, void* out, int32_t B,
                              int32_t H, int32_t S, int32_t D, float scale, int32_t causal, int32_t threads);

// Fills out[0..count) with N(0, 1) * scale by Box and Muller, rounded to fp32 and then to `dtype`. Elements 2i and
// 2i + 1 come from block i of Philox 2x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC11) with
// the counter (i, stream), so that a value depends on no other and on no number of threads.
//   out       of `dtype`; count < 2^33
//   threads   as above
int flashcore_reference_normal(int32_t dtype, void* out, int64_t count, uint32_t key, uint32_t stream, double scale,
                               int32_t threads);

#ifdef __cplusplus
}
#endif
