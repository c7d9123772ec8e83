// 8-bit types, for sources that include the header without using its functions, which are missing here.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

struct __nv_fp8_e4m3 {
  unsigned char __x;
};
struct __nv_fp8_e5m2 {
  unsigned char __x;
};
