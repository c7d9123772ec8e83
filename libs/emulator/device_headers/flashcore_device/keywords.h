// CUDA's keywords and built-in variables for clang, which knows them as attributes. The
// functions of these headers have no debug information (nodebug): their instructions
// belong to the kernel's line that calls them. Faults, races and counters name that line.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#if __has_attribute(grid_constant)
#define __grid_constant__ __attribute__((grid_constant))
#else
#define __grid_constant__
#endif
#if __has_attribute(cluster_dims)
#define __cluster_dims__(...) __attribute__((cluster_dims(__VA_ARGS__)))
#endif

#define __CUDACC__ 1
#define CUDART_VERSION 12000
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 0

#define FLASHCORE_DEVICE static __inline__ __attribute__((device, always_inline, nodebug))
#define FLASHCORE_BOTH static __inline__ __attribute__((host, device, always_inline, nodebug))
#define FLASHCORE_MEMBER __attribute__((host, device, always_inline, nodebug))
#define FLASHCORE_DEVICE_MEMBER __attribute__((device, always_inline, nodebug))
