// FlashAttention-3's kernel that merges the parts of split keys, for full sequences: run_mha_fwd_combine_() would compile
// it for others, too.
#pragma once
#include "flash_fwd_combine_launch_template.h"

// Static, because each object has its own HEAD_DIM and ELEMENT.
template <int LOG_MOST_SPLITS>
static void combine_at_most(Flash_fwd_params& params, cudaStream_t stream) {
  constexpr int COLUMNS = HEAD_DIM <= 64 ? 64 : 128, ROWS = COLUMNS == 64 ? 16 : 8;
  run_flash_fwd_combine<90, ROWS, COLUMNS, LOG_MOST_SPLITS, false, false, ELEMENT, float>(params, stream, true);
}

// For at most 128 splits.
static void combine(Flash_fwd_params& params, cudaStream_t stream) {
  if (HEAD_DIM <= 64 && params.num_splits <= 16) return combine_at_most<HEAD_DIM <= 64 ? 4 : 5>(params, stream);
  if (params.num_splits <= 32) return combine_at_most<5>(params, stream);
  if (params.num_splits <= 64) return combine_at_most<6>(params, stream);
  combine_at_most<7>(params, stream);
}
