// FlashInfer's batch decode on CUDA cores over a paged cache, for one query a sequence, as C functions for one head
// dimension and one dtype: what BatchDecodeWithPagedKVCacheWrapper calls without use_tensor_cores. build.sh defines
// WIDTH, ELEMENT, FUNCTION, FUNCTION_BYTES and FUNCTION_PLAN. H / Hkv is 1, 2, 3, 4, 6 or 8.
#include <flashinfer/attention/decode.cuh>
#include <flashinfer/attention/default_decode_params.cuh>
#include <flashinfer/attention/scheduler.cuh>
#include <flashinfer/attention/variants.cuh>

#include "guarded.h"

// No anonymous namespace here: nvcc confuses it with FlashInfer's.
using namespace flashinfer;
using Params = BatchDecodeParams<ELEMENT, ELEMENT, ELEMENT, int32_t>;
// Without a mask, a window, capped logits or slopes.
using Variant = DefaultAttention<false, false, false, false>;
constexpr PosEncodingMode POSITIONS = PosEncodingMode::kNone;

using Estimation = cudaError_t (*)(bool&, uint32_t&, uint32_t&, uint32_t&, uint32_t&, uint32_t, int32_t*, uint32_t,
                                   uint32_t, bool, cudaStream_t);

static Estimation estimation_of(int group) {
  DISPATCH_GQA_GROUP_SIZE(group, GROUP, {
    return BatchDecodeWithPagedKVCacheWorkEstimationDispatched<GROUP, WIDTH, POSITIONS, Variant, Params>;
  });
  return nullptr;
}

// Bytes of the two workspaces for these arguments, as FUNCTION_PLAN's. Returns 0, a CUDA error, or -1.
extern "C" int FUNCTION_BYTES(int32_t* ends, int B, int H, int Hkv, int S, int page, int graph, int64_t* float_bytes,
                              int64_t* int_bytes) {
  return guarded([&] {
    size_t floats = 0, ints = 0;
    const cudaError_t code = DecodePlanWorkspaceSize<WIDTH, POSITIONS, Variant, Params>(
        floats, ints, ends, B, H, page, graph != 0, nullptr, estimation_of(H / Hkv));
    *float_bytes = floats, *int_bytes = ints;
    return code;
  });
}

// Plans on the host and copies the plan to `ints` on the stream; `pinned` is host memory of the same size, unchanged
// until the copy has ended. ends [B + 1] on the host: after which page of the list of pages each sequence ends. graph:
// 1 plans for launches that other lengths of as many sequences could replay, as the wrapper does with use_cuda_graph; 0
// for these lengths only. plan: 16 numbers for FUNCTION. Returns 0, a CUDA error, or -1.
extern "C" int FUNCTION_PLAN(int32_t* ends, int B, int H, int Hkv, int S, int page, int graph, void* floats,
                             int64_t float_bytes, void* ints, void* pinned, int64_t int_bytes, int64_t* plan,
                             void* stream) {
  return guarded([&] {
    DecodePlanInfo info;
    const cudaError_t code = DecodePlan<WIDTH, POSITIONS, Variant, Params>(
        floats, float_bytes, ints, pinned, int_bytes, info, ends, B, H, page, graph != 0,
        static_cast<cudaStream_t>(stream), estimation_of(H / Hkv));
    const auto numbers = info.ToVector();
    std::copy(numbers.begin(), numbers.end(), plan);
    return code;
  });
}

// q and o [B, H, WIDTH], k and v [pages, page, Hkv, WIDTH], contiguous. On the device: ends as above, pages, the
// list of pages, and rows_of_last [B], the keys in the last page of each sequence. S is 1 and query_ends is not read.
// Returns 0, a CUDA error, or -1.
extern "C" int FUNCTION(void* q, void* k, void* v, void* o, int32_t* query_ends, int32_t* ends, int32_t* pages,
                        int32_t* rows_of_last, void* floats, void* ints, const int64_t* plan, int B, int H, int Hkv,
                        int S, int page, float scale, void* stream) {
  return guarded([&] {
    DecodePlanInfo info;
    info.FromVector({plan, plan + 10});
    Params params;
    params.q = static_cast<ELEMENT*>(q), params.o = static_cast<ELEMENT*>(o);
    params.paged_kv = paged_kv_t<ELEMENT, int32_t>(Hkv, page, WIDTH, B, QKVLayout::kNHD, static_cast<ELEMENT*>(k),
                                                   static_cast<ELEMENT*>(v), pages, ends, rows_of_last);
    params.padded_batch_size = info.padded_batch_size, params.num_qo_heads = H;
    params.q_stride_n = H * WIDTH, params.q_stride_h = WIDTH;
    params.window_left = -1, params.sm_scale = scale, params.rope_rcp_scale = params.rope_rcp_theta = 1.0f;
    params.request_indices = GetPtrFromBaseOffset<int32_t>(ints, info.request_indices_offset);
    params.kv_tile_indices = GetPtrFromBaseOffset<int32_t>(ints, info.kv_tile_indices_offset);
    params.o_indptr = GetPtrFromBaseOffset<int32_t>(ints, info.o_indptr_offset);
    params.kv_chunk_size_ptr = GetPtrFromBaseOffset<int32_t>(ints, info.kv_chunk_size_ptr_offset);
    ELEMENT* partial = nullptr;
    float* partial_lse = nullptr;
    if (info.split_kv) {
      partial = GetPtrFromBaseOffset<ELEMENT>(floats, info.v_offset);
      partial_lse = GetPtrFromBaseOffset<float>(floats, info.s_offset);
      if (info.enable_cuda_graph)
        params.block_valid_mask = GetPtrFromBaseOffset<bool>(ints, info.block_valid_mask_offset);
    }
    constexpr bool DEPENDENT_LAUNCHES = true;  // the wrapper's choice on Hopper
    return BatchDecodeWithPagedKVCacheDispatched<WIDTH, POSITIONS, Variant, Params>(
        params, partial, partial_lse, DEPENDENT_LAUNCHES, static_cast<cudaStream_t>(stream));
  });
}
