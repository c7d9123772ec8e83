// What the programs of checked.cu, documented.cu and audited.cu share.
#pragma once
#include <stdint.h>

#define PARAMETERS const float *in, float *out, int *scratch, int n
#define PROGRAM(NAME) extern "C" __global__ void NAME(PARAMETERS)
#define PROGRAM_OF_CLUSTER(NAME) extern "C" __global__ void __cluster_dims__(2) NAME(PARAMETERS)

// A correct program and one with a fault from one body. RIGHT is true in the correct one.
#define PAIR(CORRECT, FAULTY) PAIR_OF(PROGRAM, CORRECT, FAULTY)
#define PAIR_OF_CLUSTER(CORRECT, FAULTY) PAIR_OF(PROGRAM_OF_CLUSTER, CORRECT, FAULTY)
#define PAIR_OF(KIND, CORRECT, FAULTY)                                \
  template <bool RIGHT>                                               \
  __device__ __forceinline__ void CORRECT##_or_##FAULTY(PARAMETERS);  \
  KIND(CORRECT) { CORRECT##_or_##FAULTY<true>(in, out, scratch, n); } \
  KIND(FAULTY) { CORRECT##_or_##FAULTY<false>(in, out, scratch, n); } \
  template <bool RIGHT>                                               \
  __device__ __forceinline__ void CORRECT##_or_##FAULTY(PARAMETERS)

constexpr unsigned ALL = 0xffffffff;

__device__ __forceinline__ uint32_t shared_at(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}
