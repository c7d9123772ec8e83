// Element is the dtype of Q, K, V and O: bf16 if kernel.yaml has a parameter BF16 that is 1, else fp16.
#pragma once
#include "primitives/convert.cuh"

#if BF16
#include <cuda_bf16.h>
using Element = __nv_bfloat16;
using Element2 = __nv_bfloat162;
constexpr bool ELEMENT_IS_BF16 = true;
constexpr uint32_t ELEMENT2_ONES = 0x3F803F80;  // 1.0 twice

__device__ __forceinline__ float to_float(Element x) { return __bfloat162float(x); }
__device__ __forceinline__ float2 to_float2(Element2 pair) { return __bfloat1622float2(pair); }
__device__ __forceinline__ Element to_element(float x) { return __float2bfloat16_rn(x); }
#else
#include <cuda_fp16.h>
using Element = half;
using Element2 = half2;
constexpr bool ELEMENT_IS_BF16 = false;
constexpr uint32_t ELEMENT2_ONES = 0x3C003C00;  // 1.0 twice

__device__ __forceinline__ float to_float(Element x) { return __half2float(x); }
__device__ __forceinline__ float2 to_float2(Element2 pair) { return __half22float2(pair); }
__device__ __forceinline__ Element to_element(float x) { return __float2half_rn(x); }
#endif

// Rounds two floats to elements (to nearest even) and packs them, with `low` in the lower 16 bits.
__device__ __forceinline__ uint32_t pack_elements(float low, float high) {
  if constexpr (ELEMENT_IS_BF16)
    return pack_bfloat2(low, high);
  else
    return pack_half2(low, high);
}
