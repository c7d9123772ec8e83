// FlashAttention-3's forward pass as a C function, for one head dimension of Q and K, one of V and O, and one dtype.
// build.sh defines HEAD_DIM, VALUE_DIM, ELEMENT, IS_BF16 and FUNCTION. The kernels need neither PyTorch nor
// FlashAttention's build, only Flash_fwd_params.
#include "flash_fwd_launch_template.h"

template void run_mha_fwd_<90, ELEMENT, HEAD_DIM, VALUE_DIM, false, false, false, false>(Flash_fwd_params& params,
                                                                                         cudaStream_t stream);

// q is [B, H, S, HEAD_DIM], k is [B, Hkv, Skv, HEAD_DIM], and v and o are like k and q with VALUE_DIM, all contiguous.
// lse is [B, H, S] in fp32, and semaphore is one int. The causal mask aligns the last query with the last key. Returns
// 0, or the CUDA error of clearing the semaphore.
extern "C" int FUNCTION(void* q, void* k, void* v, void* o, float* lse, int* semaphore, int B, int H, int Hkv, int S,
                        int Skv, int causal, float scale, int multiprocessors, void* stream) {
  Flash_fwd_params params{};
  params.q_ptr = q, params.k_ptr = k, params.v_ptr = v, params.o_ptr = o, params.softmax_lse_ptr = lse;
  params.is_bf16 = IS_BF16;
  params.q_batch_stride = int64_t(H) * S * HEAD_DIM, params.o_batch_stride = int64_t(H) * S * VALUE_DIM;
  params.k_batch_stride = int64_t(Hkv) * Skv * HEAD_DIM, params.v_batch_stride = int64_t(Hkv) * Skv * VALUE_DIM;
  params.q_head_stride = int64_t(S) * HEAD_DIM, params.o_head_stride = int64_t(S) * VALUE_DIM;
  params.k_head_stride = int64_t(Skv) * HEAD_DIM, params.v_head_stride = int64_t(Skv) * VALUE_DIM;
  params.q_row_stride = params.k_row_stride = HEAD_DIM, params.v_row_stride = params.o_row_stride = VALUE_DIM;
  params.v_dim_stride = 1;
  params.b = params.b_k = B, params.h = H, params.h_k = Hkv, params.seqlen_q = S, params.seqlen_k = Skv;
  params.d = params.d_rounded = HEAD_DIM, params.dv = params.dv_rounded = VALUE_DIM;
  params.seqlen_q_rounded = (S + 127) / 128 * 128, params.seqlen_k_rounded = (Skv + 127) / 128 * 128;
  params.total_q = B * S, params.total_k = B * Skv;
  params.scale_softmax = scale;
  params.p_dropout = params.rp_dropout = 1.0f, params.p_dropout_in_uint8_t = 255;
  params.is_causal = causal, params.window_size_left = -1, params.window_size_right = causal ? 0 : -1;
  params.num_splits = 1, params.arch = 90, params.num_sm = multiprocessors;
  params.tile_count_semaphore = semaphore;  // for the scheduler of causal launches, which starts at 0
  const cudaStream_t on = static_cast<cudaStream_t>(stream);
  if (causal)
    if (const cudaError_t code = cudaMemsetAsync(semaphore, 0, sizeof(int), on)) return code;
  run_mha_fwd_<90, ELEMENT, HEAD_DIM, VALUE_DIM, false, false, false, false>(params, on);
  return 0;
}
