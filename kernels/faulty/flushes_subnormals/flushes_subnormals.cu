// Mistake: values below 2^-14, the smallest normal number of fp16, are treated as zero.
#include "faulty/changed_keys.cuh"

ROW_KERNEL(flushes_subnormals) {
  attend_changed(row, [](half x) { return fabsf(__half2float(x)) < 6.103515625e-5f ? __float2half_rn(0.0f) : x; });
}
