// What the programs of checked.cu, documented.cu and audited.cu share.
#pragma once
#include <stdint.h>

#define PARAMETERS const float *in, float *out, int *scratch, int n
#define PROGRAM(NAME) extern "C" __global__ void NAME(PARAMETERS)
#define PROGRAM_OF_CLUSTER(NAME) extern "C" __global__ void __cluster_dims__(2) NAME(PARAMETERS)

// A correct program and one or two with a fault from one body. FAULT is 0 in the correct one, where RIGHT is true.
#define PAIR(CORRECT, FAULTY) PAIR_OF(PROGRAM, CORRECT, FAULTY)
#define PAIR_OF_CLUSTER(CORRECT, FAULTY) PAIR_OF(PROGRAM_OF_CLUSTER, CORRECT, FAULTY)
#define PAIR_OF(KIND, CORRECT, FAULTY)                            \
  template <int FAULT, bool RIGHT>                                \
  __device__ __forceinline__ void CORRECT##_body(PARAMETERS);     \
  KIND(CORRECT) { CORRECT##_body<0, true>(in, out, scratch, n); } \
  KIND(FAULTY) { CORRECT##_body<1, false>(in, out, scratch, n); } \
  template <int FAULT, bool RIGHT>                                \
  __device__ __forceinline__ void CORRECT##_body(PARAMETERS)
#define TRIO(CORRECT, FAULTY, ALSO_FAULTY)                                \
  template <int FAULT, bool RIGHT>                                        \
  __device__ __forceinline__ void CORRECT##_body(PARAMETERS);             \
  PROGRAM(ALSO_FAULTY) { CORRECT##_body<2, false>(in, out, scratch, n); } \
  PAIR(CORRECT, FAULTY)

constexpr unsigned ALL = 0xffffffff;

__device__ __forceinline__ uint32_t shared_at(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}
