// CUDA's keywords and built-in variables, for a C++ compiler.
#pragma once
#include "abi.h"

#define __host__
#define __device__
#define __global__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))

// A block runs on one OS thread from start to end, so a thread-local variable belongs to exactly one block at a time.
#define __shared__ thread_local

// Replaces `extern __shared__ TYPE NAME[];` (README.md, "Dynamic shared memory").
#define FLASHCORE_DYNAMIC_SHARED(NAME, ...) __VA_ARGS__* const NAME = ::flashcore::emu::dynamic_shared()

#define threadIdx (::flashcore::emu::self().thread_index)
#define blockIdx (::flashcore::emu::self().block_index)
#define blockDim (::flashcore::emu::self().block_dim)
#define gridDim (::flashcore::emu::self().grid_dim)
constexpr int warpSize = 32;

namespace flashcore::emu {

struct DynamicShared {
  char* base;
  template <class T>
  operator T*() const {
    return reinterpret_cast<T*>(base);
  }
};
inline __attribute__((always_inline)) DynamicShared dynamic_shared() { return {self().dynamic_shared}; }

}  // namespace flashcore::emu
