// nvcuda::wmma: fragments of half or bf16 operands with float or half accumulators, shapes m16n16k16, m32n8k16,
// m8n32k16. CUDA does not specify how elements are spread over the lanes. An operand in row order is cut into 32 parts.
// Lane i holds part i twice (num_elements is 16, as on hardware). Accumulators of m16n16 are spread as on sm_80 and
// sm_89.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "flashcore_emulator/matrix.h"
#include "flashcore_emulator/tensor_core.h"
#include "flashcore_emulator/warp.h"

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

namespace detail {

using namespace flashcore::emu;

template <class Use, int M, int N, int K>
struct Extent;
template <int M, int N, int K>
struct Extent<matrix_a, M, N, K> {
  static constexpr int ROWS = M, COLS = K;
};
template <int M, int N, int K>
struct Extent<matrix_b, M, N, K> {
  static constexpr int ROWS = K, COLS = N;
};
template <int M, int N, int K>
struct Extent<accumulator, M, N, K> {
  static constexpr int ROWS = M, COLS = N;
};

template <class T>
constexpr bool is_operand_type = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

/**
 * Row and column of element i of a lane in a 16 x 16 accumulator. Each lane holds a pair of elements in each 8 x 8
 * quarter.
 */
__forceinline__ int accumulator_row(int lane, int i) { return lane / 4 + 8 * (i / 2 % 2); }
__forceinline__ int accumulator_col(int lane, int i) { return 2 * (lane % 4) + i % 2 + 8 * (i / 4); }

}  // namespace detail

template <class Use, int M, int N, int K, class T, class Layout = void>
class fragment {
  using E = detail::Extent<Use, M, N, K>;

 public:
  static_assert((M == 16 && N == 16 && K == 16) || (M == 32 && N == 8 && K == 16) || (M == 8 && N == 32 && K == 16),
                "the emulator has wmma shapes m16n16k16, m32n8k16 and m8n32k16");
  static constexpr bool IS_ACCUMULATOR = std::is_same_v<Use, accumulator>;
  static_assert(IS_ACCUMULATOR ? std::is_same_v<T, float> || std::is_same_v<T, __half> : detail::is_operand_type<T>,
                "the emulator has half and bf16 operands, and float and half accumulators");
  using element_type = T;
  using storage_element_type = T;
  static constexpr int ROWS = E::ROWS, COLS = E::COLS;
  static constexpr int DISTINCT = ROWS * COLS / 32;  // matrix elements that a lane holds
  static constexpr int COPIES = !IS_ACCUMULATOR && DISTINCT <= 8 ? 2 : 1;
  static constexpr int num_elements = DISTINCT * COPIES;
  static constexpr int num_storage_elements = num_elements;
  T x[num_elements];

  /** Row and column of element i (of the first copy) in lane `lane`. */
  static __forceinline__ int row_of(int lane, int i) {
    if constexpr (IS_ACCUMULATOR && ROWS == 16) return detail::accumulator_row(lane, i);
    return (lane * DISTINCT + i) / COLS;
  }
  static __forceinline__ int col_of(int lane, int i) {
    if constexpr (IS_ACCUMULATOR && ROWS == 16) return detail::accumulator_col(lane, i);
    return (lane * DISTINCT + i) % COLS;
  }
};

namespace detail {

template <class Fragment, class Pointer>
struct MemoryDeposit {
  Fragment* fragment;
  Pointer memory;
  unsigned stride;
  bool row_major;
};

/** Collects the whole matrix in row order from the lanes. */
template <class Fragment, class Pointer>
__attribute__((noinline)) void load_for_all(MemoryDeposit<Fragment, Pointer>* const* lanes) {
  require_whole_warp(reinterpret_cast<void* const*>(lanes), "load_matrix_sync needs all 32 lanes of the warp");
  using T = typename Fragment::element_type;
  const MemoryDeposit<Fragment, Pointer>& how = *lanes[0];
  check_aligned<16>(how.memory, false);
  if (how.row_major && !Fragment::IS_ACCUMULATOR && Fragment::COLS % Fragment::DISTINCT == 0) {
    for (int lane = 0; lane < 32; ++lane) {  // each lane holds a piece of one row
      T* to = lanes[lane]->fragment->x;
      memcpy(static_cast<void*>(to), how.memory + Fragment::row_of(lane, 0) * how.stride + Fragment::col_of(lane, 0),
             Fragment::DISTINCT * sizeof(T));
      if (Fragment::COPIES == 2)
        memcpy(static_cast<void*>(to + Fragment::DISTINCT), to, Fragment::DISTINCT * sizeof(T));
    }
    return;
  }
  const unsigned row_step = how.row_major ? how.stride : 1, col_step = how.row_major ? 1 : how.stride;
  for (int lane = 0; lane < 32; ++lane) {
    T* to = lanes[lane]->fragment->x;
    for (int i = 0; i < Fragment::DISTINCT; ++i)
      to[i] = how.memory[Fragment::row_of(lane, i) * row_step + Fragment::col_of(lane, i) * col_step];
    if (Fragment::COPIES == 2) memcpy(static_cast<void*>(to + Fragment::DISTINCT), to, Fragment::DISTINCT * sizeof(T));
  }
}

template <class Fragment, class Pointer>
__attribute__((noinline)) void store_for_all(MemoryDeposit<Fragment, Pointer>* const* lanes) {
  require_whole_warp(reinterpret_cast<void* const*>(lanes), "store_matrix_sync needs all 32 lanes of the warp");
  const MemoryDeposit<Fragment, Pointer>& how = *lanes[0];
  check_aligned<16>(how.memory, true);
  const unsigned row_step = how.row_major ? how.stride : 1, col_step = how.row_major ? 1 : how.stride;
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < Fragment::DISTINCT; ++i)
      how.memory[Fragment::row_of(lane, i) * row_step + Fragment::col_of(lane, i) * col_step] =
          lanes[lane]->fragment->x[i];
}

template <class D, class A, class B, class C>
struct MultiplyDeposit {
  D* d;
  const A* a;
  const B* b;
  const C* c;
};

template <class T>
__forceinline__ void to_floats(const T* values, float* floats, int count) {
  const auto* bits = reinterpret_cast<const uint16_t*>(values);
  if constexpr (std::is_same_v<T, __half>)
    halves_to_floats(bits, floats, count);
  else
    bfloat16s_to_floats(bits, floats, count);
}

template <int COLS>
struct RowVector {
  typedef float type __attribute__((vector_size(4 * COLS)));
};

/** Elements i and i + 1 of a lane (i even) are neighbors in a row of floats. */
template <class Accumulator>
constexpr bool in_pairs = Accumulator::ROWS == 16 && std::is_same_v<typename Accumulator::element_type, float>;

template <int M, int N, int K, class D, class A, class B, class C>
__attribute__((noinline)) void multiply_for_all(MultiplyDeposit<D, A, B, C>* const* lanes) {
  require_whole_warp(reinterpret_cast<void* const*>(lanes), "mma_sync needs all 32 lanes of the warp");
  using Row = typename RowVector<N>::type;
  float a[M][K];
  Row b[K], c[M];
  float* b_elements = reinterpret_cast<float*>(&b[0]);
  float* c_elements = reinterpret_cast<float*>(&c[0]);
  for (int lane = 0; lane < 32; ++lane) {
    to_floats(lanes[lane]->a->x, &a[0][0] + lane * A::DISTINCT, A::DISTINCT < 8 ? 0 : A::DISTINCT);
    to_floats(lanes[lane]->b->x, b_elements + lane * B::DISTINCT, B::DISTINCT < 8 ? 0 : B::DISTINCT);
    if constexpr (A::DISTINCT < 8)
      for (int i = 0; i < A::DISTINCT; ++i)
        (&a[0][0])[lane * A::DISTINCT + i] = static_cast<float>(lanes[lane]->a->x[i]);
    if constexpr (B::DISTINCT < 8)
      for (int i = 0; i < B::DISTINCT; ++i)
        b_elements[lane * B::DISTINCT + i] = static_cast<float>(lanes[lane]->b->x[i]);
    if constexpr (in_pairs<C>)
      for (int i = 0; i < C::DISTINCT; i += 2)
        memcpy(&c_elements[C::row_of(lane, i) * N + C::col_of(lane, i)], &lanes[lane]->c->x[i], 8);
    else
      for (int i = 0; i < C::DISTINCT; ++i)
        c_elements[C::row_of(lane, i) * N + C::col_of(lane, i)] = static_cast<float>(lanes[lane]->c->x[i]);
  }
  multiply_add(a, b, c);
  for (int lane = 0; lane < 32; ++lane)
    if constexpr (in_pairs<D>)
      for (int i = 0; i < D::DISTINCT; i += 2)
        memcpy(&lanes[lane]->d->x[i], &c_elements[D::row_of(lane, i) * N + D::col_of(lane, i)], 8);
    else
      for (int i = 0; i < D::DISTINCT; ++i)
        lanes[lane]->d->x[i] =
            static_cast<typename D::element_type>(c_elements[D::row_of(lane, i) * N + D::col_of(lane, i)]);
}

}  // namespace detail

template <class Use, int M, int N, int K, class T, class Layout>
__forceinline__ void fill_fragment(fragment<Use, M, N, K, T, Layout>& target, const T& value) {
  for (T& element : target.x) element = value;
}

template <class Use, int M, int N, int K, class T, class Layout>
inline void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& target, const T* memory, unsigned stride,
                             FLASHCORE_PLACE_PARAMETERS) {
  detail::MemoryDeposit<fragment<Use, M, N, K, T, Layout>, const T*> mine{&target, memory, stride,
                                                                          std::is_same_v<Layout, row_major>};
  flashcore::emu::warp_meeting({flashcore::emu::WARP_WMMA_LOAD, flashcore::emu::FULL_WARP},
                               {"load_matrix_sync()", {file, line}}, mine,
                               detail::load_for_all<fragment<Use, M, N, K, T, Layout>, const T*>);
}

template <int M, int N, int K, class T>
inline void load_matrix_sync(fragment<accumulator, M, N, K, T>& target, const T* memory, unsigned stride,
                             layout_t layout, FLASHCORE_PLACE_PARAMETERS) {
  detail::MemoryDeposit<fragment<accumulator, M, N, K, T>, const T*> mine{&target, memory, stride,
                                                                          layout == mem_row_major};
  flashcore::emu::warp_meeting({flashcore::emu::WARP_WMMA_LOAD, flashcore::emu::FULL_WARP},
                               {"load_matrix_sync()", {file, line}}, mine,
                               detail::load_for_all<fragment<accumulator, M, N, K, T>, const T*>);
}

template <int M, int N, int K, class T>
inline void store_matrix_sync(T* memory, const fragment<accumulator, M, N, K, T>& source, unsigned stride,
                              layout_t layout, FLASHCORE_PLACE_PARAMETERS) {
  detail::MemoryDeposit<const fragment<accumulator, M, N, K, T>, T*> mine{&source, memory, stride,
                                                                          layout == mem_row_major};
  flashcore::emu::warp_meeting({flashcore::emu::WARP_WMMA_STORE, flashcore::emu::FULL_WARP},
                               {"store_matrix_sync()", {file, line}}, mine,
                               detail::store_for_all<const fragment<accumulator, M, N, K, T>, T*>);
}

template <int M, int N, int K, class TD, class TA, class LayoutA, class TB, class LayoutB, class TC>
inline void mma_sync(fragment<accumulator, M, N, K, TD>& d, const fragment<matrix_a, M, N, K, TA, LayoutA>& a,
                     const fragment<matrix_b, M, N, K, TB, LayoutB>& b, const fragment<accumulator, M, N, K, TC>& c,
                     FLASHCORE_PLACE_PARAMETERS) {
  using D = fragment<accumulator, M, N, K, TD>;
  using A = fragment<matrix_a, M, N, K, TA, LayoutA>;
  using B = fragment<matrix_b, M, N, K, TB, LayoutB>;
  using C = fragment<accumulator, M, N, K, TC>;
  detail::MultiplyDeposit<D, A, B, C> mine{&d, &a, &b, &c};
  flashcore::emu::warp_meeting({flashcore::emu::WARP_WMMA_MMA, flashcore::emu::FULL_WARP}, {"mma_sync()", {file, line}},
                               mine, detail::multiply_for_all<M, N, K, D, A, B, C>);
}

}  // namespace wmma
}  // namespace nvcuda
