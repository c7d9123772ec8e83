#include <cute/tensor.hpp>
#include <cuda_fp16.h>

using namespace cute;

constexpr int ROWS = 64, KEYS = 64, DEPTH = 64;
using Atom = decltype(composition(Swizzle<3, 3, 3>{}, Layout<Shape<_8, _64>, Stride<_64, _1>>{}));
using Tile64 = decltype(tile_to_shape(Atom{}, Shape<_64, _64>{}));
using Transposed = decltype(composition(Tile64{}, Layout<Shape<_64, _64>, Stride<_64, _1>>{}));
using Mma = TiledMMA<MMA_Atom<SM80_16x8x16_F32F16F16F32_TN>, Layout<Shape<_4, _1, _1>>, Tile<_64, _16, _16>>;

template <class Copy, class Source, class Target>
__device__ void load(Copy copy_tile, Source const& source, Target&& target) {
  auto mine = copy_tile.get_thread_slice(threadIdx.x);
  copy(copy_tile, mine.partition_S(source), mine.partition_D(target));
}

extern "C" __global__ void __launch_bounds__(128)
    cute_attention(const half* Q, const half* K, const half* V, half* O, int S, float scale, int causal) {
  extern __shared__ __align__(128) unsigned char shared[];
  auto* tiles = reinterpret_cast<half_t*>(shared);
  auto of = [&](const half* data) {
    auto* head = reinterpret_cast<const half_t*>(data) + size_t(blockIdx.y) * S * DEPTH;
    return make_tensor(make_gmem_ptr(head), make_shape(S, Int<DEPTH>{}), make_stride(Int<DEPTH>{}, _1{}));
  };
  Tensor sQ = make_tensor(make_smem_ptr(tiles), Tile64{});
  Tensor sK = make_tensor(make_smem_ptr(tiles + ROWS * DEPTH), Tile64{});
  Tensor sV = make_tensor(make_smem_ptr(tiles + (ROWS + KEYS) * DEPTH), Tile64{});
  Tensor sVt = make_tensor(sV.data(), Transposed{});
  auto from_global = make_tiled_copy(Copy_Atom<SM80_CP_ASYNC_CACHEALWAYS<uint128_t>, half_t>{},
                                     Layout<Shape<_16, _8>, Stride<_8, _1>>{}, Layout<Shape<_1, _8>>{});
  Mma mma;
  auto my = mma.get_thread_slice(threadIdx.x);
  Tensor rQ = my.partition_fragment_A(sQ);
  Tensor rK = my.partition_fragment_B(sK);
  Tensor rV = my.partition_fragment_B(make_tensor(sV.data(), get_nonswizzle_portion(Transposed{})));
  Tensor o = partition_fragment_C(mma, Shape<_64, _64>{});
  clear(o);
  auto copy_Q = make_tiled_copy_A(Copy_Atom<SM75_U32x4_LDSM_N, half_t>{}, mma);
  auto copy_K = make_tiled_copy_B(Copy_Atom<SM75_U32x4_LDSM_N, half_t>{}, mma);
  auto copy_V = make_tiled_copy_B(Copy_Atom<SM75_U16x8_LDSM_T, half_t>{}, mma);
  auto my_Q = copy_Q.get_thread_slice(threadIdx.x);
  auto my_K = copy_K.get_thread_slice(threadIdx.x);
  auto my_V = copy_V.get_thread_slice(threadIdx.x);

  load(from_global, local_tile(of(Q), Shape<_64, _64>{}, make_coord(blockIdx.x, 0)), sQ);
  const int lane = threadIdx.x % 32, first_row = blockIdx.x * ROWS + threadIdx.x / 32 * 16 + lane / 4;
  float maximum[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  const int tiles_of_keys = causal ? int(blockIdx.x) + 1 : S / KEYS;
  for (int tile = 0; tile < tiles_of_keys; ++tile) {
    load(from_global, local_tile(of(K), Shape<_64, _64>{}, make_coord(tile, 0)), sK);
    load(from_global, local_tile(of(V), Shape<_64, _64>{}, make_coord(tile, 0)), sV);
    cp_async_fence();
    cp_async_wait<0>();
    __syncthreads();
    if (tile == 0) copy(copy_Q, my_Q.partition_S(sQ), my_Q.retile_D(rQ));
    copy(copy_K, my_K.partition_S(sK), my_K.retile_D(rK));
    copy(copy_V, my_V.partition_S(sVt), my_V.retile_D(rV));
    Tensor s = partition_fragment_C(mma, Shape<_64, _64>{});
    clear(s);
    gemm(mma, rQ, rK, s);
    for (int r = 0; r < 2; ++r) {
      float highest = maximum[r];
      for (int n = 0; n < size<2>(s); ++n)
        for (int c = 0; c < 2; ++c) {
          float& score = s(make_coord(c, r), 0, n);
          const int key = tile * KEYS + n * 8 + lane % 4 * 2 + c;
          score = causal && key > first_row + 8 * r ? -INFINITY : score * scale;
          highest = fmaxf(highest, score);
        }
      for (int step = 1; step <= 2; step *= 2) highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, step));
      const float shrink = __expf(maximum[r] - highest);
      maximum[r] = highest;
      sum[r] *= shrink;
      for (int n = 0; n < size<2>(s); ++n)
        for (int c = 0; c < 2; ++c) {
          float& score = s(make_coord(c, r), 0, n);
          score = __expf(score - highest);
          sum[r] += score;
          o(make_coord(c, r), 0, n) *= shrink;
        }
    }
    Tensor halves = make_tensor<half_t>(s.layout());
    for (int i = 0; i < size(s); ++i) halves(i) = half_t(s(i));
    auto paired = logical_divide(s.layout(), Shape<X, X, _2>{});
    auto as_A = make_layout(make_layout(get<0, 0>(paired), get<0, 1>(paired), get<2, 0>(paired)), get<1>(paired),
                            get<2, 1>(paired));
    gemm(mma, make_tensor(halves.data(), as_A), rV, o);
    __syncthreads();
  }
  for (int r = 0; r < 2; ++r) {
    for (int step = 1; step <= 2; step *= 2) sum[r] += __shfl_xor_sync(~0u, sum[r], step);
    half* row = O + (size_t(blockIdx.y) * S + first_row + 8 * r) * DEPTH + lane % 4 * 2;
    for (int n = 0; n < size<2>(o); ++n)
      *reinterpret_cast<half2*>(row + n * 8) =
          __floats2half2_rn(o(make_coord(0, r), 0, n) / sum[r], o(make_coord(1, r), 0, n) / sum[r]);
  }
}
