// The names of cuBLAS in host code, for sources that compare themselves with it: their device code compiles without the
// library. Nothing here has an effect, and host code of a kernel is never run. A toolkit with cuBLAS has its own header.
#pragma once
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#if __has_include(<library_types.h>)
#include <library_types.h>
#else
enum cudaDataType_t { CUDA_R_16F, CUDA_R_16BF, CUDA_R_32F, CUDA_R_64F };
using cudaDataType = cudaDataType_t;
#endif

using cublasHandle_t = struct cublasContext*;
using cublasLtHandle_t = struct cublasLtContext*;
enum cublasStatus_t { CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_INITIALIZED };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasMath_t { CUBLAS_DEFAULT_MATH, CUBLAS_TENSOR_OP_MATH, CUBLAS_TF32_TENSOR_OP_MATH, CUBLAS_PEDANTIC_MATH };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT, CUBLAS_GEMM_DEFAULT_TENSOR_OP };
enum cublasComputeType_t {
  CUBLAS_COMPUTE_16F,
  CUBLAS_COMPUTE_32F,
  CUBLAS_COMPUTE_32F_FAST_16BF,
  CUBLAS_COMPUTE_32F_FAST_TF32
};

#define FLASHCORE_CUBLAS(NAME)    \
  template <class... T>           \
  cublasStatus_t NAME(T...) {     \
    return CUBLAS_STATUS_SUCCESS; \
  }
FLASHCORE_CUBLAS(cublasCreate)
FLASHCORE_CUBLAS(cublasDestroy)
FLASHCORE_CUBLAS(cublasSetStream)
FLASHCORE_CUBLAS(cublasSetMathMode)
FLASHCORE_CUBLAS(cublasSgemv)
FLASHCORE_CUBLAS(cublasSgemm)
FLASHCORE_CUBLAS(cublasHgemm)
FLASHCORE_CUBLAS(cublasGemmEx)
FLASHCORE_CUBLAS(cublasSgemmStridedBatched)
FLASHCORE_CUBLAS(cublasGemmStridedBatchedEx)
FLASHCORE_CUBLAS(cublasLtCreate)
FLASHCORE_CUBLAS(cublasLtDestroy)
#undef FLASHCORE_CUBLAS
inline const char* cublasGetStatusString(cublasStatus_t) { return ""; }
inline size_t cublasGetCudartVersion() { return 0; }
