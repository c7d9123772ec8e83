// Types of 8 bits, for sources that only include their header: none of their functions is here.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

struct __nv_fp8_e4m3 {
  unsigned char __x;
};
struct __nv_fp8_e5m2 {
  unsigned char __x;
};
