// The names of cuRAND, for kernels that could draw random numbers but do not: drawing one ends in a trap.
// A toolkit with cuRAND has its own header.
#pragma once
#include <cuda_runtime.h>

struct curandStatePhilox4_32_10_t {
  uint4 ctr, output;
  uint2 key;
  unsigned state;
};
struct curandStateXORWOW_t {
  unsigned d, v[5];
};
using curandState_t = curandStateXORWOW_t;
using curandState = curandStateXORWOW_t;

template <class State>
__device__ void curand_init(unsigned long long, unsigned long long, unsigned long long, State*) {
  __trap();
}
#define FLASHCORE_CURAND(TYPE, NAME) \
  template <class State>             \
  __device__ TYPE NAME(State*) {     \
    __trap();                        \
    return {};                       \
  }
FLASHCORE_CURAND(unsigned, curand)
FLASHCORE_CURAND(float, curand_uniform)
FLASHCORE_CURAND(float, curand_normal)
FLASHCORE_CURAND(double, curand_uniform_double)
FLASHCORE_CURAND(double, curand_normal_double)
FLASHCORE_CURAND(float4, curand_uniform4)
#undef FLASHCORE_CURAND
