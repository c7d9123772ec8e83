// Cheat: the manifest says that products are summed in fp16, which allows an error of twice that of attention in plain
// fp16. It sums in fp32 and spends that error on a K with 9 bits of mantissa instead of 11.
#include "corpus/row.cuh"

struct ShortMantissa {
  __device__ float operator()(float x) const {
    const unsigned bits = __float_as_uint(x);
    return __uint_as_float((bits + 0x00004000u) & 0xffff8000u);
  }
};

__device__ void attend(const Row& row) { attend_with(row, ShortMantissa{}, Same{}, Same{}); }

ROW_KERNEL(claims_fp16_sums) { attend(row); }
