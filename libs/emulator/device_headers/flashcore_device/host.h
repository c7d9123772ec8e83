// The names that host functions of a .cu use, so that the device code of a source with host functions can be compiled.
// Nothing here is defined, because host functions of a kernel never run.
#pragma once
#include "../vector_types.h"

#include <cstddef>

// Types of the C library, for host and device functions.
using uint = unsigned;
using ushort = unsigned short;
using ulong = unsigned long;

struct CUstream_st;
struct CUevent_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
enum cudaError { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2 };
using cudaError_t = cudaError;
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaDeviceAttr { cudaDevAttrMaxSharedMemoryPerBlock = 8, cudaDevAttrMultiProcessorCount = 16 };
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor;
  int clockRate, memoryClockRate, memoryBusWidth, multiProcessorCount, maxThreadsPerBlock, maxThreadsPerMultiProcessor,
      warpSize, major, minor, l2CacheSize, regsPerBlock;
};

// clang compiles <<< >>> to this call if it has no toolkit.
cudaError_t cudaConfigureCall(dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t = nullptr);

// First, names of the C library that device code also has, as host overloads,
__attribute__((host)) void exit(int);
__attribute__((host)) void abort();
__attribute__((host)) void __assertfail(const char*, const char*, unsigned, const char*, size_t);
__attribute__((host)) int printf(const char*, ...);
#define FLASHCORE_HOST_MATH(NAME)            \
  __attribute__((host)) double NAME(double); \
  __attribute__((host)) float NAME##f(float);
FLASHCORE_HOST_MATH(ceil)
FLASHCORE_HOST_MATH(exp)
FLASHCORE_HOST_MATH(fabs)
FLASHCORE_HOST_MATH(floor)
FLASHCORE_HOST_MATH(log)
FLASHCORE_HOST_MATH(sqrt)
FLASHCORE_HOST_MATH(tanh)
#undef FLASHCORE_HOST_MATH
__attribute__((host)) float fmaxf(float, float);
__attribute__((host)) float abs(float);
__attribute__((host)) double abs(double);
#define FLASHCORE_HOST_EXTREMES(T)   \
  __attribute__((host)) T max(T, T); \
  __attribute__((host)) T min(T, T);
FLASHCORE_HOST_EXTREMES(float)
FLASHCORE_HOST_EXTREMES(double)
#undef FLASHCORE_HOST_EXTREMES
__attribute__((host)) void* memcpy(void*, const void*, size_t);
__attribute__((host)) void* memset(void*, int, size_t);

// then names that only host functions use.
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define RAND_MAX 2147483647
struct FILE;
extern FILE *stdin, *stdout, *stderr;
FILE* fopen(const char*, const char*);
int fclose(FILE*);
int fflush(FILE*);
size_t fread(void*, size_t, size_t, FILE*);
size_t fwrite(const void*, size_t, size_t, FILE*);
int fprintf(FILE*, const char*, ...);
int sprintf(char*, const char*, ...);
int snprintf(char*, size_t, const char*, ...);
int puts(const char*);
void* malloc(size_t);
void* calloc(size_t, size_t);
void free(void*);
int rand();
void srand(unsigned);
int atoi(const char*);
double atof(const char*);
char* getenv(const char*);
int strcmp(const char*, const char*);
const char* strrchr(const char*, int);
size_t strlen(const char*);

cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorString(cudaError_t);
const char* cudaGetErrorName(cudaError_t);
template <class T>
cudaError_t cudaMalloc(T** pointer, size_t bytes);
template <class T>
cudaError_t cudaMallocHost(T** pointer, size_t bytes);
cudaError_t cudaFree(void*);
cudaError_t cudaFreeHost(void*);
cudaError_t cudaMemcpy(void*, const void*, size_t, cudaMemcpyKind);
cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t = nullptr);
cudaError_t cudaMemset(void*, int, size_t);
cudaError_t cudaMemsetAsync(void*, int, size_t, cudaStream_t = nullptr);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaSetDevice(int);
cudaError_t cudaRuntimeGetVersion(int*);
cudaError_t cudaDriverGetVersion(int*);
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
