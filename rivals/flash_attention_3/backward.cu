// FlashAttention-3's backward pass as a C function, for one head dimension and one dtype. build.sh defines HEAD_DIM,
// ELEMENT, IS_BF16 and FUNCTION. The kernels need neither PyTorch nor FlashAttention's build, only Flash_bwd_params.
// The tiles are those that run_mha_bwd_hdim64 and run_mha_bwd_hdim128 choose on Hopper. There is no deterministic form.
#include "flash_bwd_launch_template.h"

namespace {

template <bool CAUSAL, bool SHARED>
void run(Flash_bwd_params& params, cudaStream_t stream) {
  constexpr int ARCH = 90, KEYS = 128, ROWS = HEAD_DIM == 64 ? 128 : CAUSAL ? 64 : 80;
  constexpr bool LOCAL = false, SOFTCAP = false, VARLEN = false, DETERMINISTIC = false;
  constexpr bool SWAPS_DQ = HEAD_DIM == 128 && !CAUSAL;
  run_flash_bwd<ARCH, HEAD_DIM, ROWS, KEYS, ELEMENT, CAUSAL, LOCAL, SOFTCAP, VARLEN, DETERMINISTIC, SHARED, 2, 2, true,
                false, SWAPS_DQ, 2, 1, 2, HEAD_DIM == 64 ? 2 : 1, false>(params, stream);
}

constexpr size_t MOST_ROWS = 128, KEYS = 128;
int64_t rounded(int length, int tile) { return int64_t(length + tile - 1) / tile * tile; }

}  // namespace

// How many floats of scratch memory FUNCTION needs for these arguments.
extern "C" int64_t FUNCTION_FLOATS(int B, int H, int Hkv, int S, int Skv) {
  const int64_t rows = int64_t(B) * H * (S + MOST_ROWS);
  return rows * (HEAD_DIM + 2) + rows + 2 * B * Hkv * rounded(Skv, KEYS) * HEAD_DIM;
}

// q, o, dO and dq are [B, H, S, HEAD_DIM], and k, v, dk and dv are [B, Hkv, Skv, HEAD_DIM], all contiguous. lse is [B,
// H, S] in fp32, in natural logarithms. The causal mask aligns the last query with the last key. Returns 0, or the CUDA
// error of clearing the sums for heads that share K and V.
extern "C" int FUNCTION(void* q, void* k, void* v, void* o, void* dO, float* lse, void* dq, void* dk, void* dv,
                        float* scratch, int B, int H, int Hkv, int S, int Skv, int causal, float scale,
                        int multiprocessors, void* stream) {
  const int tile = HEAD_DIM == 64 ? 128 : causal ? 64 : 80;
  Flash_bwd_params params{};
  params.q_ptr = q, params.k_ptr = k, params.v_ptr = v, params.o_ptr = o, params.do_ptr = dO;
  params.dq_ptr = dq, params.dk_ptr = dk, params.dv_ptr = dv, params.softmax_lse_ptr = lse;
  params.is_bf16 = IS_BF16;
  params.q_batch_stride = params.o_batch_stride = params.do_batch_stride = params.dq_batch_stride =
      int64_t(H) * S * HEAD_DIM;
  params.k_batch_stride = params.v_batch_stride = params.dk_batch_stride = params.dv_batch_stride =
      int64_t(Hkv) * Skv * HEAD_DIM;
  params.q_head_stride = params.o_head_stride = params.do_head_stride = params.dq_head_stride = int64_t(S) * HEAD_DIM;
  params.k_head_stride = params.v_head_stride = params.dk_head_stride = params.dv_head_stride = int64_t(Skv) * HEAD_DIM;
  params.q_row_stride = params.o_row_stride = params.do_row_stride = params.dq_row_stride = HEAD_DIM;
  params.k_row_stride = params.v_row_stride = params.dk_row_stride = params.dv_row_stride = HEAD_DIM;
  params.v_dim_stride = 1;
  params.b = params.b_k = B, params.h = H, params.h_k = Hkv, params.seqlen_q = S, params.seqlen_k = Skv;
  params.d = params.d_rounded = params.dv = params.dv_rounded = HEAD_DIM;
  params.seqlen_q_rounded = rounded(S, tile), params.seqlen_k_rounded = rounded(Skv, KEYS);
  params.total_q = B * S, params.total_k = B * Skv;
  params.scale_softmax = scale;
  params.p_dropout = params.rp_dropout = 1.0f, params.p_dropout_in_uint8_t = 255;
  params.is_causal = causal, params.window_size_left = -1, params.window_size_right = causal ? 0 : -1;
  params.arch = 90, params.num_sm = multiprocessors;
  const int64_t rows = int64_t(B) * H * params.seqlen_q_rounded;
  const int64_t keys = int64_t(B) * Hkv * params.seqlen_k_rounded;
  params.dq_accum_ptr = scratch;
  params.dsoftmax_sum = scratch += rows * HEAD_DIM;
  params.softmax_lse_log2_ptr = scratch += rows;
  params.dq_semaphore = reinterpret_cast<int*>(scratch += rows);
  scratch += rows;
  const cudaStream_t on = static_cast<cudaStream_t>(stream);
  if (H == Hkv) {
    causal ? run<true, false>(params, on) : run<false, false>(params, on);
    return 0;
  }
  params.dk_accum_ptr = scratch, params.dv_accum_ptr = scratch + keys * HEAD_DIM;
  if (const cudaError_t code = cudaMemsetAsync(scratch, 0, 2 * keys * HEAD_DIM * sizeof(float), on)) return code;
  causal ? run<true, true>(params, on) : run<false, true>(params, on);
  return 0;
}
