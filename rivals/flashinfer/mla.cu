// FlashInfer's multi-head latent attention for Hopper over a paged cache, as C functions for one dtype: what
// BatchMLAPagedAttentionWrapper calls there. build.sh defines ELEMENT, FUNCTION and FUNCTION_PLAN. A row of the cache
// has 512 columns of the latent vector, which are also the values, and 64 with rotary embedding.
#include <flashinfer/attention/mla_hopper.cuh>
#include <flashinfer/attention/scheduler.cuh>
#include <flashinfer/fastdiv.cuh>

#include <vector>

#include "guarded.h"

// No namespace without a name: nvcc confuses it with FlashInfer's.
using namespace flashinfer;
using Params = MLAParams<ELEMENT, ELEMENT, ELEMENT, int32_t>;
constexpr int LATENT = 512, ROTARY = 64, COLUMNS = LATENT + ROTARY;

// Plans on the host and copies the plan to `ints` on the stream; `pinned` is host memory of the same size, unchanged
// until the copy has ended. On the host: ends [B + 1], after which page of the list of pages each sequence ends, and
// lengths [B]. Draft queries do not see the keys of those after them. Workspaces: 8 MiB of ints, 128 MiB of floats.
// plan: 18 numbers for FUNCTION. Returns 0, a CUDA error, or -1.
extern "C" int FUNCTION_PLAN(int32_t* ends, int32_t* lengths, int B, int H, int S, void* floats, int64_t float_bytes,
                             void* ints, void* pinned, int64_t int_bytes, int64_t* plan, void* stream) {
  return guarded([&] {
    std::vector<int32_t> query_ends;
    for (int b = 0; b <= B; ++b) query_ends.push_back(b * S);
    MLAPlanInfo info;
    const cudaError_t code = MLAPlan<int32_t>(floats, float_bytes, ints, pinned, int_bytes, info, query_ends.data(),
                                              ends, lengths, B, H, LATENT, S > 1, static_cast<cudaStream_t>(stream));
    const auto numbers = info.ToVector();
    std::copy(numbers.begin(), numbers.end(), plan);
    return code;
  });
}

// q [B, S, H, 576], cache [pages, page, 576], o [B, S, H, 512], contiguous; pages: the list of pages, on the device.
// Returns 0, a CUDA error, or -1.
extern "C" int FUNCTION(void* q, void* cache, void* o, int32_t* pages, void* floats, void* ints, const int64_t* plan,
                        int H, int S, int page, float scale, void* stream) {
  return guarded([&] {
    MLAPlanInfo info;
    info.FromVector({plan, plan + 18});
    const auto int_at = [&](int64_t offset) { return GetPtrFromBaseOffset<int32_t>(ints, offset); };
    Params params{};
    params.q_nope = static_cast<ELEMENT*>(q), params.q_pe = params.q_nope + LATENT;
    params.ckv = static_cast<ELEMENT*>(cache), params.kpe = params.ckv + LATENT;
    params.final_o = static_cast<ELEMENT*>(o), params.kv_indices = pages;
    params.partial_o = GetPtrFromBaseOffset<ELEMENT>(floats, info.partial_o_offset);
    params.partial_lse = GetPtrFromBaseOffset<float>(floats, info.partial_lse_offset);
    params.q_indptr = int_at(info.q_indptr_offset), params.kv_indptr = int_at(info.kv_indptr_offset);
    params.partial_indptr = int_at(info.partial_indptr_offset);
    params.merge_packed_offset_start = int_at(info.merge_packed_offset_start_offset);
    params.merge_packed_offset_end = int_at(info.merge_packed_offset_end_offset);
    params.merge_partial_packed_offset_start = int_at(info.merge_partial_packed_offset_start_offset);
    params.merge_partial_packed_offset_end = int_at(info.merge_partial_packed_offset_end_offset);
    params.merge_partial_stride = int_at(info.merge_partial_stride_offset);
    params.q_len = int_at(info.q_len_offset), params.kv_len = int_at(info.kv_len_offset);
    params.q_start = int_at(info.q_start_offset);
    params.kv_start = int_at(info.kv_start_offset), params.kv_end = int_at(info.kv_end_offset);
    params.work_indptr = int_at(info.work_indptr_offset);
    params.num_heads = uint_fastdiv(H), params.block_size = uint_fastdiv(page);
    params.q_nope_stride_h = params.q_pe_stride_h = COLUMNS;
    params.q_nope_stride_n = params.q_pe_stride_n = H * COLUMNS;
    params.ckv_stride_n = params.kpe_stride_n = COLUMNS;
    params.ckv_stride_page = params.kpe_stride_page = page * COLUMNS;
    params.o_stride_h = LATENT, params.o_stride_n = H * LATENT;
    params.sm_scale = scale, params.ckv_scale = params.kpe_scale = 1.0f, params.return_lse_base_on_e = false;
    const cudaStream_t on = static_cast<cudaStream_t>(stream);
    if (S > 1)
      return mla::BatchMLAPageAttentionHopper<MaskMode::kCausal, LATENT, ROTARY>(params, info.num_blks_x,
                                                                                 info.num_blks_y, on);
    return mla::BatchMLAPageAttentionHopper<MaskMode::kNone, LATENT, ROTARY>(params, info.num_blks_x, info.num_blks_y,
                                                                             on);
  });
}
