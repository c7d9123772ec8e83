// What the host functions of a .cu name, so that a source that has some compiles to its device code. Nothing here is
// defined: no host function of a kernel is ever compiled further, or run.
#pragma once
#include "../vector_types.h"

#include <cstddef>

struct CUstream_st;
struct CUevent_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
enum cudaError { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2 };
using cudaError_t = cudaError;
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaDeviceAttr { cudaDevAttrMaxSharedMemoryPerBlock = 8, cudaDevAttrMultiProcessorCount = 16 };
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
  int multiProcessorCount, maxThreadsPerBlock, maxThreadsPerMultiProcessor, warpSize, major, minor, l2CacheSize,
      regsPerBlock;
};

// What clang makes of a launch in <<< >>> where it knows of no toolkit.
cudaError_t cudaConfigureCall(dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t = nullptr);

// Of the C library: overloads for host functions of what device functions have.
__attribute__((host)) void exit(int);
__attribute__((host)) void abort();
__attribute__((host)) void __assertfail(const char*, const char*, unsigned, const char*, size_t);
__attribute__((host)) int printf(const char*, ...);
__attribute__((host)) double ceil(double);
__attribute__((host)) double floor(double);
__attribute__((host)) double sqrt(double);
__attribute__((host)) float sqrtf(float);
__attribute__((host)) float ceilf(float);

cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorString(cudaError_t);
const char* cudaGetErrorName(cudaError_t);
template <class T>
cudaError_t cudaMalloc(T** pointer, size_t bytes);
cudaError_t cudaFree(void*);
cudaError_t cudaMemcpy(void*, const void*, size_t, cudaMemcpyKind);
cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t = nullptr);
cudaError_t cudaMemset(void*, int, size_t);
cudaError_t cudaMemsetAsync(void*, int, size_t, cudaStream_t = nullptr);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaSetDevice(int);
cudaError_t cudaGetDevice(int*);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int);
cudaError_t cudaDeviceGetAttribute(int*, cudaDeviceAttr, int);
template <class T>
cudaError_t cudaFuncSetAttribute(T* entry, cudaFuncAttribute, int value);
template <class T>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int*, T entry, int, size_t);
template <class T>
cudaError_t cudaLaunchCooperativeKernel(T* entry, dim3, dim3, void**, size_t = 0, cudaStream_t = nullptr);
cudaError_t cudaStreamCreate(cudaStream_t*);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaEventCreate(cudaEvent_t*);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float*, cudaEvent_t, cudaEvent_t);
cudaError_t cudaEventDestroy(cudaEvent_t);
