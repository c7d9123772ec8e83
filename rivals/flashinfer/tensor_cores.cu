// FlashInfer's batch decode on tensor cores over a paged cache, for one or more queries a sequence, as C functions for
// one head dimension and one dtype: what BatchDecodeWithPagedKVCacheWrapper calls with use_tensor_cores, which its
// documentation advises for heads that share K and V. For fp16 and bf16 its backend "auto" is FlashAttention-2's
// template, because the other one neither splits keys nor puts heads that share K and V into one tile. build.sh defines
// WIDTH, ELEMENT, FUNCTION, FUNCTION_BYTES and FUNCTION_PLAN, which have the arguments of decode.cu's.
#include "narrowed.h"

#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/scheduler.cuh>
#include <flashinfer/attention/variants.cuh>

#include <vector>

#include "guarded.h"

// No namespace without a name: nvcc confuses it with FlashInfer's.
using namespace flashinfer;
using Params = BatchPrefillPagedParams<ELEMENT, ELEMENT, ELEMENT, int32_t>;
// Without a mask of its own, a window, capped logits or slopes.
using Variant = DefaultAttention<false, false, false, false>;
constexpr bool DEPENDENT_LAUNCHES = true;  // the wrapper's choice on Hopper

// The last S queries of each sequence. Draft queries need a causal mask, a single one none.
struct Queries {
  std::vector<int32_t> ends;
  Queries(int B, int S) {
    for (int b = 0; b <= B; ++b) ends.push_back(b * S);
  }
};

template <uint32_t ROWS, MaskMode MASK>
static cudaError_t run(Params params, ELEMENT* partial, float* partial_lse, cudaStream_t stream) {
  constexpr bool FP16_SUMS = false;
  return BatchPrefillWithPagedKVCacheDispatched<ROWS, WIDTH, WIDTH, PosEncodingMode::kNone, FP16_SUMS, MASK, Variant,
                                                Params>(params, partial, partial_lse, DEPENDENT_LAUNCHES, stream);
}

template <MaskMode MASK>
static cudaError_t run_tile(int64_t rows, const Params& params, ELEMENT* partial, float* partial_lse,
                            cudaStream_t stream) {
  if (rows == 16) return run<16, MASK>(params, partial, partial_lse, stream);
  if constexpr (MASK == MaskMode::kCausal)
    if (rows == 64) return run<64, MASK>(params, partial, partial_lse, stream);
  FLASHINFER_ERROR("more than 64 rows of queries share K and V, or more than 16 heads, which no model here has");
}

extern "C" int FUNCTION_BYTES(int32_t* ends, int B, int H, int Hkv, int S, int page, int graph, int64_t* float_bytes,
                              int64_t* int_bytes) {
  return guarded([&] {
    size_t floats = 0, ints = 0;
    const cudaError_t code = PrefillPlanWorkspaceSize<int32_t>(
        floats, ints, Queries(B, S).ends.data(), ends, B * S, B, H, Hkv, WIDTH, WIDTH, page, graph != 0,
        sizeof(ELEMENT), -1, -1, false, 0, S > 1 ? S : 0, nullptr, sizeof(ELEMENT));
    *float_bytes = floats, *int_bytes = ints;
    return code;
  });
}

extern "C" int FUNCTION_PLAN(int32_t* ends, int B, int H, int Hkv, int S, int page, int graph, void* floats,
                             int64_t float_bytes, void* ints, void* pinned, int64_t int_bytes, int64_t* plan,
                             void* stream) {
  return guarded([&] {
    PrefillPlanInfo info;
    const cudaError_t code =
        PrefillPlan<int32_t>(floats, float_bytes, ints, pinned, int_bytes, info, Queries(B, S).ends.data(), ends, B * S,
                             B, H, Hkv, WIDTH, WIDTH, page, graph != 0, sizeof(ELEMENT), -1, -1, false, 0,
                             S > 1 ? S : 0, static_cast<cudaStream_t>(stream), sizeof(ELEMENT));
    const auto numbers = info.ToVector();
    std::copy(numbers.begin(), numbers.end(), plan);
    return code;
  });
}

// q and o [B, S, H, WIDTH]; query_ends [B + 1] on the device: b * S. The rest as in decode.cu.
extern "C" int FUNCTION(void* q, void* k, void* v, void* o, int32_t* query_ends, int32_t* ends, int32_t* pages,
                        int32_t* rows_of_last, void* floats, void* ints, const int64_t* plan, int B, int H, int Hkv,
                        int S, int page, float scale, void* stream) {
  return guarded([&] {
    PrefillPlanInfo info;
    info.FromVector({plan, plan + 15});
    Params params;
    params.q = static_cast<ELEMENT*>(q), params.o = static_cast<ELEMENT*>(o), params.q_indptr = query_ends;
    params.paged_kv = paged_kv_t<ELEMENT, int32_t>(Hkv, page, WIDTH, B, QKVLayout::kNHD, static_cast<ELEMENT*>(k),
                                                   static_cast<ELEMENT*>(v), pages, ends, rows_of_last);
    params.num_qo_heads = H, params.group_size = uint_fastdiv(H / Hkv);
    params.q_stride_n = H * WIDTH, params.q_stride_h = WIDTH;
    params.window_left = -1, params.sm_scale = scale, params.rope_rcp_scale = params.rope_rcp_theta = 1.0f;
    params.request_indices = GetPtrFromBaseOffset<int32_t>(ints, info.request_indices_offset);
    params.qo_tile_indices = GetPtrFromBaseOffset<int32_t>(ints, info.qo_tile_indices_offset);
    params.kv_tile_indices = GetPtrFromBaseOffset<int32_t>(ints, info.kv_tile_indices_offset);
    params.o_indptr = GetPtrFromBaseOffset<int32_t>(ints, info.o_indptr_offset);
    params.kv_chunk_size_ptr = GetPtrFromBaseOffset<int32_t>(ints, info.kv_chunk_size_ptr_offset);
    ELEMENT* partial = nullptr;
    float* partial_lse = nullptr;
    if (info.split_kv) {
      params.merge_indptr = GetPtrFromBaseOffset<int32_t>(ints, info.merge_indptr_offset);
      partial = GetPtrFromBaseOffset<ELEMENT>(floats, info.v_offset);
      partial_lse = GetPtrFromBaseOffset<float>(floats, info.s_offset);
      if (info.enable_cuda_graph)
        params.block_valid_mask = GetPtrFromBaseOffset<bool>(ints, info.block_valid_mask_offset);
    }
    params.padded_batch_size = info.padded_batch_size, params.max_total_num_rows = info.total_num_rows;
    if (info.enable_cuda_graph)
      params.total_num_rows = GetPtrFromBaseOffset<uint32_t>(ints, info.total_num_rows_offset);
    const cudaStream_t on = static_cast<cudaStream_t>(stream);
    if (S > 1) return run_tile<MaskMode::kCausal>(info.cta_tile_q, params, partial, partial_lse, on);
    return run_tile<MaskMode::kNone>(info.cta_tile_q, params, partial, partial_lse, on);
  });
}
