// FlashAttention-3's forward pass for a few queries on a paged cache, as C functions for one head dimension and one
// dtype: build.sh defines HEAD_DIM, ELEMENT, IS_BF16, FUNCTION, FUNCTION_FLOATS and FUNCTION_PLAN. Lengths are read on
// the device. Pages of fewer keys than a tile are copied by cp.async rather than TMA, as its API does for few queries.
#undef FLASHATTENTION_DISABLE_SPLIT
#include "combine.h"
#include "flash_fwd_launch_template.h"
#include "heuristics.h"

namespace {

constexpr int ARCH = 90, MOST_SPLITS = 128;
// Vectors of B ints in a plan: splits, tiles of queries, order of the sequences, heads that fit into L2.
constexpr int VECTORS = 4;

struct Sizes {
  int B, H, Hkv, S, page, pages_of_sequence, pages_of_pool, multiprocessors;
  // Whether the kernel for causal masks runs if the caller asks for one, as inference engines do.
  bool causal() const { return S > 1 || HEAD_DIM == 128; }
  int keys() const { return pages_of_sequence * page; }
  int rounded_batch() const { return (B + 3) / 4 * 4; }
  std::tuple<int, int, bool, bool> tile() const {
    return tile_size_fwd_sm90(HEAD_DIM, HEAD_DIM, causal(), false, sizeof(ELEMENT), false, true);
  }
};

// As get_num_splits() of its API: an upper bound, for one long sequence among short ones.
int most_splits(const Sizes& of) {
  const auto tiles = [](int extent, int each) { return (extent + each - 1) / each; };
  const int rows = tiles(of.S * (of.H / of.Hkv), std::get<0>(of.tile()));
  const int keys = tiles(of.keys(), std::get<1>(of.tile()));
  const int bytes_of_head = of.keys() * 2 * HEAD_DIM * static_cast<int>(sizeof(ELEMENT));
  return num_splits_heuristic(of.Hkv * rows, of.multiprocessors, keys, rows, bytes_of_head, of.causal(), MOST_SPLITS);
}

Flash_fwd_params params_of(const Sizes& of, int* plan, int* lengths) {
  Flash_fwd_params params{};
  params.is_bf16 = IS_BF16;
  params.b = params.b_k = of.B, params.h = of.H, params.h_k = of.Hkv;
  params.seqlen_q = of.S, params.seqlen_k = of.keys(), params.seqused_k = lengths;
  params.d = params.d_rounded = params.dv = params.dv_rounded = HEAD_DIM;
  params.is_causal = of.causal();
  params.window_size_left = -1, params.window_size_right = of.causal() ? 0 : -1;
  params.page_size = of.page, params.num_pages = of.pages_of_pool;
  params.arch = ARCH, params.num_sm = of.multiprocessors, params.pack_gqa = true;
  params.num_splits = most_splits(of);
  params.prepare_varlen_pdl = true, params.varlen_sort_batches = true, params.head_swizzle = of.causal();
  params.num_splits_dynamic_ptr = plan;
  params.num_m_blocks_ptr = plan + of.rounded_batch();
  params.varlen_batch_idx_ptr = plan + 2 * of.rounded_batch();
  params.num_nheads_in_l2_ptr = of.causal() ? plan + 3 * of.rounded_batch() : nullptr;
  params.tile_count_semaphore_offset = VECTORS * of.rounded_batch();
  params.tile_count_semaphore = plan + params.tile_count_semaphore_offset;
  return params;
}

template <bool CAUSAL, bool SPLIT>
void run(Flash_fwd_params& params, cudaStream_t stream) {
  constexpr bool LOCAL = false, SOFTCAP = false, VARLEN = true, PAGES_WITHOUT_TMA = true, APPENDS = false, QV = false;
  constexpr bool PACKS_HEADS = true, V_COLUMNS = false;
  run_flash_fwd<ARCH, HEAD_DIM, HEAD_DIM, 1, ELEMENT, ELEMENT, CAUSAL, LOCAL, SOFTCAP, VARLEN, PAGES_WITHOUT_TMA,
                APPENDS, QV, PACKS_HEADS, SPLIT, V_COLUMNS>(params, stream);
}

}  // namespace

// Number of floats of scratch memory that FUNCTION needs for these arguments.
extern "C" int64_t FUNCTION_FLOATS(int B, int H, int Hkv, int S, int page, int pages_of_sequence, int multiprocessors) {
  const int64_t splits = most_splits({B, H, Hkv, S, page, pages_of_sequence, 0, multiprocessors});
  return splits == 1 ? 1 : splits * B * H * S * (HEAD_DIM + 1);
}

// Plans on the device for lengths [B] on the device, as get_scheduler_metadata() of its API. plan has 4 times B (rounded
// up to a multiple of 4) ints and one more. Returns 0 or a CUDA error.
extern "C" int FUNCTION_PLAN(int* plan, int* lengths, int B, int H, int Hkv, int S, int page, int pages_of_sequence,
                             int multiprocessors, void* stream) {
  const Sizes sizes{B, H, Hkv, S, page, pages_of_sequence, 0, multiprocessors};
  Flash_fwd_params params = params_of(sizes, plan, lengths);
  prepare_varlen_num_blocks(params, static_cast<cudaStream_t>(stream), true, std::get<0>(sizes.tile()),
                            std::get<1>(sizes.tile()), false);
  return cudaGetLastError();
}

// q and o [B, S, H, HEAD_DIM], k and v [pages_of_pool, page, Hkv, HEAD_DIM], contiguous; table [B, pages_of_sequence];
// lse [B, H, S] fp32. Draft queries do not see the keys of those after them. Returns 0 or a CUDA error.
extern "C" int FUNCTION(void* q, void* k, void* v, void* o, float* lse, int* plan, int* lengths, int* table,
                        float* scratch, int B, int H, int Hkv, int S, int page, int pages_of_sequence,
                        int pages_of_pool, float scale, int multiprocessors, void* stream) {
  const Sizes sizes{B, H, Hkv, S, page, pages_of_sequence, pages_of_pool, multiprocessors};
  Flash_fwd_params params = params_of(sizes, plan, lengths);
  params.skip_scheduler_metadata_computation = true;
  params.q_ptr = q, params.k_ptr = k, params.v_ptr = v, params.o_ptr = o, params.softmax_lse_ptr = lse;
  params.q_row_stride = params.o_row_stride = int64_t(H) * HEAD_DIM;
  params.k_row_stride = params.v_row_stride = int64_t(Hkv) * HEAD_DIM;
  params.q_batch_stride = params.o_batch_stride = S * params.q_row_stride;
  params.k_batch_stride = params.v_batch_stride = page * params.k_row_stride;
  params.q_head_stride = params.k_head_stride = params.v_head_stride = params.o_head_stride = HEAD_DIM;
  params.v_dim_stride = 1;
  params.page_table = table, params.page_table_batch_stride = pages_of_sequence;
  params.seqlen_q_rounded = (S + 127) / 128 * 128, params.seqlen_k_rounded = (sizes.keys() + 127) / 128 * 128;
  params.total_q = B * S, params.total_k = B * page;
  params.scale_softmax = scale;
  params.p_dropout = params.rp_dropout = 1.0f, params.p_dropout_in_uint8_t = 255;
  const cudaStream_t on = static_cast<cudaStream_t>(stream);
  constexpr bool ALWAYS_CAUSAL = HEAD_DIM == 128;
  if (params.num_splits == 1) {
    if (ALWAYS_CAUSAL || params.is_causal)
      run<true, false>(params, on);
    else
      run<ALWAYS_CAUSAL, false>(params, on);
    // The next launch with this plan starts to count at 0.
    return cudaMemsetAsync(params.tile_count_semaphore, 0, sizeof(int), on);
  }
  params.oaccum_ptr = scratch;
  params.oaccum_row_stride = HEAD_DIM, params.oaccum_head_stride = int64_t(S) * HEAD_DIM;
  params.oaccum_batch_stride = H * params.oaccum_head_stride;
  params.oaccum_split_stride = B * params.oaccum_batch_stride;
  params.softmax_lseaccum_ptr = scratch + params.num_splits * params.oaccum_split_stride;
  params.lseaccum_head_stride = S, params.lseaccum_batch_stride = int64_t(H) * S;
  params.lseaccum_split_stride = B * params.lseaccum_batch_stride;
  if (ALWAYS_CAUSAL || params.is_causal)
    run<true, true>(params, on);
  else
    run<ALWAYS_CAUSAL, true>(params, on);
  combine(params, on);
  return 0;
}
