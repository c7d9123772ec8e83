// nvcuda::wmma: fragments of half and bf16 operands with float or half accumulators, shapes m16n16k16, m32n8k16,
// m8n32k16, by clang's builtins. A fragment holds its registers as PTX has them.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

namespace detail {

template <class T>
struct IsCol {
  static constexpr int VALUE = 0;
};
template <>
struct IsCol<col_major> {
  static constexpr int VALUE = 1;
};

template <class T, int COUNT>
struct Elements {
  using element_type = T;
  using storage_element_type = T;
  static constexpr int num_elements = COUNT, num_storage_elements = COUNT;
  T x[COUNT];
};

}  // namespace detail

template <class Use, int M, int N, int K, class T, class Layout = void>
class fragment;

#define FLASHCORE_OPERANDS(M, N, K, T, A, B)                                       \
  template <class Layout>                                                          \
  class fragment<matrix_a, M, N, K, T, Layout> : public detail::Elements<T, A> {}; \
  template <class Layout>                                                          \
  class fragment<matrix_b, M, N, K, T, Layout> : public detail::Elements<T, B> {};

#define FLASHCORE_ACCUMULATORS(M, N, K)                                               \
  template <>                                                                         \
  class fragment<accumulator, M, N, K, float> : public detail::Elements<float, 8> {}; \
  template <>                                                                         \
  class fragment<accumulator, M, N, K, __half> : public detail::Elements<__half, 8> {};

#define FLASHCORE_LOAD_OPERAND(USE, M, N, K, T, BUILTIN)                                             \
  template <class Layout>                                                                            \
  FLASHCORE_DEVICE void load_matrix_sync(fragment<USE, M, N, K, T, Layout>& target, const T* memory, \
                                         unsigned stride) {                                          \
    BUILTIN((int*)target.x, (const int*)memory, stride, detail::IsCol<Layout>::VALUE);               \
  }

// The layouts of A and B, in the order of the builtins' numbers.
#define FLASHCORE_MULTIPLY(M, N, K, TD, TO, TC, D, C, BUILTIN)                                          \
  template <class LayoutA, class LayoutB>                                                               \
  FLASHCORE_DEVICE void mma_sync(                                                                       \
      fragment<accumulator, M, N, K, TD>& d, const fragment<matrix_a, M, N, K, TO, LayoutA>& a,         \
      const fragment<matrix_b, M, N, K, TO, LayoutB>& b, const fragment<accumulator, M, N, K, TC>& c) { \
    constexpr int LAYOUTS = 2 * detail::IsCol<LayoutA>::VALUE + detail::IsCol<LayoutB>::VALUE;          \
    BUILTIN((D*)d.x, (int*)a.x, (int*)b.x, (C*)c.x, LAYOUTS, 0);                                        \
  }

#define FLASHCORE_SHAPE(M, N, K, SHAPE, BF16_A, BF16_B)                                                         \
  FLASHCORE_OPERANDS(M, N, K, __half, 16, 16)                                                                   \
  FLASHCORE_OPERANDS(M, N, K, __nv_bfloat16, BF16_A, BF16_B)                                                    \
  FLASHCORE_ACCUMULATORS(M, N, K)                                                                               \
  FLASHCORE_LOAD_OPERAND(matrix_a, M, N, K, __half, __hmma_##SHAPE##_ld_a)                                      \
  FLASHCORE_LOAD_OPERAND(matrix_b, M, N, K, __half, __hmma_##SHAPE##_ld_b)                                      \
  FLASHCORE_LOAD_OPERAND(matrix_a, M, N, K, __nv_bfloat16, __mma_bf16_##SHAPE##_ld_a)                           \
  FLASHCORE_LOAD_OPERAND(matrix_b, M, N, K, __nv_bfloat16, __mma_bf16_##SHAPE##_ld_b)                           \
  FLASHCORE_DEVICE void load_matrix_sync(fragment<accumulator, M, N, K, float>& target, const float* memory,    \
                                         unsigned stride, layout_t layout) {                                    \
    if (layout == mem_col_major)                                                                                \
      __hmma_##SHAPE##_ld_c_f32(target.x, memory, stride, 1);                                                   \
    else                                                                                                        \
      __hmma_##SHAPE##_ld_c_f32(target.x, memory, stride, 0);                                                   \
  }                                                                                                             \
  FLASHCORE_DEVICE void load_matrix_sync(fragment<accumulator, M, N, K, __half>& target, const __half* memory,  \
                                         unsigned stride, layout_t layout) {                                    \
    if (layout == mem_col_major)                                                                                \
      __hmma_##SHAPE##_ld_c_f16((int*)target.x, (const int*)memory, stride, 1);                                 \
    else                                                                                                        \
      __hmma_##SHAPE##_ld_c_f16((int*)target.x, (const int*)memory, stride, 0);                                 \
  }                                                                                                             \
  FLASHCORE_DEVICE void store_matrix_sync(float* memory, const fragment<accumulator, M, N, K, float>& source,   \
                                          unsigned stride, layout_t layout) {                                   \
    if (layout == mem_col_major)                                                                                \
      __hmma_##SHAPE##_st_c_f32(memory, (float*)source.x, stride, 1);                                           \
    else                                                                                                        \
      __hmma_##SHAPE##_st_c_f32(memory, (float*)source.x, stride, 0);                                           \
  }                                                                                                             \
  FLASHCORE_DEVICE void store_matrix_sync(__half* memory, const fragment<accumulator, M, N, K, __half>& source, \
                                          unsigned stride, layout_t layout) {                                   \
    if (layout == mem_col_major)                                                                                \
      __hmma_##SHAPE##_st_c_f16((int*)memory, (int*)source.x, stride, 1);                                       \
    else                                                                                                        \
      __hmma_##SHAPE##_st_c_f16((int*)memory, (int*)source.x, stride, 0);                                       \
  }                                                                                                             \
  FLASHCORE_MULTIPLY(M, N, K, float, __half, float, float, float, __hmma_##SHAPE##_mma_f32f32)                  \
  FLASHCORE_MULTIPLY(M, N, K, float, __half, __half, float, int, __hmma_##SHAPE##_mma_f32f16)                   \
  FLASHCORE_MULTIPLY(M, N, K, __half, __half, float, int, float, __hmma_##SHAPE##_mma_f16f32)                   \
  FLASHCORE_MULTIPLY(M, N, K, __half, __half, __half, int, int, __hmma_##SHAPE##_mma_f16f16)                    \
  FLASHCORE_MULTIPLY(M, N, K, float, __nv_bfloat16, float, float, float, __mma_bf16_##SHAPE##_mma_f32)

FLASHCORE_SHAPE(16, 16, 16, m16n16k16, 8, 8)
FLASHCORE_SHAPE(32, 8, 16, m32n8k16, 16, 4)
FLASHCORE_SHAPE(8, 32, 16, m8n32k16, 4, 16)

#undef FLASHCORE_SHAPE
#undef FLASHCORE_MULTIPLY
#undef FLASHCORE_LOAD_OPERAND
#undef FLASHCORE_ACCUMULATORS
#undef FLASHCORE_OPERANDS

template <class Use, int M, int N, int K, class T, class Layout, class Value>
FLASHCORE_DEVICE void fill_fragment(fragment<Use, M, N, K, T, Layout>& target, Value value) {
#pragma unroll
  for (int i = 0; i < target.num_elements; ++i) target.x[i] = value;
}

}  // namespace wmma
}  // namespace nvcuda
