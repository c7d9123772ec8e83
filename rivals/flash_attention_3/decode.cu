// FlashAttention-3's forward pass for a few queries on a full cache, its keys split as its own API splits them, as a C
// function for one head dimension and one dtype: build.sh defines HEAD_DIM, ELEMENT, IS_BF16, FUNCTION and
// FUNCTION_FLOATS.
#undef FLASHATTENTION_DISABLE_SPLIT
#include "combine.h"
#include "flash_fwd_launch_template.h"
#include "heuristics.h"

namespace {

constexpr int ARCH = 90, MOST_SPLITS = 128;

struct Sizes {
  int B, H, Hkv, S, Skv, multiprocessors;
  // One query is the last of its sequence, so it sees all keys.
  bool causal() const { return S > 1; }
  std::tuple<int, int, bool, bool> tile() const { return tile_size_fwd_sm90(HEAD_DIM, HEAD_DIM, causal(), false); }
};

// As get_num_splits() of its API, with the heads that share K and V in one tile.
int splits_of(const Sizes& of) {
  const auto tiles = [](int extent, int each) { return (extent + each - 1) / each; };
  const int rows = tiles(of.S * (of.H / of.Hkv), std::get<0>(of.tile())), keys = tiles(of.Skv, std::get<1>(of.tile()));
  const int bytes_of_head = of.Skv * 2 * HEAD_DIM * static_cast<int>(sizeof(ELEMENT));
  return num_splits_heuristic(of.B * of.Hkv * rows, of.multiprocessors, keys, rows, bytes_of_head, of.causal(),
                              MOST_SPLITS);
}

// Whether the heads that share K and V are in one tile, as get_pack_gqa() of its API decides.
bool packs_heads(const Sizes& of, int splits) {
  if (splits > 1) return true;
  return of.H != of.Hkv && should_pack_gqa(false, of.S, of.H / of.Hkv, std::get<0>(of.tile()));
}

// One CTA a cluster: its API takes two for an even number of tiles of queries, and decoding without a mask has one tile.
template <bool CAUSAL, bool SPLIT, bool PACKS_HEADS>
void run(Flash_fwd_params& params, cudaStream_t stream) {
  constexpr bool LOCAL = false, SOFTCAP = false, VARLEN = false, PAGES = false, APPENDS = false, QV = false;
  run_flash_fwd<ARCH, HEAD_DIM, HEAD_DIM, 1, ELEMENT, ELEMENT, CAUSAL, LOCAL, SOFTCAP, VARLEN, PAGES, APPENDS, QV,
                PACKS_HEADS, SPLIT, false>(params, stream);
}

template <bool SPLIT, bool PACKS_HEADS>
void run(Flash_fwd_params& params, cudaStream_t stream) {
  params.is_causal ? run<true, SPLIT, PACKS_HEADS>(params, stream) : run<false, SPLIT, PACKS_HEADS>(params, stream);
}

}  // namespace

// Number of floats of scratch memory that FUNCTION needs for these arguments.
extern "C" int64_t FUNCTION_FLOATS(int B, int H, int Hkv, int S, int Skv, int multiprocessors) {
  const int64_t splits = splits_of({B, H, Hkv, S, Skv, multiprocessors});
  return splits == 1 ? 1 : splits * B * H * S * (HEAD_DIM + 1);
}

// q and o [B, S, H, HEAD_DIM], k and v [B, Skv, Hkv, HEAD_DIM], contiguous; lse [B, H, S] fp32; semaphore: one int.
// Draft queries do not see the keys of those after them. Returns 0, or the CUDA error of clearing the semaphore.
extern "C" int FUNCTION(void* q, void* k, void* v, void* o, float* lse, int* semaphore, float* scratch, int B, int H,
                        int Hkv, int S, int Skv, float scale, int multiprocessors, void* stream) {
  const Sizes sizes{B, H, Hkv, S, Skv, multiprocessors};
  Flash_fwd_params params{};
  params.q_ptr = q, params.k_ptr = k, params.v_ptr = v, params.o_ptr = o, params.softmax_lse_ptr = lse;
  params.is_bf16 = IS_BF16;
  params.q_row_stride = params.o_row_stride = int64_t(H) * HEAD_DIM;
  params.k_row_stride = params.v_row_stride = int64_t(Hkv) * HEAD_DIM;
  params.q_batch_stride = params.o_batch_stride = S * params.q_row_stride;
  params.k_batch_stride = params.v_batch_stride = Skv * params.k_row_stride;
  params.q_head_stride = params.k_head_stride = params.v_head_stride = params.o_head_stride = HEAD_DIM;
  params.v_dim_stride = 1;
  params.b = params.b_k = B, params.h = H, params.h_k = Hkv, params.seqlen_q = S, params.seqlen_k = Skv;
  params.d = params.d_rounded = params.dv = params.dv_rounded = HEAD_DIM;
  params.seqlen_q_rounded = (S + 127) / 128 * 128, params.seqlen_k_rounded = (Skv + 127) / 128 * 128;
  params.total_q = B * S, params.total_k = B * Skv;
  params.scale_softmax = scale;
  params.p_dropout = params.rp_dropout = 1.0f, params.p_dropout_in_uint8_t = 255;
  params.is_causal = sizes.causal(), params.window_size_left = -1, params.window_size_right = sizes.causal() ? 0 : -1;
  params.arch = ARCH, params.num_sm = multiprocessors;
  params.num_splits = splits_of(sizes);
  params.pack_gqa = packs_heads(sizes, params.num_splits);
  const cudaStream_t on = static_cast<cudaStream_t>(stream);
  if (params.num_splits == 1) {
    // Only the scheduler of causal launches counts tiles. Clearing its count takes a launch of its own.
    if (sizes.causal()) {
      params.tile_count_semaphore = semaphore;
      if (const cudaError_t code = cudaMemsetAsync(semaphore, 0, sizeof(int), on)) return code;
    }
    params.pack_gqa ? run<false, true>(params, on) : run<false, false>(params, on);
    return 0;
  }
  params.oaccum_ptr = scratch;
  params.oaccum_row_stride = HEAD_DIM, params.oaccum_head_stride = int64_t(S) * HEAD_DIM;
  params.oaccum_batch_stride = H * params.oaccum_head_stride;
  params.oaccum_split_stride = B * params.oaccum_batch_stride;
  params.softmax_lseaccum_ptr = scratch + params.num_splits * params.oaccum_split_stride;
  params.lseaccum_head_stride = S, params.lseaccum_batch_stride = int64_t(H) * S;
  params.lseaccum_split_stride = B * params.lseaccum_batch_stride;
  run<true, true>(params, on);
  combine(params, on);
  return 0;
}
